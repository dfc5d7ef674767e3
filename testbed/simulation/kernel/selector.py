"""The kernel under a virtual loop: a clock that jumps, and a poll of virtual files instead of a `select` that waits.

What becomes ready besides timers is a *virtual file*, a simulated socket (`testbed/simulation/kernel/sockets.py`). Its
side books with `VirtualSelector.at` what happens when, and calls `wake` with the file that this may have made ready.

Invariant: virtual time never goes back and never passes while anything can run.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import selectors
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any, Protocol

CLEANUP_S = 60.0
"""Virtual time for tasks to clean up after the limit was reported."""

MAX_TASKS_SHOWN = 20
FIRST_FD = 1 << 20  # far above the descriptors of real files, so that one is never taken for a virtual file


class SimulationDeadlock(RuntimeError):
    """Every task waits, without a timer or a packet that could wake one; or one instant never ends."""


class SimulationTimeout(RuntimeError):
    """The virtual clock reached its limit before the simulation was done."""


class NotSimulated(NotImplementedError):
    """The code asked for something real: a thread, a socket, a name server, a signal."""


class VirtualFile(Protocol):
    """The part of a simulated socket that the selector uses."""

    fd: int

    def poll(self) -> int:
        """Return what would not block now: `selectors.EVENT_READ` and `selectors.EVENT_WRITE`, or-ed."""
        ...


class Soon(asyncio.Handle):
    """A callback that is due: asyncio's, without its record for the debug mode of the place where it was made."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None


class Timer(asyncio.TimerHandle):
    """A timer of a virtual loop: asyncio's, without its record for the debug mode, as `Soon`.

    It is made in one call, where asyncio needs three.
    """

    __slots__ = ()
    _context: Context
    _scheduled: bool

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._when, self._scheduled = when, False
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None


Timers = list[tuple[float, int, Timer]]
"""Heap of the timers of a loop, by their time and the order in which they were set."""


class VirtualSelector(selectors.BaseSelector):
    """The clock and the poll of a simulated kernel, level-triggered as the real ones are."""

    def __init__(self, *, start_s: float, limit_s: float) -> None:
        self.now_s = start_s
        self.timers: Timers = []  # kept by the loop
        self._end_s = start_s + limit_s
        self._files: dict[int, VirtualFile] = {}
        self._keys: dict[int, selectors.SelectorKey] = {}
        self.woken: dict[VirtualFile, None] = {}  # every file that is ready for a watched event is among these
        self.booked: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()  # bookings for one instant happen in the order of booking
        self._fds = itertools.count(FIRST_FD)

    def open(self) -> int:
        """Return a new descriptor for a virtual file; none is used twice."""
        return next(self._fds)

    def attach(self, file: VirtualFile) -> None:
        """Watch `file`."""
        self._files[file.fd] = file

    def detach(self, file: VirtualFile) -> None:
        """Forget `file`, which was closed."""
        self._files.pop(file.fd, None)
        self._keys.pop(file.fd, None)
        self.woken.pop(file, None)

    def at(self, when_s: float, happen: Callable[[], object]) -> None:
        """Call `happen` when the clock reaches `when_s`, before the timers of that instant.

        A booking is a tuple, and its callback is called at once: cheaper than a timer.
        """
        heapq.heappush(self.booked, (when_s, next(self._order), happen))

    def file(self, key: selectors.SelectorKey) -> VirtualFile:
        """The file of a key that `select` has returned."""
        return self._files[key.fd]

    def wake(self, file: VirtualFile) -> None:
        """Poll `file` in the next event-loop iteration, because something happened to it."""
        self.woken[file] = None

    def mark_read(self, file: VirtualFile) -> None:
        """Record that `file` has nothing to read. Unless it waits to write, `select` skips it until it is woken."""
        key = self._keys.get(file.fd)
        if key is None or not key.events & selectors.EVENT_WRITE:
            self.woken.pop(file, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the watched files that are ready, each with its events, and move the clock instead of waiting.

        Args:
            timeout: 0 when the loop has callbacks to run. Any other value means that it has none; the time to jump to
                is read from the timers themselves, because now + (when - now) may miss it by a rounding.

        Raises:
            SimulationDeadlock: Nothing is ready, booked or scheduled.
            SimulationTimeout: The clock would pass its limit.
        """
        ready = self._ready() if self.woken else []
        if timeout != 0 and not ready:
            self._jump()
        booked = self.booked
        if booked and booked[0][0] <= self.now_s:
            while booked and booked[0][0] <= self.now_s:
                heapq.heappop(booked)[2]()
            ready = self._ready()
        return ready

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for file in tuple(self.woken):
            key = self._keys.get(file.fd)
            if key is not None and (mask := file.poll() & key.events):
                ready.append((key, mask))
            else:
                del self.woken[file]
        return ready

    def _jump(self) -> None:
        booked, timers = self.booked, self.timers
        when_s = timers[0][0] if timers else math.inf
        if booked and booked[0][0] < when_s:
            when_s = booked[0][0]
        if when_s == math.inf:  # also the only timer, if all that is left is anyio.sleep_forever
            raise SimulationDeadlock(
                f"at {self.now_s:.6f} s of virtual time nothing is ready and nothing is scheduled, so nothing can ever "
                f"happen again. Still waiting:\n{waiting_tasks()}"
            )
        if when_s > self._end_s:
            limit_s, self._end_s = self._end_s, when_s + CLEANUP_S
            raise SimulationTimeout(
                f"the simulation was not done at its limit, {limit_s:.6f} s of virtual time; raise limit_s if it only "
                f"needs longer. Still waiting:\n{waiting_tasks()}"
            )
        self.now_s = max(self.now_s, when_s)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a virtual file; see `selectors.BaseSelector.register`.

        Raises:
            NotSimulated: `fileobj` is a real one.
        """
        file = self._files.get(fileobj)
        if file is None:
            raise NotSimulated(
                f"{fileobj!r} is a real file or socket, and time would not wait for it. In the simulation connections "
                "are made with loop.create_connection and loop.create_server"
            )
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, fileobj, events, data)
        self.woken[file] = None
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Stop watching a virtual file; raises KeyError if it was not watched."""
        return self._keys.pop(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a virtual file for something else."""
        return self.register(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the watched files, by descriptor."""
        return self._keys

    def close(self) -> None:
        """Drop everything that is still booked."""
        self.booked.clear()
        self.woken.clear()
        self._keys.clear()
        self._files.clear()


def waiting_tasks() -> str:
    """Describe the tasks of the running loop that are not done, one a line: its name and its stack of calls."""
    tasks = sorted(asyncio.all_tasks(), key=hash)
    lines = [f"  {task.get_name()}: {' > '.join(_calls(task.get_coro())) or 'not started'}" for task in tasks]
    if len(lines) > MAX_TASKS_SHOWN:
        lines[MAX_TASKS_SHOWN:] = [f"  ... and {len(lines) - MAX_TASKS_SHOWN} more"]
    return "\n".join(lines) or "  no task at all"


def _calls(awaited: Any) -> Iterator[str]:
    while awaited is not None:
        # A coroutine, a generator and an async generator name the same two things differently.
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(awaited, f"{kind}_frame")), None)
        frame = getattr(awaited, f"{kind}_frame", None)
        if frame is None:
            return
        file_name = "/".join(Path(frame.f_code.co_filename).parts[-2:])
        yield f"{frame.f_code.co_name} ({file_name}:{frame.f_lineno})"
        awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
