"""Hosts that stand still: a process that is stopped, as by SIGSTOP, and a virtual machine that its host has paused.

    freeze    no callback of the host runs; clocks go on, and the callbacks that became due run at the end
    pause     no callback runs either, and the loop's clock of the host stands still: its timers fire later by as much

The clock of the day goes on in both: a machine that was paused finds it moved. Packets still arrive at the system of
the host, which has no process that reads them. A host is that of a callback's context (`network.py`).
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from contextvars import Context, ContextVar

from testbed.simulation.kernel.loop import VirtualLoop
from testbed.simulation.kernel.selector import Timer, VirtualFile

LATER_S = 2e-9
"""As in `VirtualLoop.call_at`: sums of floats must not let a timer fire before its time."""


class Standstill:
    """The hosts of one loop that stand still, or did.

    Attributes:
        woke_at: host -> true virtual time at which it went on after a pause.
        went_on_at: the same after any standstill.
    """

    def __init__(self, loop: VirtualLoop, current_host: ContextVar[str]) -> None:
        self.woke_at: dict[str, float] = {}
        self.went_on_at: dict[str, float] = {}
        self._loop = loop
        self._current_host = current_host
        self._held: dict[str, list[asyncio.Handle]] = {}  # callbacks of the hosts that stand still
        self._files: dict[str, dict[VirtualFile, None]] = {}  # of those hosts, that can be read or written
        self._since: dict[str, float] = {}  # since when a host is paused
        self._timers: dict[str, list[tuple[float, int, Timer]]] = {}  # of the paused ones
        self._paused_s: dict[str, float] = {}  # how long each was paused, in pauses that are over

    def stands(self, host: str) -> bool:
        """Whether it stands still now."""
        return host in self._held

    def freeze(self, host: str) -> None:
        """Run nothing of a host until `go_on`. One that stands still already stays as it is."""
        if host not in self._held:
            self._held[host] = []
            self._files[host] = {}
            self._loop.holding = self

    def pause(self, host: str) -> None:
        """As `freeze`, and its clock stands still too."""
        if host in self._held:
            return
        self.freeze(host)
        loop = self._loop
        loop.paused = self
        self._since[host] = loop.kernel.now_s
        self._timers[host] = sorted(each for each in loop.timers if self._host_of(each[2]) == host)
        loop.timers[:] = [each for each in loop.timers if self._host_of(each[2]) != host]
        heapq.heapify(loop.timers)

    def go_on(self, host: str) -> None:
        """Let a host go on. One that does not stand still stays as it is."""
        if host not in self._held:
            return
        loop = self._loop
        self.went_on_at[host] = loop.kernel.now_s
        if host in self._since:
            paused_s = loop.kernel.now_s - self._since.pop(host)
            self._paused_s[host] = self._paused_s.get(host, 0.0) + paused_s
            self.woke_at[host] = loop.kernel.now_s
            for when, order, timer in self._timers.pop(host):
                if not timer._cancelled:
                    heapq.heappush(loop.timers, (when + paused_s + LATER_S, order, timer))
        loop.run_soon(self._held.pop(host))
        for file in self._files.pop(host):
            loop.kernel.wake(file)
        if not self._held:
            loop.holding = None

    def holds(self, handle: asyncio.Handle) -> bool:
        """See `StandingHosts` of `loop.py`."""
        held = self._held.get(self._host_of(handle))
        if held is None:
            return False
        held.append(handle)
        return True

    def holds_file(self, key: selectors.SelectorKey) -> bool:
        """See `StandingHosts` of `loop.py`: without this, a file that can be read would be polled again and again."""
        files = self._files.get(self._host_of(key.data[0] or key.data[1]))
        if files is None:
            return False
        file = self._loop.kernel.file(key)
        files[file] = None
        self._loop.kernel.woken.pop(file, None)
        return True

    def _host_of(self, handle: asyncio.Handle) -> str:
        context: Context = getattr(handle, "_context")  # noqa: B009 - asyncio's stubs do not have it
        return context.get(self._current_host, "")

    def behind_s(self) -> float:
        """See `StandingHosts` of `loop.py`."""
        host = self._current_host.get()
        since = self._since.get(host)
        now_s = 0.0 if since is None else self._loop.kernel.now_s - since
        return self._paused_s.get(host, 0.0) + now_s
