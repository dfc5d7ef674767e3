"""A swarm: consumers of one group that come and go, and producers at a steady rate, against any cluster.

It uses only shipped clients and the running loop, so the same swarm runs on sockets and in the simulation. A sink gets
everything that happens at once, so a swarm may be observed in its process, or be one part of many in other processes.

    async with run_swarm(options, sink) as swarm:      # its consumers have joined
        swarm.start_producing()
        ...
        await swarm.fall_quiet()                       # outstanding sends are answered or have failed
                                                       # its consumers have left

Each message begins with (run, producer, number), see `traces/check/delivery.py`; messages of other runs in
the topic are ignored.
"""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from client.allocate.registry import strategy_named
from client.config import wall_clock_ms
from client.produce.producer import Producer
from client.push.consumer import PushConsumer
from model.errors import ConfigError, IllegalOperation, RlabError
from model.events import Event
from model.limits import MAX_BODY_BYTES
from model.message import Message, MessageExt
from remoting.tasks import background_tasks

logger = logging.getLogger(__name__)

_HEAD = struct.Struct(">QIQ")
MAX_IN_FLIGHT = 256
"""Outstanding sends of one producer; as many more may be due, and the rest is skipped."""
MAX_LATE_S = 1.0
"""How far a stalled loop may fall behind the rate and catch up; after a longer stall there is no burst."""
JOIN_AT_ONCE = 32
"""Consumers that join at the same time: the brokers notify the others of them at once."""
TICK_S = 0.005
"""Sends that are due within this time begin together, so that they share their writes."""
OUTAGE_OVER_S = 15.0
"""Failed sends are one outage, with one warning, until none failed for this time; above all tries of a send."""


class SwarmSink(Protocol):
    """Receives what a swarm reports; called at once, must not block."""

    def acknowledged(self, producer: int, number: int) -> object:
        """A broker acknowledged the message."""

    def failed(self, producer: int, number: int) -> object:
        """A send failed."""

    def received(self, producer: int, number: int) -> object:
        """A consumer got the message."""

    def event(self, event: Event) -> object:
        """A client emitted an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmOptions:
    """Options of a swarm, or of one part of it.

    Raises:
        ConfigError: a number is out of its range.
    """

    name_servers: str  # addresses, separated by commas
    topic: str  # has to exist
    group: str  # should have no other members
    run: int  # marks the messages of this run; all parts of a swarm have the same
    prefix: str  # names of the consumers are this and a number from 1; no other part has the same
    consumers: int = 0  # how many join at first
    producers: int = 0
    first_producer: int = 0  # number of the first one; no other part has the same numbers
    rate: float = 100.0  # messages per second of all producers together
    body_bytes: int = 256
    keys: int = 0  # number of keys of each producer, used in turns; 0 for none
    churn_s: float = 0.0  # seconds between two random joins or leaves, once it produces; 0 for none
    seed: int = 0
    strategy: str = "AVG"  # name of the allocation strategy of the consumers; see `client/allocate/registry.py`
    consumer_options: Mapping[str, Any] = field(default_factory=dict)  # further options of each `PushConsumer`
    client_options: Mapping[str, Any] = field(default_factory=dict)
    clock_ms: Callable[[], float] = wall_clock_ms

    def __post_init__(self) -> None:
        if not _HEAD.size <= self.body_bytes <= MAX_BODY_BYTES:
            raise ConfigError(f"body_bytes must be {_HEAD.size} to {MAX_BODY_BYTES}, got {self.body_bytes}")
        if self.producers and self.rate <= 0:
            raise ConfigError(f"rate must be above 0, got {self.rate}; for no messages choose no producers")


def number_in(body: bytes, run: int) -> tuple[int, int] | None:
    """Producer and number of a message of a run; None for another message."""
    if len(body) < _HEAD.size:
        return None
    of_run, producer, number = _HEAD.unpack_from(body)
    return (producer, number) if of_run == run else None


class Pace:
    """Counts how many sends are due at a steady rate per second; the first is due at `now`. Pure."""

    def __init__(self, rate: float, now: float) -> None:
        self.next_at = now  # when the next one is due, in seconds
        self._interval_s = 1 / rate

    def take(self, now: float) -> int:
        """Number that became due since the last call; those that are later than `MAX_LATE_S` are skipped."""
        self.next_at = max(self.next_at, now - MAX_LATE_S)
        if now < self.next_at:
            return 0
        n = 1 + int((now - self.next_at) / self._interval_s)
        self.next_at += n * self._interval_s
        return n


class Swarm:
    """A running swarm, made by `run_swarm`; `join` and `leave` may also be called from outside."""

    tasks: TaskGroup  # runs the producers and the other tasks of the swarm

    def __init__(self, options: SwarmOptions, sink: SwarmSink) -> None:
        self.consumers: dict[str, PushConsumer] = {}  # name -> consumer, of the present members
        self._options = options
        self._sink = sink
        self._names = (f"{options.prefix}{n}" for n in count(1))
        self._random = Random(f"{options.seed} {options.prefix}")
        self._churning = anyio.CancelScope()
        self._pacing: list[anyio.CancelScope] = []
        self._producers_running = 0
        self._producers_done = anyio.Event()
        self._gave_up_at = -math.inf

    # --- consumers ---------------------------------------------------------------------------------------------------

    async def join(self, name: str | None = None) -> str:
        """Start a consumer and subscribe it; returns its name, by default the prefix and the next number.

        Raises:
            ConnectFailed: no name server answers.

        Cancellation: it has not joined.
        """
        options = self._options
        name = name or next(self._names)
        consumer = PushConsumer(
            options.name_servers,
            options.group,
            **{
                "instance_name": name,
                "consume_batch": 32,
                "strategy": strategy_named(options.strategy),
                "event_sink": self._sink.event,
                "clock_ms": options.clock_ms,
                "rng": Random(f"{options.seed} {name}"),
                **options.client_options,
                **options.consumer_options,
            },
        )
        await consumer.start()
        try:
            await consumer.subscribe(options.topic, self._on_message)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await consumer.shutdown()
            raise
        self.consumers[name] = consumer
        return name

    async def leave(self, name: str) -> None:
        """Shut a consumer down: its listeners finish, it commits and unregisters.

        Raises:
            IllegalOperation: there is no consumer of that name.

        Cancellation: it leaves all the same; its brokers may see it only by the closed connection.
        """
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            raise IllegalOperation(f"no consumer {name!r}; there are {', '.join(self.consumers) or 'none'}")
        await consumer.shutdown()

    async def join_all(self) -> None:
        """Start as many consumers as the options say.

        Raises:
            RlabError: of the first that cannot join, as ConnectFailed if no name server answers.

        Cancellation: some may have joined.
        """
        # The first one alone: most errors would hit all of them, and one error is enough.
        if self._options.consumers:
            await self.join()
        left = iter(range(self._options.consumers - 1))
        failures: list[RlabError] = []

        async def join_some() -> None:
            try:
                for _ in left:
                    await self.join()
            except RlabError as error:
                failures.append(error)
                joining.cancel_scope.cancel()

        async with anyio.create_task_group() as joining:
            for _ in range(JOIN_AT_ONCE):
                joining.start_soon(join_some)
        if failures:
            raise failures[0]

    async def leave_all(self) -> None:
        """Shut all consumers down at once. Cancellation: see `leave`."""
        async with anyio.create_task_group() as leaving:
            for name in list(self.consumers):
                leaving.start_soon(self.leave, name)

    async def _on_message(self, messages: Sequence[MessageExt]) -> None:
        for message in messages:
            number = number_in(message.body, self._options.run)
            if number is not None:
                self._sink.received(*number)

    async def join_and_leave(self) -> None:
        """Start and stop consumers at random until `fall_quiet`.

        Cancellation: a consumer that is about to join or leave does so.
        """
        with self._churning:
            # Parts of one swarm begin at different moments.
            await anyio.sleep(self._random.random() * self._options.churn_s)
            while True:
                with anyio.CancelScope(shield=True):
                    await self._join_or_leave()
                await anyio.sleep(self._options.churn_s)

    async def _join_or_leave(self) -> None:
        base, n = self._options.consumers, len(self.consumers)
        fewest, most = max(1, base // 2), base + max(1, base // 2)
        try:
            if n <= fewest or (n < most and self._random.random() < 0.5):
                await self.join()
            else:
                await self.leave(self._random.choice(list(self.consumers)))
        except RlabError as error:
            logger.warning("churn: %s", error)

    # --- producers ---------------------------------------------------------------------------------------------------

    def start_producing(self) -> None:
        """Start the producers, and the joins and leaves; to be called once.

        Not earlier: a group that never rests for long would keep those waiting who begin once it has converged.
        """
        options = self._options
        if options.churn_s > 0:
            self.tasks.start_soon(self.join_and_leave)
        for index in range(options.first_producer, options.first_producer + options.producers):
            self._pacing.append(anyio.CancelScope())
            self._producers_running += 1
            self.tasks.start_soon(self._produce, index, self._pacing[-1])

    async def fall_quiet(self) -> None:
        """Stop sends, joins and leaves; wait until every outstanding send is answered or has failed.

        Cancellation: they stop all the same.
        """
        self._churning.cancel()
        for scope in self._pacing:
            scope.cancel()
        while self._producers_running:
            await self._producers_done.wait()

    async def _produce(self, index: int, pacing: anyio.CancelScope) -> None:
        options = self._options
        rate = options.rate / options.producers
        workers = min(MAX_IN_FLIGHT, math.ceil(rate))
        due = anyio.Semaphore(0)
        producer = Producer(
            options.name_servers,
            **{
                "instance_name": f"{options.prefix}producer{index}",
                "event_sink": self._sink.event,
                "clock_ms": options.clock_ms,
                "rng": Random(f"{options.seed} producer {index}"),
                **options.client_options,
            },
        )
        try:
            async with producer, anyio.create_task_group() as sending:
                numbers = count()
                for _ in range(workers):
                    sending.start_soon(self._send_what_is_due, producer, index, numbers, due, pacing)
                with pacing:
                    await _release_at_rate(due, rate)
                # Wake the waiting workers once more, so that they see the end.
                for _ in range(workers):
                    due.release()
        finally:
            self._producers_running -= 1
            if not self._producers_running:
                self._producers_done.set()

    async def _send_what_is_due(
        self, producer: Producer, index: int, numbers: Iterator[int], due: anyio.Semaphore, pacing: anyio.CancelScope
    ) -> None:
        """One of the workers of a producer. They stay: a task for each message costs as much as the message."""
        options = self._options
        while True:
            await due.acquire()
            if pacing.cancel_called:
                return
            number = next(numbers)
            body = _HEAD.pack(options.run, index, number).ljust(options.body_bytes, b".")
            try:
                key = f"{index}-{number % options.keys}" if options.keys else None
                await producer.send(Message(options.topic, body, () if key is None else (key,)), key=key)
            except RlabError as error:
                self._sink.failed(index, number)
                self._gave_up(error)
            else:
                self._sink.acknowledged(index, number)

    def _gave_up(self, error: RlabError) -> None:
        """Warn once an outage; the sink counts the rest."""
        now = anyio.current_time()
        if now - self._gave_up_at >= OUTAGE_OVER_S:
            logger.warning("sends fail; further failures of this outage are only counted: %s", error)
        else:
            logger.debug("send: %s", error)
        self._gave_up_at = now


async def _release_at_rate(due: anyio.Semaphore, rate: float) -> None:
    """Begin sends at a steady rate until cancelled. Cancellation: harmless."""
    pace = Pace(rate, anyio.current_time())
    while True:
        await anyio.sleep_until(max(pace.next_at, anyio.current_time() + TICK_S))
        # While sends are blocked, those that are due do not add up.
        for _ in range(min(pace.take(anyio.current_time()), MAX_IN_FLIGHT - due.value)):
            due.release()


@asynccontextmanager
async def run_swarm(options: SwarmOptions, sink: SwarmSink) -> AsyncIterator[Swarm]:
    """Run a swarm while the block runs; at its begin the first consumers have joined, and no message was sent yet.

    Raises:
        ConnectFailed: no name server answers.

    Cancellation: outstanding sends are cancelled, and the consumers leave properly.
    """
    swarm = Swarm(options, sink)
    try:
        async with background_tasks() as swarm.tasks:
            await swarm.join_all()
            yield swarm
    finally:
        # After the tasks have ended, because a consumer may have been about to join.
        with anyio.CancelScope(shield=True):
            await swarm.leave_all()
