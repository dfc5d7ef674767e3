"""The clients of a programme: members with their listeners, and producers; they report all messages to the checkers.

Each member has its own host, its slot: a member that was killed is started again in its slot, as another client.
Messages begin with their producer and their number, so that each can be identified at every consumer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from client.allocate.registry import strategy_named
from client.listeners.listener import ConsumeResult, Listener
from client.pop.message import PopMessage
from client.pop.requests import PopRequests
from client.produce.queue_picker import select_by_key
from model.errors import ReceiptHandleDead, RlabError
from model.heartbeat import ConsumeFrom
from model.message import Message, MessageExt
from model.message_queue import MessageQueue
from model.names import dlq_topic
from testbed.load.body import make_body, read_number
from testbed.simulation.cluster.access import CLIENT_KEY
from testbed.simulation.cluster.clients import (
    MemberProcess,
    SimulatedConsumer,
    SimulatedMember,
    SimulatedPopConsumer,
    SimulatedProducer,
    SimulatedTransactionProducer,
)
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.checkers import Call, Checkers
from testbed.simulation.engine.pops import set_stock_group, start_stock_member, watch_acknowledgements
from testbed.simulation.engine.programme import GroupPart, Programme
from testbed.simulation.engine.transactions import SimulatedTransactions
from traces.check.ledger import Ending, SentMessage

RETRY_DELAY_MS = 500
SEND_AGAIN_S = 0.5
"""Pause of a producer whose keys have to stay in order, before it sends a message again."""
DELAY_MS = 1_000


class SimulatedLoad:
    """The clients of one run."""

    def __init__(self, programme: Programme, cluster: SimulatedCluster, checkers: Checkers, tasks: TaskGroup) -> None:
        self.members: dict[str, MemberProcess | None] = {}  # slot -> the member in it
        self.producers: dict[str, SimulatedProducer | None] = {}
        self.slower_s: dict[str, float] = {}  # slot -> how much longer its member works on a message
        self._sending = anyio.Event()  # set while producers send
        self.transactions = SimulatedTransactions(programme, cluster, checkers) if programme.load.branch_s else None
        self._programme, self._cluster, self._judge, self._tasks = programme, cluster, checkers, tasks
        self._random = cluster.simulation.random
        self._group_of = {slot: group for group in programme.group for slot in group.slots}
        # One for all members of a group: each would compute the same, and it remembers the last result.
        self._strategies = {group.name: strategy_named(group.strategy) for group in programme.group}
        self._stopping = False
        self._in_flight = self._n_stock = 0
        brokers = sorted(cluster.brokers)
        self._queues = {
            topic.name: [MessageQueue(topic.name, name, n) for name in brokers for n in range(topic.queues)]
            for topic in programme.topic
        }
        cluster.client_options |= {
            "route_poll_interval_s": programme.cluster.route_poll_s,
            "quirks": programme.cluster.client_quirks,
            "key": CLIENT_KEY if programme.cluster.access else None,
        }

    # --- members -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every member that does not wait, and every producer. Raises: RlabError. Cancellation: some run."""
        for group in self._programme.group:
            self.members |= dict.fromkeys(group.slots)
            if group.stock:
                await set_stock_group(self._cluster, group, RETRY_DELAY_MS)
            for slot in group.slots[: group.members - group.waiting]:
                await self.start_member(slot)
            if group.fails or group.poisoned:
                await self._start_reader(group)
        for index, slot in enumerate(self._programme.load.slots):
            self.producers[slot] = None
            await self.start_producer(slot)
            self._tasks.start_soon(self._produce, slot, index)

    async def start_member(self, slot: str, *, twin: bool = False) -> MemberProcess:
        """Start the member of a slot; a `twin` has the client id of the one that runs, on another host.

        Raises and cancellation: see `PushConsumer.start`.
        """
        group = self._group_of[slot]
        options: dict[str, Any] = {
            "host": f"{slot}-twin" if twin else slot,
            "session_timeout_s": group.session_s,
            "max_attempts": group.attempts,
            "consume_from": ConsumeFrom.FIRST_OFFSET,
        }
        if twin and (first := self.members[slot]) is not None:
            options |= {"client_ip": slot, "instance_name": first.client_id.partition("@")[2]}
        member = await self._start_consumer(group, options)
        if not twin:
            self.members[slot] = member
        return member

    async def _start_consumer(self, group: GroupPart, options: dict[str, Any]) -> MemberProcess:
        if group.mode == "pop":
            if options["host"] in group.slots[group.members - group.receivers :]:
                return await self._start_receiver(group, options)
            if options["host"] in group.stock_slots:
                self._n_stock += 1
                slot, topics = options["host"], self._programme.topics_of(group)
                work = partial(self._work, group, slot)
                return await start_stock_member(self._cluster, group, slot, topics[0], self._n_stock, self._judge, work)
            options |= {"mode": "pop", "invisible_s": group.invisible_s}
        strategy = None if group.mode == "pop" else self._strategies[group.name]
        if group.order != "none":
            options |= {"order": group.order, "suspend_s": 0.2}
        else:
            options["retry_delay_ms"] = RETRY_DELAY_MS
        simulated = self._cluster.make_consumer(
            group.name, strategy=strategy, shutdown_grace_s=group.grace_s, **options
        )
        listener = self._listener(group, simulated)
        await self._cluster.subscribe_and_start(simulated, dict.fromkeys(self._programme.topics_of(group), listener))
        if simulated.consumer._popped is not None:
            self._watch(group, simulated.consumer._popped.requests)
        return simulated

    async def _start_receiver(self, group: GroupPart, options: dict[str, Any]) -> SimulatedPopConsumer:
        """Start a member that receives and acknowledges by itself."""
        popper = await self._cluster.start_popper(group.name, self._programme.topics_of(group)[0], **options)
        assert popper.consumer._receiver is not None, "it was started"
        self._watch(group, popper.consumer._receiver.requests)
        popper.consumer._background.start_soon(self._receive, group, popper)
        return popper

    def _watch(self, group: GroupPart, requests: PopRequests) -> None:
        watch_acknowledgements(requests, self._judge.pops[group.name], self._cluster.simulation.loop)

    async def _receive(self, group: GroupPart, popper: SimulatedPopConsumer) -> None:
        """Receive, work, now and then ask for more time, and acknowledge, until the member ends.

        Some receives leave the extending to the broker, some are cancelled, and some messages become dead letters.
        """
        random, pops, loop = self._random, self._judge.pops[group.name], self._cluster.simulation.loop
        kept: list[PopMessage] = []  # that the broker extends, and that are neither acknowledged nor returned
        while True:
            try:
                while kept:
                    with suppress(ReceiptHandleDead):
                        await popper.extend(kept[-1], 0.0)
                    kept.pop()
                max_n, is_renewed = random.choice((1, 4, 32)), random.random() < 0.3
                messages: list[PopMessage] = []
                with anyio.move_on_after(random.choice((0.3, 60.0))):
                    messages = await popper.receive(max_n, invisible_s=group.invisible_s, wait_s=5.0, renew=is_renewed)
                kept = messages.copy() if is_renewed else []
                for message in messages:
                    self._judge.dispatched(self._call(group, popper, message))
                await self._work(group, popper.host)
                if messages and random.random() < 0.2:
                    await popper.extend(messages[0], random.choice((0.0, 1.0, 10.0)))
                if messages and random.random() < 0.05:
                    dead = messages.pop()
                    await popper.dead_letter(dead)
                    kept = [each for each in kept if each is not dead]
                    pops.acknowledged(dead.queue, dead.offset, loop.time())
                done = [each for each in messages if not self._fails(group, read_number(each.body).number)]
                await popper.ack(done)
                kept = [each for each in kept if each not in done]
            except RlabError:
                await anyio.sleep(0.2)

    async def _work(self, group: GroupPart, slot: str, number: int | None = None) -> bool:
        """Work on a message at a member, and return whether that does not fail; on several without a number."""
        await anyio.sleep(self._random.random() * group.work_s + self.slower_s.get(slot, 0.0))
        return number is None or not self._fails(group, number)

    def remove_member(self, slot: str) -> MemberProcess | None:
        """Remove the member of a slot from what should run, and return it."""
        member, self.members[slot] = self.members[slot], None
        if member is not None:
            self.forget(member)
        return member

    def forget(self, member: MemberProcess) -> None:
        """Remove a member from those that should own queues."""
        self._cluster.consumers[:] = [each for each in self._cluster.consumers if each is not member]
        self._cluster.poppers[:] = [each for each in self._cluster.poppers if each is not member]

    def unsubscribed(self, slot: str) -> list[str]:
        """The topics of its group from which the member of a slot has unsubscribed."""
        member = self.members[slot]
        kept = member.consumer.topics() if isinstance(member, SimulatedConsumer) else []
        return [topic for topic in self._programme.topics_of(self._group_of[slot]) if topic not in kept]

    async def unsubscribe(self, slot: str, topic: str) -> bool:
        """Unsubscribe from a topic; False without such a member or subscription. See `GroupConsumer`."""
        member = self.members[slot]
        if not isinstance(member, SimulatedMember) or topic in self.unsubscribed(slot):
            return False
        await member.unsubscribe(topic)
        return True

    async def subscribe(self, slot: str, topic: str) -> None:
        """Subscribe to a topic again. Raises and cancellation: see `PushConsumer.subscribe`."""
        member = self.members[slot]
        if isinstance(member, SimulatedConsumer):
            with self._cluster.simulation.on_host(slot):
                await member.consumer.subscribe(topic, self._listener(self._group_of[slot], member))

    def _fails(self, group: GroupPart, number: int) -> bool:
        poisoned = group.poisoned and number % group.poisoned == group.poisoned - 1
        return self._random.random() < group.fails or bool(poisoned)

    @staticmethod
    def _call(group: GroupPart, member: SimulatedMember, message: MessageExt) -> Call:
        key = message.keys[0] if message.keys else ""
        position = message.queue, message.offset, key
        return Call(group.name, member.client_id, read_number(message.body), *position, message.body)

    def _listener(self, group: GroupPart, member: SimulatedConsumer) -> Listener:
        checkers = self._judge
        retry_result = (
            ConsumeResult.RECONSUME_LATER if group.order == "none" else ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT
        )

        async def on_messages(messages: Sequence[MessageExt]) -> ConsumeResult | None:
            (message,) = messages
            call = self._call(group, member, message)
            checkers.dispatched(call)
            how = Ending.FAILED
            try:
                if await self._work(group, member.host, call.message.number):
                    how = Ending.PROCESSED
                elif group.order != "none" and message.times_delivered >= group.attempts:
                    how = Ending.DEAD
            finally:
                checkers.ended(call, how)
            return None if how is Ending.PROCESSED else retry_result

        return on_messages

    async def _start_reader(self, group: GroupPart) -> None:
        """Start the consumer of a group's dead letters: a message there is settled."""

        async def on_dead(messages: Sequence[MessageExt]) -> None:
            for message in messages:
                self._judge.dead(group.name, read_number(message.body), message.body)

        await self._cluster.start_consumer(
            f"{group.name}-dead",
            dlq_topic(group.name),
            listener=on_dead,
            host=f"{group.name}-dead",
            session_timeout_s=group.session_s,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )

    # --- producers ---------------------------------------------------------------------------------------------------

    async def start_producer(self, slot: str) -> None:
        """Start the producer of a slot. Raises and cancellation: see `Producer.start`."""
        if self.transactions is not None:
            self.producers[slot] = await self.transactions.start_producer(slot)
        else:
            self.producers[slot] = await self._cluster.start_producer(host=slot, retries=1)

    async def stop_producer(self, slot: str, *, crash: bool) -> None:
        """End the producer of a slot. Cancellation: see `Producer.shutdown`."""
        producer, self.producers[slot] = self.producers[slot], None
        if producer is not None:
            if self.transactions is not None:
                self.transactions.end_branches(slot)
            if crash and isinstance(producer, SimulatedTransactionProducer):
                await producer.crash()
            else:
                if crash:
                    self._cluster.simulation.network.cut(slot)
                await producer.stop()
            self._cluster.producers.remove(producer)

    def resume(self) -> None:
        """Let the producers send, from now on."""
        self._sending.set()
        if self.transactions is not None:
            self.transactions.calm = False

    @property
    def open(self) -> int:
        """Transactions that no broker has seen the end of."""
        return 0 if self.transactions is None else self.transactions.open

    async def fall_quiet(self, *, for_good: bool) -> None:
        """Wait until every send has its answer; no more are begun until `resume`. Cancellation: harmless."""
        self._sending = anyio.Event()
        if self.transactions is not None:
            self.transactions.calm = True
        self._stopping = self._stopping or for_good
        while self._in_flight:  # noqa: ASYNC110 - virtual time costs nothing
            await anyio.sleep(0.1)

    async def _produce(self, slot: str, lane: int) -> None:
        load, random = self._programme.load, self._random
        topics = list(self._queues)
        for number in range(load.messages):
            await self._sending.wait()
            if self._stopping:
                return
            topic = topics[number % len(topics)]
            key = f"{lane}-{number // len(topics) % load.keys}" if load.keys else ""
            message = Message(topic, make_body(SentMessage(lane, number)), (key,) if key else ())
            delay_ms = DELAY_MS if load.delayed and number % load.delayed == load.delayed - 1 and not key else None
            if self.transactions is not None:
                self._tasks.start_soon(self._in_transaction, self.transactions, slot, message)
            else:
                with self._flying():
                    await self._send(slot, message, key, delay_ms)
            await anyio.sleep(random.random() * load.pause_s)

    @contextmanager
    def _flying(self) -> Iterator[None]:
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    async def _in_transaction(self, transactions: SimulatedTransactions, slot: str, message: Message) -> None:
        producer = self.producers[slot]
        if isinstance(producer, SimulatedTransactionProducer):
            with self._flying():
                await transactions.run(producer, message, read_number(message.body))

    async def _send(self, slot: str, message: Message, key: str, delay_ms: int | None) -> None:
        """Send a message; one with a key until it is acknowledged, because the next one must not overtake it."""
        queue = select_by_key(self._queues[message.topic], key) if key else None
        while True:
            producer = self.producers[slot]
            if producer is not None:
                try:
                    with self._cluster.simulation.on_host(slot):
                        result = await producer.producer.send(message, queue=queue, delay_ms=delay_ms)
                except RlabError:
                    if not key:
                        return self._judge.failed(read_number(message.body))
                else:
                    queue_and_offset = result.queue, result.offset
                    return self._judge.acknowledged(read_number(message.body), message.body, *queue_and_offset, key)
            await anyio.sleep(SEND_AGAIN_S)
