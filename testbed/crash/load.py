"""Load of a crash run: producers whose lanes send in several ways, and a group whose listeners fail at times.

Between kills the lanes send at a modest rate. Around a kill they send without pauses, so that each kill hits tens of
outstanding sends, and the whole run stays small enough to check every message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import anyio

from client import ConsumeFrom, ConsumeResult, Message, MessageExt, MessageQueue, Producer
from model.errors import RlabError
from model.event_log import EventSink
from model.message import SendResult
from process.runtime import wait_until
from testbed.crash.ledger import BATCH, GROUP, LANES, LaneKind, Ledger, crash_body, lane_kind, parse_crash_body
from testbed.load.generator import Lane, LoadGenerator, LoadOptions, running
from traces.check.ledger import SentMessage

TOPIC = "crash"
SURGE_S = 0.04
"""Time before a kill in which the lanes send without pauses."""
AFTER_FAILURE_S = 0.1
"""Pause of a lane after a failed send: mostly the broker is down, and the next send would fail at once."""
FLOW_TIMEOUT_S = 2.0
FLOW_POLL_S = 0.005
CHURN_S = 1.5
"""Time between two changes of the group's members. A member that leaves while a broker is down cannot commit there, so
its successor consumes those messages again."""
MAX_DELAY_MS = 1_500
RETRY_DELAY_MS = 400
FAIL_EVERY, FAIL_TWICE_EVERY = 331, 1_999
"""One in 331 messages fails on its first delivery, one in 1,999 on its first two."""
SLOW_EVERY = 61
"""One in 61 batches takes `SLOW_S`, so that kills hit dispatched messages."""
SLOW_S = 0.01
ROUTE_POLL_S = (0.5, 2.0, 5.0)
"""Route poll intervals, used by the clients in turns. A client that polls often loses the queues of a broker that is
down for a moment; a client that polls seldom does not notice."""
CONSUME_BATCH = 8
"""Most messages in one call of a listener."""
_CONSUMER_OPTIONS = {
    "consume_from": ConsumeFrom.FIRST_OFFSET,
    "consume_batch": CONSUME_BATCH,
    "retry_delay_ms": RETRY_DELAY_MS,
    "consume_retry_s": 0.2,
}
_CLIENT_OPTIONS = {
    "client_ip": "127.0.0.1",
    "heartbeat_interval_s": 1.0,
    "offset_persist_interval_s": 0.5,
    "trace": False,
}


SendTimesCallback = Callable[[float, float], object]
"""Called with the times, of the running loop, at which a send began and was acknowledged."""


def _untimed(sent_at: float, acknowledged_at: float) -> None:
    """Measures nothing."""


class CrashLoad(LoadGenerator):
    """Producers and consumers that write the ledger; made by `run_load`."""

    def __init__(self, options: LoadOptions, ledger: Ledger, timed: SendTimesCallback = _untimed) -> None:
        super().__init__(options)
        self.ledger = ledger
        self._timed = timed
        self._route_polls = cycle(ROUTE_POLL_S)
        self._pinned: dict[int, MessageQueue] = {}  # by lane
        # Messages that each broker has stored and delivered.
        self._stored: Counter[str] = Counter()
        self._delivered: Counter[str] = Counter()

    async def wait_flow(self, broker: str) -> None:
        """Wait until a broker stores and delivers messages again, at most `FLOW_TIMEOUT_S`: clients reconnect later.

        Cancellation: harmless.
        """
        stored, delivered = self._stored[broker], self._delivered[broker]
        await wait_until(
            lambda: self._stored[broker] != stored and self._delivered[broker] != delivered, FLOW_TIMEOUT_S, FLOW_POLL_S
        )

    def client_options(self) -> Mapping[str, Any]:
        """See `LoadGenerator`."""
        return {**_CLIENT_OPTIONS, "route_poll_interval_s": next(self._route_polls)}

    # --- producing ---------------------------------------------------------------------------------------------------

    def lanes(self, producer: int) -> Iterable[Lane]:
        """See `LoadGenerator`."""
        for lane in range(producer * LANES, (producer + 1) * LANES):
            yield Lane(lane, batch=BATCH if lane_kind(lane) is LaneKind.BATCH else 1)

    async def send(self, producer: Producer, messages: Sequence[SentMessage]) -> Sequence[SendResult]:
        """See `LoadGenerator`."""
        sent_at = anyio.current_time()
        try:
            results = await self._send(
                producer, messages[0].lane, [Message(TOPIC, crash_body(each)) for each in messages]
            )
        except RlabError:
            await anyio.sleep(AFTER_FAILURE_S)
            raise
        self._timed(sent_at, anyio.current_time())
        return results

    async def _send(self, producer: Producer, lane: int, messages: list[Message]) -> Sequence[SendResult]:
        match lane_kind(lane):
            case LaneKind.BATCH:
                return await producer.send_batch(messages, key=str(lane))
            case LaneKind.KEYED:
                return [await producer.send(messages[0], key=str(lane))]
            case LaneKind.PINNED:
                return [await producer.send(messages[0], queue=await self._queue_of(lane, producer))]
            case LaneKind.ANYWHERE:
                return [await producer.send(messages[0])]
            case LaneKind.DELAYED:
                return [await producer.send(messages[0], delay_ms=self._random.randint(1, MAX_DELAY_MS))]

    async def _queue_of(self, lane: int, producer: Producer) -> MessageQueue:
        if lane not in self._pinned:
            queues = await producer.queues(TOPIC)
            self._pinned[lane] = queues[lane % len(queues)]
        return self._pinned[lane]

    def acknowledged(self, message: SentMessage, result: SendResult) -> None:
        """See `LoadGenerator`."""
        self.ledger.acknowledge(message, result)
        self._stored[result.queue.broker_name] += 1

    def failed(self, message: SentMessage, error: RlabError) -> None:
        """See `LoadGenerator`."""
        self.ledger.record_failure(message, refused=error.definite)

    # --- consuming ---------------------------------------------------------------------------------------------------

    async def received(self, name: str, messages: Sequence[MessageExt]) -> ConsumeResult:
        """See `LoadGenerator`."""
        ledger = self.ledger
        parsed = [(message, parse_crash_body(message.body)) for message in messages]
        for message, sent in parsed:
            if sent is None:
                ledger.findings.add("damaged", f"{message.queue}+{message.offset}, as a consumer received it")
            else:
                ledger.deliver(name, sent, message.queue, message.offset)
        self._delivered[messages[0].queue.broker_name] += len(messages)
        if self._random.randrange(SLOW_EVERY) == 0:
            await anyio.sleep(SLOW_S)
        if any(sent is not None and fails_on(sent, message.times_delivered) for message, sent in parsed):
            return ConsumeResult.RECONSUME_LATER
        for message, sent in parsed:
            if sent is not None:
                ledger.consume(name, sent, message.queue, message.offset)
        return ConsumeResult.SUCCESS


def fails_on(sent: SentMessage, times_delivered: int) -> bool:
    """Whether a listener fails on a message that has been redelivered this many times."""
    mixed = sent.number * 31 + sent.lane * 17
    return (times_delivered < 1 and mixed % FAIL_EVERY == 0) or (times_delivered < 2 and mixed % FAIL_TWICE_EVERY == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSize:
    """How much load a run has."""

    seed: int = 0
    producers: int = 4  # with `LANES` lanes each
    consumers: int = 3
    rate: float = 400.0  # sends per second of all producers together, outside of surges
    churn_s: float = CHURN_S  # time between two changes of the group's members; 0 for none

    @property
    def under_way(self) -> int:
        """The most outstanding messages: one of each lane, or a batch, and those that a listener returns."""
        return self.producers * (LANES - 1 + BATCH) + self.consumers * CONSUME_BATCH


DEFAULT_SIZE = LoadSize()


@asynccontextmanager
async def run_load(
    name_server: str,
    ledger: Ledger,
    size: LoadSize,
    timed: SendTimesCallback = _untimed,
    events: EventSink | None = None,
) -> AsyncIterator[CrashLoad]:
    """Run producers and consumers while the block runs. When it begins, the members have joined.

    `timed` is called for each acknowledged send, and `events` with the events of the members.

    Raises:
        RlabError: the cluster cannot be reached.

    Cancellation: pending sends are abandoned, and the consumers unregister.
    """
    options = LoadOptions(
        name_servers=name_server,
        topic=TOPIC,
        group=GROUP,
        prefix="member-",
        consumers=size.consumers,
        producers=size.producers,
        rate=size.rate,
        churn_s=size.churn_s,
        seed=size.seed,
        consumer_options={**_CONSUMER_OPTIONS, "event_sink": events},
    )
    async with running(CrashLoad(options, ledger, timed)) as load:
        load.start_producing()
        yield load
