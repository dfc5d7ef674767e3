"""Load of a crash run: producers whose lanes send, and a group whose listeners fail now and then.

Between kills the lanes keep a modest rate. Around a kill they send without pauses, so that each kill hits tens of
outstanding sends while the whole run stays small enough to be checked message by message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from client import ConsumeFrom, ConsumeResult, Message, MessageExt, MessageQueue, Producer, PushConsumer
from model.errors import RlabError
from process.runtime import wait_until
from remoting.tasks import background_tasks
from testbed.crash.ledger import GROUP, LANES, LaneKind, Ledger, StoredAt, body_of, lane_kind, sent_of
from traces.check.ledger import Sent

TOPIC = "crash"
BATCH = 8
AFTER_FAILURE_S = 0.1
"""Pause of a lane after a failed send: mostly the broker is down, and the next send would fail as quickly."""
FLOW_TIMEOUT_S = 2.0
FLOW_POLL_S = 0.005
STAY_S = (1.0, 4.0)
"""Range of the time between two changes of the group's members."""
MAX_DELAY_MS = 1_500
RETRY_DELAY_MS = 400
FAIL_EVERY, FAIL_TWICE_EVERY = 331, 1_999
"""One in 331 messages fails on its first delivery, one in 1,999 on its first two."""
SLOW_EVERY = 61
"""One in 61 batches takes `SLOW_S`, so that kills hit dispatched messages."""
SLOW_S = 0.01
ROUTE_POLL_S = (0.5, 2.0, 5.0)
"""Route poll intervals of clients, in turns. A client that polls often loses the queues of a broker that is down for a
moment; one that polls seldom does not notice."""
_CLIENT_OPTIONS: dict[str, Any] = {
    "client_ip": "127.0.0.1",
    "heartbeat_interval_s": 1.0,
    "offset_persist_interval_s": 0.5,
    "trace": False,
}


class Throttle:
    """Pauses of lanes between sends, without any during a surge.

    The mean wait between two sends of one lane is `pause_s`; `rng` varies it.
    """

    def __init__(self, pause_s: float, rng: Random) -> None:
        self._pause_s = pause_s
        self._rng = rng
        self._surges = 0
        self._surge_began = anyio.Event()

    @contextmanager
    def surge(self) -> Iterator[None]:
        """Make all lanes send without pauses while the block runs."""
        self._surges += 1
        self._surge_began.set()
        try:
            yield
        finally:
            self._surges -= 1
            if not self._surges:
                self._surge_began = anyio.Event()

    async def wait(self) -> None:
        """Wait until the next send is due. Cancellation: harmless."""
        if not self._surges:
            with anyio.move_on_after(self._pause_s * self._rng.uniform(0.5, 1.5)):
                await self._surge_began.wait()


class Load:
    """Producers and consumers; made by `run_load`."""

    def __init__(self, name_server: str, ledger: Ledger, throttle: Throttle, rng: Random) -> None:
        self.throttle = throttle
        self.consumers: list[PushConsumer] = []
        self._name_server = name_server
        self._ledger = ledger
        self._rng = rng
        self._stopping = False
        # Messages that each broker has stored and delivered.
        self._stored: Counter[str] = Counter()
        self._delivered: Counter[str] = Counter()
        self._lanes_running = 0
        self._lanes_done = anyio.Event()

    async def stop_producing(self) -> None:
        """Wait until every lane has finished its send and ended; the members stay.

        Cancellation: the lanes end nevertheless.
        """
        self._stopping = True
        if self._lanes_running:
            await self._lanes_done.wait()

    async def wait_flow(self, broker: str) -> None:
        """Wait until a broker stores and delivers messages again, or for `FLOW_TIMEOUT_S`: clients reconnect later.

        Cancellation: harmless.
        """
        taken, given = self._stored[broker], self._delivered[broker]
        await wait_until(
            lambda: self._stored[broker] != taken and self._delivered[broker] != given, FLOW_TIMEOUT_S, FLOW_POLL_S
        )

    # --- producing ---------------------------------------------------------------------------------------------------

    def start_lanes(self, tasks: TaskGroup, index: int, producer: Producer) -> None:
        """Run the lanes of a producer until `stop_producing`."""
        for lane in range(index * LANES, (index + 1) * LANES):
            self._lanes_running += 1
            tasks.start_soon(self._send_in_lane, producer, lane)

    async def _send_in_lane(self, producer: Producer, lane: int) -> None:
        number = 0
        queues: list[MessageQueue] = []
        try:
            while not self._stopping:
                if not queues:
                    queues = await self._queues(producer)
                    continue
                sent = [Sent(lane, number + n) for n in range(BATCH if lane_kind(lane) is LaneKind.BATCH else 1)]
                number += len(sent)
                try:
                    places = await self._send(producer, sent, queues[lane % len(queues)])
                except RlabError as error:
                    for each in sent:
                        self._ledger.give_up(each, refused=error.definite)
                    await anyio.sleep(AFTER_FAILURE_S)
                else:
                    for each, place in zip(sent, places, strict=True):
                        self._ledger.acknowledge(each, place)
                    self._stored[places[0].queue.broker_name] += len(places)
                    await self.throttle.wait()
        finally:
            self._lanes_running -= 1
            if not self._lanes_running:
                self._lanes_done.set()

    async def _queues(self, producer: Producer) -> list[MessageQueue]:
        try:
            return await producer.queues(TOPIC)
        except RlabError:
            await anyio.sleep(AFTER_FAILURE_S)
            return []

    async def _send(self, producer: Producer, sent: list[Sent], pinned: MessageQueue) -> list[StoredAt]:
        lane = sent[0].lane
        messages = [Message(TOPIC, body_of(each)) for each in sent]
        match lane_kind(lane):
            case LaneKind.BATCH:
                results = await producer.send_batch(messages, key=str(lane))
            case LaneKind.KEYED:
                results = [await producer.send(messages[0], key=str(lane))]
            case LaneKind.PINNED:
                results = [await producer.send(messages[0], queue=pinned)]
            case LaneKind.ANYWHERE:
                results = [await producer.send(messages[0])]
            case _:
                results = [await producer.send(messages[0], delay_ms=self._rng.randint(1, MAX_DELAY_MS))]
        return [StoredAt(result.queue, result.offset, result.message_id) for result in results]

    # --- consuming ---------------------------------------------------------------------------------------------------

    async def join(self, number: int) -> None:
        """Add a member to the group."""
        name = f"member-{number}"
        consumer = PushConsumer(
            self._name_server,
            GROUP,
            instance_name=name,
            rng=Random(self._rng.random()),
            consume_from=ConsumeFrom.FIRST_OFFSET,
            consume_batch=8,
            retry_delay_ms=RETRY_DELAY_MS,
            consume_retry_s=0.2,
            route_poll_interval_s=ROUTE_POLL_S[number % len(ROUTE_POLL_S)],
            **_CLIENT_OPTIONS,
        )
        await consumer.start()
        self.consumers.append(consumer)

        async def listen(messages: Sequence[MessageExt]) -> ConsumeResult:
            return await self._listen(name, messages)

        await consumer.subscribe(TOPIC, listen)

    async def replace_members(self) -> None:
        """Replace the oldest member by a new one, repeatedly, until `stop_producing`.

        A member that leaves while a broker is down cannot commit there: its successor consumes those messages again.

        Cancellation: a member that is leaving skips the rest of its shutdown.
        """
        for number in count(len(self.consumers)):
            await anyio.sleep(self._rng.uniform(*STAY_S))
            if self._stopping:
                return
            await self.consumers.pop(0).shutdown()
            await self.join(number)

    async def _listen(self, owner: str, messages: Sequence[MessageExt]) -> ConsumeResult:
        ledger = self._ledger
        found = [(message, sent_of(message.body)) for message in messages]
        for message, sent in found:
            if sent is None:
                ledger.findings.add("damaged", f"{message.queue}+{message.offset}, as a consumer got it")
            else:
                ledger.deliver(owner, sent, message.queue, message.offset)
        self._delivered[messages[0].queue.broker_name] += len(messages)
        if self._rng.randrange(SLOW_EVERY) == 0:
            await anyio.sleep(SLOW_S)
        if any(sent is not None and fails_on(sent, message.times_delivered) for message, sent in found):
            return ConsumeResult.RECONSUME_LATER
        for message, sent in found:
            if sent is not None:
                ledger.consume(owner, sent, message.queue, message.offset)
        return ConsumeResult.SUCCESS


def fails_on(sent: Sent, times_delivered: int) -> bool:
    """Whether a listener fails on a message that has been redelivered this many times."""
    mixed = sent.number * 31 + sent.lane * 17
    return (times_delivered < 1 and mixed % FAIL_EVERY == 0) or (times_delivered < 2 and mixed % FAIL_TWICE_EVERY == 0)


@asynccontextmanager
async def run_load(
    name_server: str, ledger: Ledger, rng: Random, *, producers: int, consumers: int, rate: float
) -> AsyncIterator[Load]:
    """Run producers and consumers while the block runs.

    Each producer has `LANES` lanes; all together send at `rate` per second outside of surges. When the block
    begins, the members have joined.

    Raises:
        RlabError: the cluster cannot be reached.

    Cancellation: pending sends are abandoned, and the consumers unregister.
    """
    load = Load(name_server, ledger, Throttle(producers * LANES / rate, rng), rng)
    try:
        for number in range(consumers):
            await load.join(number)
        async with background_tasks() as tasks:
            for index in range(producers):
                producer = Producer(
                    name_server,
                    instance_name=f"producer-{index}",
                    rng=Random(rng.random()),
                    route_poll_interval_s=ROUTE_POLL_S[index % len(ROUTE_POLL_S)],
                    **_CLIENT_OPTIONS,
                )
                await producer.start()
                tasks.start_soon(_shut_down_at_the_end, producer)
                load.start_lanes(tasks, index, producer)
            tasks.start_soon(load.replace_members)
            yield load
    finally:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as leaving:
                for consumer in load.consumers:
                    leaving.start_soon(consumer.shutdown)


async def _shut_down_at_the_end(producer: Producer) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await producer.shutdown()
