"""The load generator: consumers of one group that come and go, and producers at a steady rate, against any cluster.

It uses only the real clients and the running loop, so the same load runs on sockets and in the simulation. A subclass
chooses the messages and the way to send them, and records the results:

    async with running(CrashLoad(...)) as load:    # its consumers have joined
        load.start_producing()
        ...
        await load.fall_quiet()                    # outstanding sends are acknowledged or have failed
                                                   # its consumers have left

A producer sends in lanes. Each lane numbers its messages from 0 without a gap. A lane with one sender has one
outstanding send, so its messages are stored in the order of their numbers; more senders send more at once.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, NamedTuple, TypeVar

import anyio
from anyio.abc import TaskGroup

from client.allocate.registry import strategy_named
from client.config import wall_clock_ms
from client.listeners.listener import ConsumeResult
from client.produce.producer import Producer
from client.push.consumer import PushConsumer
from model.errors import ConfigError, IllegalOperation, RlabError
from model.message import MessageExt, SendResult
from remoting.tasks import background_tasks
from testbed.load.pace import Turns
from traces.check.ledger import SentMessage

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 256
"""Outstanding sends of one producer; as many more may be due, and the rest is skipped."""
JOIN_AT_ONCE = 32
"""Consumers that join at the same time: the brokers notify the others of them at once."""
_QUIET_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options of a load, or of one part of it.

    Raises:
        ConfigError: a number is out of its range.
    """

    name_servers: str  # addresses, separated by commas
    topic: str  # has to exist
    group: str  # should have no other members
    prefix: str  # names of the consumers are this and a number from 1; no other part has the same
    consumers: int = 0  # how many join at first
    producers: int = 0
    first_producer: int = 0  # number of the first one; no other part has the same numbers
    rate: float = 100.0  # sends per second of all producers together
    churn_s: float = 0.0  # seconds between two random joins or leaves, once it produces; 0 for none
    seed: int = 0
    strategy: str = "AVG"  # name of the allocation strategy of the consumers; see `client/allocate/registry.py`
    consumer_options: Mapping[str, Any] = field(default_factory=dict)  # further options of each `PushConsumer`
    client_options: Mapping[str, Any] = field(default_factory=dict)
    clock_ms: Callable[[], float] = wall_clock_ms

    def __post_init__(self) -> None:
        if self.producers and self.rate <= 0:
            raise ConfigError(f"rate must be above 0, got {self.rate}; for no messages choose no producers")


class Lane(NamedTuple):
    """A numbered sequence of messages of one producer."""

    number: int
    senders: int = 1
    batch: int = 1  # messages of one send


class LoadGenerator(ABC):
    """A running load; `join` and `leave` may also be called from outside."""

    tasks: TaskGroup  # runs the producers and the other tasks

    def __init__(self, options: LoadOptions) -> None:
        self.consumers: dict[str, PushConsumer] = {}  # name -> consumer, of the present members
        self.turns = Turns(MAX_IN_FLIGHT * options.producers)
        self._load = options
        self._names = (f"{options.prefix}{n}" for n in count(1))
        self._random = Random(f"{options.seed} {options.prefix}")
        self._churning = anyio.CancelScope()
        self._producing = 0  # producers that run
        self._stopping = False

    # --- in a subclass -----------------------------------------------------------------------------------------------

    @abstractmethod
    def lanes(self, producer: int) -> Iterable[Lane]:
        """The lanes of a producer; no other producer has their numbers."""

    @abstractmethod
    async def send(self, producer: Producer, messages: Sequence[SentMessage]) -> Sequence[SendResult]:
        """Send the next messages of a lane; returns a result for each. Raises: RlabError."""

    @abstractmethod
    def acknowledged(self, message: SentMessage, result: SendResult) -> object:
        """A broker acknowledged a message; called at once, must not block."""

    @abstractmethod
    def failed(self, message: SentMessage, error: RlabError) -> object:
        """A send failed; called at once, must not block."""

    @abstractmethod
    async def received(self, name: str, messages: Sequence[MessageExt]) -> ConsumeResult | None:
        """The listener of each consumer, by its name."""

    def client_options(self) -> Mapping[str, Any]:
        """Further options of the next client."""
        return self._load.client_options

    def _options_of(self, name: str) -> dict[str, Any]:
        return {
            "clock_ms": self._load.clock_ms,
            "rng": Random(f"{self._load.seed} {name}"),
            **self.client_options(),
        }

    # --- consumers ---------------------------------------------------------------------------------------------------

    async def join(self, name: str | None = None) -> str:
        """Start a consumer and subscribe it; returns its name, by default the prefix and the next number.

        Raises:
            ConnectFailed: no name server answers.

        Cancellation: it has not joined.
        """
        options, name = self._load, name or next(self._names)
        member_options = {
            "instance_name": name,
            "consume_batch": 32,
            "strategy": strategy_named(options.strategy),
            **self._options_of(name),
            **options.consumer_options,
        }
        consumer = PushConsumer(options.name_servers, options.group, **member_options)

        async def listen(messages: Sequence[MessageExt]) -> ConsumeResult | None:
            return await self.received(name, messages)

        await consumer.start()
        try:
            await consumer.subscribe(options.topic, listen)
        except BaseException:  # a cancellation too: no caller has this consumer yet to shut it down
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
        if self._load.consumers:
            await self.join()
        left = iter(range(self._load.consumers - 1))
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

    async def join_and_leave(self) -> None:
        """Start and stop consumers at random until `fall_quiet`.

        Cancellation: a consumer that is about to join or leave does so.
        """
        with self._churning:
            # Parts of one load begin at different moments.
            await anyio.sleep(self._random.random() * self._load.churn_s)
            while True:
                with anyio.CancelScope(shield=True):
                    await self._join_or_leave()
                await anyio.sleep(self._load.churn_s)

    async def _join_or_leave(self) -> None:
        base, n = self._load.consumers, len(self.consumers)
        fewest, max_members = max(1, base // 2), base + max(1, base // 2)
        try:
            if n <= fewest or (n < max_members and self._random.random() < 0.5):
                await self.join()
            else:
                await self.leave(self._random.choice(list(self.consumers)))
        except RlabError as error:
            logger.warning("churn: %s", error)

    # --- producers ---------------------------------------------------------------------------------------------------

    def start_producing(self) -> None:
        """Start the producers, and the joins and leaves; to be called once.

        Not earlier: joins and leaves would delay the code that waits until the group has converged.
        """
        options = self._load
        if options.churn_s > 0:
            self.tasks.start_soon(self.join_and_leave)
        if options.producers:
            self.tasks.start_soon(self.turns.run, options.rate)
        for index in range(options.first_producer, options.first_producer + options.producers):
            self._producing += 1
            self.tasks.start_soon(self._produce, index)

    async def fall_quiet(self) -> None:
        """Stop sends, joins and leaves; wait until every outstanding send is acknowledged or has failed.

        Cancellation: they stop all the same.
        """
        self._churning.cancel()
        self._stopping = True
        self.turns.open()
        while self._producing:  # noqa: ASYNC110 - the last of several tasks, once in a run
            await anyio.sleep(_QUIET_POLL_S)

    async def _produce(self, index: int) -> None:
        name = f"{self._load.prefix}producer{index}"
        try:
            async with (
                Producer(self._load.name_servers, instance_name=name, **self._options_of(name)) as producer,
                anyio.create_task_group() as sending,
            ):
                for lane in self.lanes(index):
                    numbers = count()
                    for _ in range(lane.senders):
                        sending.start_soon(self._send_in_turn, producer, lane, numbers)
        finally:
            self._producing -= 1

    async def _send_in_turn(self, producer: Producer, lane: Lane, numbers: Iterator[int]) -> None:
        """One sender of a lane. It stays: a task for each message costs as much as the message."""
        while True:
            await self.turns.wait_turn()
            if self._stopping:
                return
            messages = [SentMessage(lane.number, next(numbers)) for _ in range(lane.batch)]
            try:
                results = await self.send(producer, messages)
            except RlabError as error:
                for message in messages:
                    self.failed(message, error)
            else:
                for message, result in zip(messages, results, strict=True):
                    self.acknowledged(message, result)


LoadT = TypeVar("LoadT", bound=LoadGenerator)


@asynccontextmanager
async def running(load: LoadT) -> AsyncIterator[LoadT]:
    """Run a load while the block runs; at its begin the first consumers have joined, and no message was sent yet.

    Raises:
        ConnectFailed: no name server answers.

    Cancellation: outstanding sends are cancelled, and the consumers leave properly.
    """
    try:
        async with background_tasks() as load.tasks:
            await load.join_all()
            yield load
    finally:
        # After the tasks have ended, because a consumer may have been about to join.
        with anyio.CancelScope(shield=True):
            await load.leave_all()
