"""The measurements of one system: awaited sends, batches of sends, and consumption with acknowledgements."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

import anyio

from model.errors import ServiceNotAvailable
from testbed.bench.kit.echo import BODY
from testbed.bench.kit.rounds import Window, Work, rate
from testbed.bench.peers.systems.protocol import Sender, System

BATCH = 32
BATCHES_IN_FLIGHT = 4
_FIRST_S = 30.0
_POLL_S = 0.005
_groups = itertools.count(1)


class Meter:
    """Counts bodies up to a number; `clock` gives seconds.

    The messages of the first call are not counted: they, and whatever was fetched with them, are there before the
    clock starts.
    """

    def __init__(self, count: int, clock: Callable[[], float]) -> None:
        self._count = count
        self._clock = clock
        self._before = 0
        self._began = 0.0
        self._ended = 0.0
        self.seen = 0

    def count(self, bodies: Sequence[bytes]) -> None:
        """Count the bodies of one call."""
        if not self.seen:
            self._began, self._before = self._clock(), len(bodies)
        self.seen += len(bodies)
        if self.seen >= self._count and not self._ended:
            self._ended = self._clock()

    @property
    def done(self) -> bool:
        """Whether all were counted."""
        return self._ended > 0

    def elapsed(self) -> float:
        """Seconds since the first call, or until the last message; 0 before the first."""
        return (self._ended or self._clock()) - self._began if self.seen else 0.0

    def rate(self) -> float:
        """Messages per second since the first call; 0 if there was no second one."""
        elapsed = self.elapsed()
        return (self.seen - self._before) / elapsed if elapsed > 0 else 0.0


def sending(sender: Sender) -> Work:
    """A worker that sends one message after another."""

    async def work(window: Window) -> None:
        while window.open:
            await sender.send(BODY)
            window.done += 1

    return work


def sending_batches(sender: Sender) -> Work:
    """A worker that sends one batch after another."""
    bodies = [BODY] * BATCH

    async def work(window: Window) -> None:
        while window.open:
            await sender.send_batch(bodies)
            window.done += len(bodies)

    return work


async def send_rate(sender: Sender, in_flight: int, seconds: float) -> float:
    """Messages per second with `in_flight` sends awaited at the same time."""
    return await rate(sending(sender), in_flight, seconds)


async def batch_rate(sender: Sender, seconds: float) -> float:
    """Messages per second in batches, a few of which are awaited at the same time."""
    return await rate(sending_batches(sender), BATCHES_IN_FLIGHT, seconds)


async def consume_rate(system: System, address: str, topic: str, count: int, batch: int, seconds: float) -> float:
    """Messages per second of a new group on a topic of `count` messages, from its first message on.

    Raises:
        ServiceNotAvailable: no message came.
    """
    meter = Meter(count, time.perf_counter)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(system.consume, address, topic, f"group-{next(_groups)}", batch, meter.count)
        started = time.perf_counter()
        while not meter.done and meter.elapsed() < seconds:
            if not meter.seen and time.perf_counter() - started > _FIRST_S:
                raise ServiceNotAvailable(f"{system.name} consumed nothing within {_FIRST_S:g} s")
            await anyio.sleep(_POLL_S)
        result = meter.rate()
        tasks.cancel_scope.cancel()
    return result
