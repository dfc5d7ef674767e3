"""An event loop in virtual time: when nothing is ready, its clock jumps to the next timer or arrival.

Three parts of asyncio are replaced: the clock, the `select` call, which would wait in the kernel, and the iteration
itself, whose order is asyncio's and whose price is half of it. Tasks, transports and servers are asyncio's own, so
the real code runs unmodified, in one thread, as fast as Python can run it. `testbed/simulation/kernel/selector.py` is
the `select` call; `testbed/simulation/kernel/network.py` makes the connections.

Invariant: virtual time never goes back, and never advances while a callback is ready. Nothing here reads a real clock,
waits, or depends on memory addresses, so the same program with the same random numbers gives the same history.

Example::

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(anyio.sleep(30_000))  # returns at once; the loop's time() is 30000.0
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import selectors
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from contextvars import Context
from socket import socket
from typing import Any, NoReturn, Protocol, TypeVar, TypeVarTuple, cast
from weakref import WeakValueDictionary

from testbed.simulation.kernel.selector import (
    NotSimulated,
    SimulationDeadlock,
    Soon,
    Timer,
    Timers,
    VirtualSelector,
    waiting_tasks,
)
from testbed.simulation.kernel.sockets import Listener, VirtualSocket
from testbed.simulation.kernel.task_order import numbered_cancel_scopes, numbered_task_factory, only_asyncio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

MAX_TIME_S = 1e6
"""Bound of `start_s` and `limit_s`. Asyncio compares timers with a resolution of one nanosecond, and a float loses that
above some ten million seconds."""

DEFAULT_LIMIT_S = 86_400.0
"""Ends a simulation that has nothing left but periodic timers; a virtual day is more than any scenario needs."""


MIN_CANCELLED_TIMERS = 50
"""Fewer stay among the timers until they are due."""
MAX_TURNS = 200_000
"""Iterations at one instant before the simulation ends with an error: something calls itself, and time stands still."""
MAX_TURNS_LEFT = 10_000
"""Iterations of an interrupted simulation in which its tasks clean up; then it is left as it is."""
_RESOLUTION_S = 1e-9
"""A timer that is due within this time is due, as in asyncio."""


class Network(Protocol):
    """The part of `SimulatedNetwork` that a loop calls."""

    def bind(self, host: str | None, port: int) -> Listener:
        """Reserve an address for a server."""
        ...

    async def connect(self, host: str | None, port: int) -> VirtualSocket:
        """Connect from the host of the current context."""
        ...

    def host(self, host: str) -> contextlib.AbstractContextManager[None]:
        """Context in which `host` is the current host; tasks started in it inherit it."""
        ...


class StandingHosts(Protocol):
    """The part of `Standstill` that a loop calls."""

    def holds(self, handle: asyncio.Handle) -> bool:
        """Whether a callback has to wait; it is kept then."""
        ...

    def holds_file(self, key: selectors.SelectorKey) -> bool:
        """Whether the host of a file stands still; then the file is polled again when the host goes on."""
        ...

    def behind_s(self) -> float:
        """By how much the clock of the current host is behind the true one, in seconds."""
        ...


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's selector loop on a virtual clock. See the module's docstring.

    Files are real, and so are functions run with `run_in_executor`. All else that reaches outside of the process raises
    `NotSimulated`.

    `time()` begins at `start_s`. After `limit_s` virtual seconds the simulation ends with `SimulationTimeout`.
    """

    blocking_s = 0.0
    """Virtual seconds that a call of `run_in_executor` takes, from now on; simulates slow disks."""
    holding: StandingHosts | None = None
    """Keeps the callbacks of hosts that stand still (`standstill.py`); None while no host does."""
    paused: StandingHosts | None = None
    """Knows the clocks of hosts that were paused; None while no host was."""
    is_interrupted = False
    """Whether a signal has ended the run."""
    _closed: bool
    _process_events: Callable[[list[tuple[selectors.SelectorKey, int]]], None]
    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, *, start_s: float = 0.0, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self.kernel = VirtualSelector(start_s=start_s, limit_s=limit_s)
        self.timers: Timers = self.kernel.timers
        self._timer_order = itertools.count()
        self._cancelled_timers = 0  # of those in `timers`
        self.network: Network | None = None
        self._protocols: WeakValueDictionary[int, asyncio.BaseProtocol] = WeakValueDictionary()
        self._protocol_order = itertools.count()
        self._on_protocol: Callable[[asyncio.BaseProtocol], object] | None = None
        self._scope_numbers = itertools.count()
        self._thread = threading.get_ident()
        super().__init__(self.kernel)
        if not (0 <= start_s <= MAX_TIME_S and 0 < limit_s <= MAX_TIME_S):
            self.close()  # a loop that is collected unclosed warns
            raise ValueError(f"start_s={start_s} and limit_s={limit_s} must be in 0 to {MAX_TIME_S:.0f} seconds")
        self.set_task_factory(numbered_task_factory())

    def time(self) -> float:
        """Return the virtual clock of the current host, seconds."""
        return self.kernel.now_s if self.paused is None else self.kernel.now_s - self.paused.behind_s()

    def interrupt(self) -> None:
        """End the run with KeyboardInterrupt after the iteration that runs now; a signal handler may call it.

        An error that is raised in the middle of a callback looks like a failure of the code that it hits: a task group
        waits for its tasks first, and a consumer leaves its group. The world goes on then, and is judged.
        """
        self.is_interrupted = self._stopping = True

    def run_soon(self, handles: list[asyncio.Handle]) -> None:
        """Run callbacks that were kept, in their order."""
        self._ready.extend(handles)

    # --- one iteration -----------------------------------------------------------------------------------------------

    # A simulated hour has millions of iterations, nearly all with one callback. asyncio's own spends more time on its
    # timers, which are compared in Python, on its checks and on a list of events than on that callback.

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """See asyncio's."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = Soon(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio's; timers of one instant fire in the order in which they were set."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = Timer(when, callback, args, self, context)
        handle._scheduled = True
        if self.paused is not None:
            # A little later: code that compares its clock with the time of its timer must find that it has come.
            when += self.paused.behind_s() + 2 * _RESOLUTION_S
        heapq.heappush(self.timers, (when, next(self._timer_order), handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio's."""
        now_s = self.kernel.now_s if self.paused is None else self.time()
        return self.call_at(now_s + delay, callback, *args, context=context)

    def close(self) -> None:
        """See asyncio's."""
        super().close()
        self.timers.clear()

    def _timer_handle_cancelled(self, handle: Timer) -> None:
        """Called by a timer before it is cancelled; once most of them are, those are removed."""
        if not handle._scheduled:
            return
        self._cancelled_timers += 1
        if self._cancelled_timers > MIN_CANCELLED_TIMERS and 2 * self._cancelled_timers > len(self.timers):
            self.timers[:] = [timer for timer in self.timers if timer[2] is handle or not timer[2]._cancelled]
            heapq.heapify(self.timers)
            self._cancelled_timers = 1  # this one, which is not marked yet

    def _run_once(self) -> None:
        """Run ready callbacks, or move the clock, until the loop stops.

        The calls and their order are as in asyncio, which calls this for each iteration.
        """
        ready, timers, kernel = self._ready, self.timers, self.kernel
        woken, booked = kernel.woken, kernel.booked
        instant_s, turns, max_turns = kernel.now_s, 0, MAX_TURNS_LEFT if self.is_interrupted else MAX_TURNS
        while True:
            turns += 1
            if turns > max_turns:
                raise SimulationDeadlock(
                    f"the loop has made {max_turns} iterations at {kernel.now_s:.6f} s of virtual time, and goes on: "
                    f"something is called again and again. Waiting:\n{waiting_tasks()}"
                )
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
                self._cancelled_timers -= 1
            if not ready or woken or (booked and booked[0][0] <= kernel.now_s):
                files = kernel.select(0 if ready or self._stopping else None)
                if files and self.holding is not None:
                    files = [each for each in files if not self.holding.holds_file(each[0])]
                if files:
                    self._process_events(files)
            if kernel.now_s != instant_s and not self.is_interrupted:
                instant_s, turns = kernel.now_s, 0
            end_s = kernel.now_s + _RESOLUTION_S
            while timers and timers[0][0] < end_s:
                timer = heapq.heappop(timers)[2]
                timer._scheduled = False
                ready.append(timer)
            for _ in range(len(ready)):  # what these add is run in the next iteration
                handle = ready.popleft()
                if not handle._cancelled and (self.holding is None or not self.holding.holds(handle)):
                    handle._run()
            if self._stopping:
                return

    def run_forever(self) -> None:
        """Run until stopped, with cancellations in the same order in every run.

        Raises:
            KeyboardInterrupt: `interrupt` was called. The next call lets the tasks clean up.
        """
        was_interrupted = self.is_interrupted
        with numbered_cancel_scopes(self._scope_numbers), only_asyncio():
            super().run_forever()
        if self.is_interrupted and not was_interrupted:
            raise KeyboardInterrupt

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call `func` in this thread, now or `blocking_s` later; `executor` is ignored.

        A thread would run while the virtual clock jumps, and finish at a time that the seed does not determine. With
        `blocking_s` = 0 the returned future is done.
        """
        future: asyncio.Future[T] = self.create_future()
        if self.blocking_s:
            self.call_later(self.blocking_s, _complete, future, func, *args)
        else:
            _complete(future, func, *args)
        return future

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Like `call_soon`: a virtual loop has one thread and never waits, so it needs no wake-up.

        Raises:
            NotSimulated: called from another thread, whose timing the seed does not determine.
        """
        if threading.get_ident() != self._thread:
            raise NotSimulated(
                f"thread {threading.current_thread().name!r} calls into a simulated loop, which has one thread. Run "
                "blocking work with loop.run_in_executor(None, ...)"
            )
        return self.call_soon(callback, *args, context=context)

    async def create_server(  # type: ignore[override]  # the base has an overload for each kind of socket
        self, protocol_factory: ProtocolFactory, host: str | None = None, port: int = 0, **options: Any
    ) -> asyncio.Server:
        """Listen on the simulated network; tasks that the server's connections start run on `host`.

        Port 0 stands for a free port, the same in every run.

        Raises:
            OSError: the port is taken.
        """
        network = self._network(options)
        listener = network.bind(host, port)
        with contextlib.ExitStack() as on_failure, network.host(listener.getsockname()[0]):
            on_failure.callback(listener.close)
            server = await super().create_server(
                self._numbering(protocol_factory), sock=cast(socket, listener), **options
            )
            on_failure.pop_all()
        return server

    async def create_connection(  # type: ignore[override]  # the base has an overload for each kind of socket
        self, protocol_factory: ProtocolFactory, host: str | None = None, port: int = 0, **options: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connect over the simulated network, from the host of the current context, in one round trip.

        Raises:
            ConnectionRefusedError: no server listens there.

        Cancellation: as asyncio's; no connection is left.
        """
        sock = await self._network(options).connect(host, port)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(sock.close)
            connected = await super().create_connection(
                self._numbering(protocol_factory), sock=cast(socket, sock), **options
            )
            on_failure.pop_all()
        return connected

    def follow_protocols(self, on_protocol: Callable[[asyncio.BaseProtocol], object] | None) -> None:
        """Call a function with the protocol of each connection, oldest first, and of each later one; None ends that."""
        self._on_protocol = on_protocol
        if on_protocol is not None:
            for protocol in list(self._protocols.values()):
                on_protocol(protocol)

    def _numbering(self, factory: ProtocolFactory) -> ProtocolFactory:
        def make() -> asyncio.BaseProtocol:
            protocol = self._protocols[next(self._protocol_order)] = factory()
            if self._on_protocol is not None:
                self._on_protocol(protocol)
            return protocol

        return make

    def _network(self, options: Mapping[str, object]) -> Network:
        if self.network is None:
            raise NotSimulated("this virtual loop has no network: make one with SimulatedNetwork(loop, random)")
        for name in ("sock", "local_addr"):
            if options.get(name) is not None:
                raise NotSimulated(f"{name}={options[name]!r}: sockets are made by the network, on the context's host")
        return self.network

    # The self-pipe is how threads and signals wake a loop that waits in the kernel. This loop never waits there.
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
    "getaddrinfo": "there is no DNS; connect to the host name that the server listens on",
    "getnameinfo": "there is no DNS",
    "create_datagram_endpoint": _TCP_ONLY,
    "create_unix_connection": _TCP_ONLY,
    "create_unix_server": _TCP_ONLY,
    "connect_accepted_socket": _TCP_ONLY,
    "sock_connect": _TCP_ONLY,
    "sock_accept": _TCP_ONLY,
    "connect_read_pipe": "there are no pipes",
    "connect_write_pipe": "there are no pipes",
    "subprocess_exec": "a process has a clock of its own",
    "subprocess_shell": "a process has a clock of its own",
    "add_signal_handler": "signals come in real time; call what the handler would call",
}
for _name, _advice in _NOT_SIMULATED.items():
    setattr(VirtualLoop, _name, _refusing(_name, _advice))


def _complete(future: asyncio.Future[T], func: Callable[[*Ts], T], *args: *Ts) -> None:
    """Complete a future with the result or the error of `func`, as an executor does."""
    called: Future[T] = Future()

    def failed(_: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, Exception):
            called.set_exception(error)
        return isinstance(error, Exception)

    with contextlib.ExitStack() as stack:
        stack.push(failed)
        called.set_result(func(*args))
    if not future.done():  # else the waiting task was cancelled
        if (error := called.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(called.result())
