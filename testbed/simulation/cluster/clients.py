"""Clients of a simulated cluster: they record each message that they send or get, and may be killed or hang.

A connection comes from the host of the task that opens it, so calls to a client have to be made on its own host. That
is why a scenario calls these wrappers and not the real client inside.

Invariant: a delivery is recorded when the listener is called, and `finished` only when the listener returned: an offset
that is committed while no delivery of its message is finished is a lost message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from client.instance.registry import release_instance
from client.listeners.listener import ConsumeResult
from client.pop.consumer import PopConsumer
from client.pop.message import PopMessage
from client.produce.producer import Producer
from client.push.consumer import PushConsumer
from client.rebalance.member import GroupConsumer
from client.transactions.producer import TransactionProducer
from model.message import Message, MessageExt, SendResult
from model.message_queue import MessageQueue
from model.names import is_retry_topic
from model.subscription import Expression
from testbed.simulation.kernel.network import Fault
from testbed.simulation.kernel.run import Simulation

Work = Callable[[MessageExt], Awaitable[ConsumeResult | None]]
"""A consumer's work on each message; None or SUCCESS finishes it, RECONSUME_LATER or an exception fails it."""


@dataclass(slots=True, eq=False)
class Delivery:
    """One call of a listener with a message."""

    time_s: float  # virtual time
    client_id: str
    message: MessageExt
    times_delivered: int  # how often the message had failed before at this consumer
    finished: bool = False  # whether the listener returned success

    @property
    def body(self) -> bytes:
        """The message's body."""
        return self.message.body


class MemberProcess(Protocol):
    """The process of a member of a group, of this project or of RocketMQ; `live` while it runs and can be reached."""

    host: str
    live: bool

    @property
    def client_id(self) -> str:
        """The client id, once the client has started."""

    async def stop(self) -> None:
        """Shut it down as its owner would."""

    async def end(self) -> None:
        """End the tasks of one that hangs, or was shut down."""

    async def crash(self) -> None:
        """Kill it."""


@dataclass(slots=True, eq=False)
class _SimulatedClient(ABC):
    """One client process on its own host; `live` while it runs and can be reached."""

    simulation: Simulation
    host: str
    live: bool = field(default=False, kw_only=True)

    @property
    @abstractmethod
    def _client(self) -> GroupConsumer | Producer:
        """The real client in it."""

    async def start(self) -> None:
        """Start it, from its host. Raises and cancellation: see its own `start`."""
        with self.simulation.on_host(self.host):
            await self._client.start()
        self.live = True

    async def stop(self) -> None:
        """Shut it down as its owner would. Idempotent. Cancellation: see its own `shutdown`."""
        self.live = False
        with self.simulation.on_host(self.host):
            await self._client.shutdown()

    async def _crash(self, end_tasks: Callable[[], Awaitable[object]]) -> None:
        self.live = False
        # A clean shutdown would finish, commit and unregister. No client kills itself, so its tasks are ended
        # from the outside: the listeners first, then the instance below them.
        instance = self._client._instance
        assert instance is not None, "a client that was not started cannot crash"
        with self.simulation.network.stall(self.host):
            self.simulation.network.cut(self.host)
            await end_tasks()
            await release_instance(instance)

    def hang(self) -> Fault:
        """Cut the host off without a reset, as when its process hangs; healing the fault brings it back."""
        self.live = False
        return self.simulation.network.stall(self.host)


@dataclass(slots=True, eq=False)
class SimulatedMember(_SimulatedClient):
    """One consumer process."""

    consumer: GroupConsumer

    @property
    def _client(self) -> GroupConsumer:
        return self.consumer

    @property
    def client_id(self) -> str:
        """`host@instance`, once started."""
        return self.consumer.client_id

    @property
    def group(self) -> str:
        """The group of the consumer."""
        return self.consumer.group

    async def unsubscribe(self, topic: str) -> None:
        """See `GroupConsumer.unsubscribe`."""
        with self.simulation.on_host(self.host):
            await self.consumer.unsubscribe(topic)

    async def end(self) -> None:
        """End the tasks of one that hangs, or was shut down: without that it would fail at the end of the loop."""
        await self.consumer._background.stop()
        if self.consumer._instance is not None:
            await self.consumer._instance.background.stop()

    async def crash(self) -> None:
        """Kill its process: its connections are reset, and it can send nothing more.

        Cancellation: it is dead, but some of its tasks may still be in memory.
        """
        await self._crash(self.consumer._background.stop)


@dataclass(slots=True, eq=False)
class SimulatedConsumer(SimulatedMember):
    """A push consumer, with every delivery to its listener in order."""

    consumer: PushConsumer
    deliveries: list[Delivery] = field(default_factory=list)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that it owns now, sorted; without those of its retry topic."""
        return [queue for queue in self.consumer.queues if not is_retry_topic(queue.topic)]

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of its deliveries, in order."""
        return [delivery.body for delivery in self.deliveries]

    def listener(self, work: Work | None) -> Callable[[Sequence[MessageExt]], Awaitable[ConsumeResult | None]]:
        """Make a listener that records every message and then does the work on each."""

        async def on_messages(messages: Sequence[MessageExt]) -> ConsumeResult | None:
            now = self.simulation.loop.time()
            batch = [Delivery(now, self.client_id, message, message.times_delivered) for message in messages]
            self.deliveries += batch
            for delivery in batch:
                if work is not None and await work(delivery.message) is ConsumeResult.RECONSUME_LATER:
                    return ConsumeResult.RECONSUME_LATER
            for delivery in batch:
                delivery.finished = True
            return None

        return on_messages

    async def subscribe(self, topic: str, expression: Expression = "*", *, work: Work | None = None) -> None:
        """Subscribe to one more topic, or change a subscription; see `PushConsumer.subscribe`."""
        with self.simulation.on_host(self.host):
            await self.consumer.subscribe(topic, self.listener(work), expression)


@dataclass(slots=True, eq=False)
class SimulatedPopConsumer(SimulatedMember):
    """A pop consumer."""

    consumer: PopConsumer

    async def receive(
        self, max_n: int = 32, *, invisible_s: float = 60.0, wait_s: float = 15.0, renew: bool = False
    ) -> list[PopMessage]:
        """See `PopConsumer.receive`."""
        with self.simulation.on_host(self.host):
            return await self.consumer.receive(max_n, invisible_s=invisible_s, wait_s=wait_s, renew=renew)

    async def dead_letter(self, message: PopMessage | str) -> None:
        """See `PopConsumer.dead_letter`."""
        with self.simulation.on_host(self.host):
            await self.consumer.dead_letter(message)

    async def ack(self, messages: Sequence[PopMessage | str]) -> list[PopMessage | str]:
        """See `PopConsumer.ack`."""
        with self.simulation.on_host(self.host):
            return await self.consumer.ack(messages)

    async def extend(self, message: PopMessage | str, invisible_s: float) -> str:
        """See `PopConsumer.extend`."""
        with self.simulation.on_host(self.host):
            return await self.consumer.extend(message, invisible_s)


@dataclass(slots=True, eq=False)
class SimulatedProducer(_SimulatedClient):
    """One producer process.

    Attributes:
        acknowledged: body -> result of the send, so bodies should differ.
    """

    producer: Producer
    acknowledged: dict[bytes, SendResult] = field(default_factory=dict)

    @property
    def _client(self) -> Producer:
        return self.producer

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str = "",
        key: str | None = None,
        queue: MessageQueue | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Send a message; see `Producer.send`. The key is also the key of the message, for consumers in key order."""
        message = Message(topic, body, tags=tags, keys=() if key is None else (key,), properties=properties or {})
        with self.simulation.on_host(self.host):
            result = await self.producer.send(message, key=key, queue=queue)
        self.acknowledged[body] = result
        return result

    async def send_many(self, topic: str, n: int, *, first: int = 0) -> None:
        """Send messages one after another; their bodies are the numbers from `first` on. Raises: see `send`."""
        for number in range(first, first + n):
            await self.send(topic, b"%d" % number)


@dataclass(slots=True, eq=False)
class SimulatedTransactionProducer(SimulatedProducer):
    """A producer of transactions, which may be killed or hang."""

    producer: TransactionProducer

    async def crash(self) -> None:
        """Kill its process; the caller ends the tasks in which its local branches run.

        Cancellation: it is dead, but some of its tasks may still be in memory.
        """
        await self._crash(self.producer._answers.stop)
