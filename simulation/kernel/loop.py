"""An event loop in virtual time: when nothing is ready, its clock jumps to the next thing that will happen.

Only two ends of asyncio are replaced: the clock, and the `select` call that would wait in the kernel. Timers, tasks,
transports and servers are asyncio's own, so shipped code runs unmodified, in one thread, as fast as Python can run it.

What becomes ready besides timers is a *virtual file*, a simulated socket (`simulation/kernel/sockets.py`). Its side
books with `VirtualSelector.at` what happens when, and says with `wake` which file that may have made ready.

Invariant: virtual time never goes back and never passes while anything can run. Nothing here reads a real clock, waits,
or depends on where objects lie in memory, so the same program with the same random numbers gives the same history.

Example::

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(anyio.sleep(30_000))  # returns at once; the loop's time() is 30000.0
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
import selectors
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextvars import Context
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, TypeVarTuple, cast

from simulation.kernel.task_order import numbered_cancel_scopes, numbered_task_factory

if TYPE_CHECKING:
    from simulation.kernel.network import SimulatedNetwork

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

MAX_START_S = 1e6
"""Asyncio tells timers apart by a nanosecond, and a float of some ten million seconds cannot hold one."""

DEFAULT_LIMIT_S = 86_400.0
"""A simulation that lives on its timers never ends by itself; a virtual day is more than any scenario needs."""

CLEANUP_S = 60.0
"""Virtual time that tasks get to clean up in once the limit has been reported."""

MAX_TASKS_SHOWN = 20
FIRST_FD = 1 << 20  # far above the descriptors of real files, so that one is never taken for a virtual file


class SimulationDeadlock(RuntimeError):
    """Every task waits, and no timer and no packet is on its way that could wake one."""


class SimulationTimeout(RuntimeError):
    """The virtual clock reached its limit before the simulation was done."""


class NotSimulated(NotImplementedError):
    """The code asked for something real: a thread, a socket, a name server, a signal."""


class VirtualFile(Protocol):
    """What the selector needs to know of a simulated socket."""

    fd: int

    def poll(self) -> int:
        """Say what would not block now.

        Returns:
            `selectors.EVENT_READ` and `selectors.EVENT_WRITE`, or-ed.
        """
        ...


class VirtualSelector(selectors.BaseSelector):
    """The clock and the poll of a simulated kernel, level-triggered as the real ones are."""

    def __init__(self, *, start_s: float, limit_s: float) -> None:
        self.now_s = start_s
        self.loop: VirtualLoop  # set by the loop, which needs its selector first
        self._end_s = start_s + limit_s
        self._files: dict[int, VirtualFile] = {}
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._woken: dict[VirtualFile, None] = {}  # every file that is ready for what it is watched for is among these
        self._booked: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()  # what is booked for one instant happens in the order of booking
        self._fds = itertools.count(FIRST_FD)

    def open(self) -> int:
        """Take a descriptor for a new virtual file; descriptors are never used twice."""
        return next(self._fds)

    def attach(self, file: VirtualFile) -> None:
        """Let `file` be watched."""
        self._files[file.fd] = file

    def detach(self, file: VirtualFile) -> None:
        """Forget `file`, which was closed."""
        self._files.pop(file.fd, None)
        self._keys.pop(file.fd, None)
        self._woken.pop(file, None)

    def at(self, when_s: float, happen: Callable[[], object]) -> None:
        """Call `happen` when the clock reaches `when_s`, before the timers of that instant.

        This is what makes thousands of clients affordable: an asyncio timer is a Python object that the heap compares
        by calling Python; a booking is a tuple.
        """
        heapq.heappush(self._booked, (when_s, next(self._order), happen))

    def wake(self, file: VirtualFile) -> None:
        """Look at `file` in the next turn of the loop; something happened to it."""
        self._woken[file] = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, and move the clock instead of waiting.

        Args:
            timeout: 0 when the loop has callbacks to run. Other values only say that it has none: the instant to jump
                to is read from the timers themselves, since now + (when - now) may miss it by a rounding.

        Returns:
            The watched files that are ready, each with what it is ready for.

        Raises:
            SimulationDeadlock: Nothing is ready, booked or scheduled.
            SimulationTimeout: The clock would pass its limit.
        """
        ready = self._ready() if self._woken else []
        if timeout != 0 and not ready:
            self._jump()
        booked = self._booked
        if booked and booked[0][0] <= self.now_s:
            while booked and booked[0][0] <= self.now_s:
                heapq.heappop(booked)[2]()
            ready = self._ready()
        return ready

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for file in tuple(self._woken):
            key = self._keys.get(file.fd)
            if key is not None and (mask := file.poll() & key.events):
                ready.append((key, mask))
            else:
                del self._woken[file]
        return ready

    def _jump(self) -> None:
        booked, timers = self._booked, self.loop._scheduled
        when_s = timers[0].when() if timers else math.inf
        if booked and booked[0][0] < when_s:
            when_s = booked[0][0]
        if when_s == math.inf:  # also the only timer, if all that is left is anyio.sleep_forever
            raise SimulationDeadlock(
                f"at {self.now_s:.6f} s of virtual time nothing is ready and nothing is scheduled, so nothing can ever "
                f"happen again. Still waiting:\n{waiting_tasks(self.loop)}"
            )
        if when_s > self._end_s:
            limit_s, self._end_s = self._end_s, when_s + CLEANUP_S
            raise SimulationTimeout(
                f"the simulation was not done at its limit, {limit_s:.6f} s of virtual time; raise limit_s if it only "
                f"needs longer. Still waiting:\n{waiting_tasks(self.loop)}"
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
        self._woken[file] = None
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Watch a virtual file no longer; raises KeyError if it was not watched."""
        return self._keys.pop(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a virtual file for something else."""
        return self.register(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return what is watched, by descriptor."""
        return self._keys

    def close(self) -> None:
        """Drop everything that was still to happen."""
        self._booked.clear()
        self._woken.clear()
        self._keys.clear()
        self._files.clear()


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's selector loop on a virtual clock. See the module's docstring.

    Files and plain functions are real. `run_in_executor` calls them in place, or `blocking_s` later. Everything else
    outside of the process raises `NotSimulated`.

    Args:
        start_s: What `time()` begins at, seconds.
        limit_s: Virtual seconds after which the simulation is given up with `SimulationTimeout`.
    """

    blocking_s = 0.0
    """Virtual seconds that each call in an executor takes, from when it is set; for slow disks."""
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, *, start_s: float = 0.0, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self.kernel = VirtualSelector(start_s=start_s, limit_s=limit_s)
        self.kernel.loop = self
        self.network: SimulatedNetwork | None = None
        self._scope_numbers = itertools.count()
        self._owner = threading.get_ident()
        super().__init__(self.kernel)
        if not (0 <= start_s <= MAX_START_S and 0 < limit_s <= MAX_START_S):
            self.close()  # a loop that is collected unclosed warns
            raise ValueError(f"start_s={start_s} and limit_s={limit_s} must be in 0 to {MAX_START_S:.0f} seconds")
        self.set_task_factory(numbered_task_factory())

    def time(self) -> float:
        """Return the virtual clock, seconds."""
        return self.kernel.now_s

    def run_forever(self) -> None:
        """Run until stopped, cancelling in an order that only the program decides."""
        with numbered_cancel_scopes(self._scope_numbers):
            super().run_forever()

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call `func` here, now or `blocking_s` later, whatever the executor.

        A thread would run while the virtual clock jumps, and finish in an order that no seed decides.

        Args:
            executor: Not used.
            func: What to call.
            *args: Its arguments.

        Returns:
            A future of the result or the exception; already done if calls take no time.
        """
        future: asyncio.Future[T] = self.create_future()
        if self.blocking_s:
            self.call_later(self.blocking_s, _call_for, future, func, *args)
        else:
            _call_for(future, func, *args)
        return future

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Like `call_soon`: there is nothing to wake, and only one thread.

        Raises:
            NotSimulated: Another thread calls; its timing would not be the seed's.
        """
        if threading.get_ident() != self._owner:
            raise NotSimulated(
                f"thread {threading.current_thread().name!r} calls into a simulated loop, which has one thread. Run "
                "blocking work with loop.run_in_executor(None, ...)"
            )
        return self.call_soon(callback, *args, context=context)

    async def create_server(  # type: ignore[override]  # the base has an overload for each kind of socket
        self, protocol_factory: ProtocolFactory, host: str | None = None, port: int = 0, **options: Any
    ) -> asyncio.Server:
        """Listen on the simulated network.

        Args:
            protocol_factory: As everywhere in asyncio.
            host: Where to listen; what the server's connections start runs on this host.
            port: 0 for one that is free, the same ones in every run.
            **options: asyncio's own.

        Raises:
            OSError: The port is taken.
        """
        network = self._network(options)
        listener = network.bind(host, port)
        with contextlib.ExitStack() as on_failure, network.host(listener.getsockname()[0]):
            on_failure.callback(listener.close)
            server = await super().create_server(protocol_factory, sock=cast(socket, listener), **options)
            on_failure.pop_all()
        return server

    async def create_connection(  # type: ignore[override]  # the base has an overload for each kind of socket
        self, protocol_factory: ProtocolFactory, host: str | None = None, port: int = 0, **options: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connect over the simulated network, from the host of the current context, in one round trip.

        Raises:
            ConnectionRefusedError: Nobody listens there.

        Cancellation: as asyncio's; no connection is left.
        """
        sock = await self._network(options).connect(host, port)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(sock.close)
            connected = await super().create_connection(protocol_factory, sock=cast(socket, sock), **options)
            on_failure.pop_all()
        return connected

    def _network(self, options: Mapping[str, object]) -> SimulatedNetwork:
        if self.network is None:
            raise NotSimulated("this virtual loop has no network: make one with SimulatedNetwork(loop, random)")
        for name in ("sock", "local_addr"):
            if options.get(name) is not None:
                raise NotSimulated(f"{name}={options[name]!r}: sockets are made by the network, on the context's host")
        return self.network

    # The self-pipe is how threads and signals wake a loop that waits in the kernel. This one never does.
    def _make_self_pipe(self) -> None:
        pass

    def _close_self_pipe(self) -> None:
        pass


def _refusing(name: str, advice: str) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise NotSimulated(f"loop.{name} reaches outside of the simulation: {advice}")

    return refuse


_TCP_ONLY = "the simulated network carries TCP, through loop.create_connection and loop.create_server"
_NOT_SIMULATED = {
    "getaddrinfo": "it has no name server; connect to the very host that the server listens on",
    "getnameinfo": "it has no name server",
    "create_datagram_endpoint": _TCP_ONLY,
    "create_unix_connection": _TCP_ONLY,
    "create_unix_server": _TCP_ONLY,
    "connect_accepted_socket": _TCP_ONLY,
    "sock_connect": _TCP_ONLY,
    "sock_accept": _TCP_ONLY,
    "connect_read_pipe": "it has no pipes",
    "connect_write_pipe": "it has no pipes",
    "subprocess_exec": "a process has a clock of its own",
    "subprocess_shell": "a process has a clock of its own",
    "add_signal_handler": "signals come in real time; call what the handler would call",
}
for _name, _advice in _NOT_SIMULATED.items():
    setattr(VirtualLoop, _name, _refusing(_name, _advice))


def _call_for(future: asyncio.Future[T], func: Callable[[*Ts], T], *args: *Ts) -> None:
    """Call for whoever waits for the result, or for the error, as an executor does."""
    called: Future[T] = Future()

    def failed(_: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, Exception):
            called.set_exception(error)
        return isinstance(error, Exception)

    with contextlib.ExitStack() as stack:
        stack.push(failed)
        called.set_result(func(*args))
    if not future.done():  # nobody waits any more
        if (error := called.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(called.result())


def waiting_tasks(loop: asyncio.AbstractEventLoop) -> str:
    """Describe the tasks that are not done, one a line: the name, and the calls from its first to where it waits."""
    tasks = sorted(asyncio.all_tasks(loop), key=hash)
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
        place = "/".join(Path(frame.f_code.co_filename).parts[-2:])
        yield f"{frame.f_code.co_name} ({place}:{frame.f_lineno})"
        awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
