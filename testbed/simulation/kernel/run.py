"""Runs a coroutine in a simulated world: a virtual clock, a simulated network and one seed for all randomness.

Invariant: the same main, seed and options give the same history, byte for byte. A failure therefore carries the seed,
and running it again with that seed fails in the same way.

Example::

    async def main(simulation: Simulation) -> int:
        with simulation.on_host("10.0.0.1"):
            server = await simulation.loop.create_server(Echo, "0.0.0.0", 9876)
        ...

    assert run_simulation(main, seed=7) == 42
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Any, TypeVar

from testbed.simulation.kernel.loop import DEFAULT_LIMIT_S, VirtualLoop
from testbed.simulation.kernel.network import DEFAULT_LATENCY_S, SimulatedNetwork

T = TypeVar("T")

EPOCH_MS = 1_704_067_200_000
"""Wall clock at virtual time 0: 2024-01-01T00:00:00Z."""
MAX_LEFT_BLOCKS = 300_000
"""Blocks of memory that worlds may leave before they are collected: some 30 MB, or a few small worlds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Parts of a simulated world.

    Attributes:
        random: chance for the scenario. The network has its own, so that one more packet leaves the scenario as it is.
    """

    loop: VirtualLoop  # its `time()` is the virtual clock in seconds, from 0
    network: SimulatedNetwork  # carries the loop's connections; faults are made here
    random: Random
    seed: int  # both generators are made from it

    def clock_ms(self) -> int:
        """Return the virtual wall clock, milliseconds since 1970; give this to brokers and clients."""
        return EPOCH_MS + round(self.loop.kernel.now_s * 1000)

    def on_host(self, host: str) -> contextlib.AbstractContextManager[None]:
        """Be on `host` in a `with` block; see `SimulatedNetwork.host`."""
        return self.network.host(host)


def run_simulation(
    main: Callable[[Simulation], Awaitable[T]],
    *,
    seed: int = 0,
    latency_s: float = DEFAULT_LATENCY_S,
    jitter_s: float = 0.0,
    limit_s: float = DEFAULT_LIMIT_S,
) -> T:
    """Run `main` to its end in virtual time; `seed` decides everything that is left to chance.

    A packet takes `latency_s`, and up to `jitter_s` more, from host to host; `main` may take `limit_s` virtual seconds.

    Raises:
        SimulationDeadlock: `main` waits for something that can no longer happen.
        SimulationTimeout: `main` was not done at the limit.
        ExceptionGroup: `main` succeeded, but callbacks or forgotten tasks failed, which asyncio would only log.
        KeyboardInterrupt: a signal came.
        BaseException: An error of `main`. Each error has a note that says how to replay it.
    """
    reported: list[Exception] = []
    name = getattr(main, "__qualname__", repr(main))
    replay = f"run_simulation({name}, seed={seed}, latency_s={latency_s}, jitter_s={jitter_s}, limit_s={limit_s})"
    signals = _Signals()
    try:
        with (
            _rare_collections(),
            signals.handled(),
            asyncio.Runner(loop_factory=partial(VirtualLoop, limit_s=limit_s)) as runner,
        ):
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop)
            signals.loop = loop
            loop.set_exception_handler(lambda _, context: reported.append(_reported(context)))
            network = SimulatedNetwork(loop, Random(f"network {seed}"), latency_s=latency_s, jitter_s=jitter_s)
            simulation = Simulation(loop=loop, network=network, random=Random(seed), seed=seed)
            result = runner.run(_coroutine(main, simulation))
    except BaseException as error:
        if signals.received or isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error  # tasks did not end in time, or failed as they ended: nothing was found
        error.add_note(f"seed={seed}; replay with {replay}")
        for each in reported:
            error.add_note(f"before that: {each!r}")
        raise
    if reported:
        failure = ExceptionGroup("the scenario ended well, but not everything that ran in it", reported)
        failure.add_note(f"seed={seed}; replay with {replay}")
        raise failure
    return result


@cache
def _has_frozen_objects() -> bool:
    """Whether the process had left objects out of collections before its first simulation.

    Counted once: the count visits each of them. In a process that runs all tests there are a million, and a count
    before each simulation took 85 ms, far more than most of the simulations themselves.
    """
    return gc.get_freeze_count() > 0


@contextlib.contextmanager
def _rare_collections() -> Generator[None]:
    """Collect cyclic garbage rarely, and only of what this world has made.

    A simulated world is alive as a whole until its end: with a thousand clients, collections took a third of the time.
    Objects from before it are left out of collections. A process that has left its modules out itself, as one that
    runs tests does, has that afterwards, too.
    """
    thresholds, is_frozen = gc.get_threshold(), _has_frozen_objects()
    gc.set_threshold(50_000, 20, 100)
    if not is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()
            _leftovers.collect_if_many()
        gc.set_threshold(*thresholds)


class _Leftovers:
    """What the worlds of this process have left: a sweep of many worlds must not grow.

    A collection visits all modules of the process too, which took a tenth of a world of half a minute.
    """

    _blocks = 0  # in use after the last collection

    def collect_if_many(self) -> None:
        if sys.getallocatedblocks() > self._blocks + MAX_LEFT_BLOCKS:
            gc.collect()
            self._blocks = sys.getallocatedblocks()


_leftovers = _Leftovers()


class _Signals:
    """The handler of Ctrl-C, and of each signal that raises KeyboardInterrupt too, while a simulation runs.

    The first signal ends the loop between two callbacks, the second raises KeyboardInterrupt where it comes. Without
    this, `asyncio.Runner` would handle Ctrl-C by a cancellation of the main task. If that does not end, the run ends as
    a deadlock, and a sweep would report the seed as failed and go on with the next one.
    """

    def __init__(self) -> None:
        self.loop: VirtualLoop | None = None
        self.received = False

    @contextlib.contextmanager
    def handled(self) -> Generator[None]:
        """Handle signals in the block, in the main thread, where Python calls handlers."""
        is_main_thread = threading.current_thread() is threading.main_thread()
        numbers = [
            number
            for number in (signal.SIGINT, signal.SIGTERM)
            if is_main_thread and signal.getsignal(number) is signal.default_int_handler
        ]
        for number in numbers:
            signal.signal(number, self._handle)
        try:
            yield
        finally:
            for number in numbers:
                signal.signal(number, signal.default_int_handler)

    def _handle(self, _number: int, _frame: object) -> None:
        if self.received or self.loop is None:
            raise KeyboardInterrupt
        self.received = True
        warnings.simplefilter("ignore", RuntimeWarning)  # about coroutines that have not begun, when the process ends
        self.loop.interrupt()


async def _coroutine(main: Callable[[Simulation], Awaitable[T]], simulation: Simulation) -> T:
    return await main(simulation)


def _reported(context: dict[str, Any]) -> Exception:
    error = context.get("exception")
    if not isinstance(error, Exception):
        return RuntimeError(context["message"])
    error.add_note(context["message"])
    return error
