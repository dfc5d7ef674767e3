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
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Any, NoReturn, TypeVar

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
        SimulationDeadlock: `main` waits for something that cannot happen any more.
        SimulationTimeout: `main` was not done at the limit.
        ExceptionGroup: `main` succeeded, but callbacks or forgotten tasks failed, which asyncio would only log.
        KeyboardInterrupt: a signal came, perhaps in the middle of a callback.
        BaseException: An error of `main`. Each error has a note that says how to replay it.
    """
    reported: list[Exception] = []
    name = getattr(main, "__qualname__", repr(main))
    replay = f"run_simulation({name}, seed={seed}, latency_s={latency_s}, jitter_s={jitter_s}, limit_s={limit_s})"
    try:
        with (
            _rare_collections(),
            _interrupted_at_once(),
            asyncio.Runner(loop_factory=partial(VirtualLoop, limit_s=limit_s)) as runner,
        ):
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop)
            loop.set_exception_handler(lambda _, context: reported.append(_reported(context)))
            network = SimulatedNetwork(loop, Random(f"network {seed}"), latency_s=latency_s, jitter_s=jitter_s)
            simulation = Simulation(loop=loop, network=network, random=Random(seed), seed=seed)
            result = runner.run(_coroutine(main, simulation))
    except BaseException as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            # A signal left a callback in the middle, so other tasks could not be cancelled: nothing was found.
            raise KeyboardInterrupt from error
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


@contextlib.contextmanager
def _interrupted_at_once() -> Generator[None]:
    """Let Ctrl-C raise KeyboardInterrupt at the place where it comes, as other signals do.

    `asyncio.Runner` replaces Python's handler by one that cancels the main task. If that does not end, the run ends
    as a deadlock, and a sweep would report the seed as failed and go on with the next one.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


async def _coroutine(main: Callable[[Simulation], Awaitable[T]], simulation: Simulation) -> T:
    return await main(simulation)


def _reported(context: dict[str, Any]) -> Exception:
    error = context.get("exception")
    if not isinstance(error, Exception):
        return RuntimeError(context["message"])
    error.add_note(context["message"])
    return error
