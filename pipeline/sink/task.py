"""Runs one task of a sink: encodes its rows, gathers them for each queue or broker, and sends them.

All rows of an Arrow batch are handled together, in columns: a row becomes the bytes of an element of the array in the
body of a request, and after a sort the elements of a queue lie together, so that a request takes them with one copy.

At least once, messages are sent to their queues, some thousand in a request, and a request whose answer is lost is sent
again. Exactly once, they are staged (`broker/sink/service.py`) under a random attempt number: Spark's own numbers
restart with every driver, and stages of a killed driver must not be confused with stages of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa

from model.errors import ConnectFailed, IllegalOperation, MessageIllegal, NetworkError, TopicNotExist
from model.limits import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES
from model.message_queue import MessageQueue
from pipeline.arrow_arrays import bits, numbers
from pipeline.sink.broker_pipeline import BrokerPipeline
from pipeline.sink.options import SinkOptions
from pipeline.sink.packing import concat_columns, constant, lengths_of, of_width, offsets_of
from pipeline.sink.rows import RowEncoder, SinkRows, by_topic
from pipeline.sink.targets import Targets
from pipeline.wire import WireClient
from remoting.request_code import RequestCode

MAX_GATHERED_BYTES = 16 * 1024 * 1024
"""Size of the gathered messages of all queues at which a task sends them."""

_TWO, _FOUR, _ARRAY32 = b"\x92", b"\x94", b"\xdd"
_INT32, _UINT32, _BIN32 = 0xD2, 0xCE, 0xC6

MAX_BROKER_SETS = 8
"""How often brokers may return another broker set before a task fails."""


class StageId(NamedTuple):
    """The name under which a task stages its messages."""

    query_id: str
    batch_id: int
    partition: int
    attempt: int


@dataclass(slots=True)
class _Gathered:
    parts: list[bytes] = field(default_factory=list)  # packed messages, several in each
    count: int = 0
    size: int = 0


class SinkTask:
    """Writes the rows of one partition.

    No other task uses the `client`. Without a `stage` messages are sent to their queues. `task_id` is a unique number
    of 16 hexadecimal digits, with which the ids of its messages begin. `is_repeatable` is true if another driver may
    run the batch again, as for a stream.
    """

    def __init__(
        self,
        client: WireClient,
        options: SinkOptions,
        stage: StageId | None,
        task_id: str,
        clock_ms: Callable[[], float],
        *,
        is_repeatable: bool = False,
    ) -> None:
        self.rows: dict[str, int] = {}  # broker name -> messages that were sent to it
        self._client = client
        self._options = options
        self._stage = stage
        self._start = int(task_id, 16)
        self._clock_ms = clock_ms
        self._is_repeatable = is_repeatable
        self._encoder = RowEncoder(task_id)
        self._targets: dict[str, Targets] = {}
        self._pipelines: dict[str, BrokerPipeline] = {}
        self._gathered: dict[MessageQueue | str, _Gathered] = {}
        self._size = 0
        self._chunks: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows; some may be held until `finish`.

        Raises:
            MessageIllegal: a row cannot be sent.
            RlabError: a broker refused the rows, or was down for too long.
        """
        now_ms, encode = int(self._clock_ms()), self._encoder.encode
        parts = [(name, encode(name, part, now_ms)) for name, part in by_topic(batch, self._options.topic)]
        if self._stage is not None and any(any(rows.delays_ms or ()) for _, rows in parts):
            raise MessageIllegal(
                "column delay or deliver_at has a value in a row, and with exactlyOnce all rows of a batch are "
                "published together: use atLeastOnce"
            )
        for topic, rows in parts:
            if len(rows.payloads):
                self._add_rows(topic, rows)

    def finish(self) -> None:
        """Send the gathered rows and wait for every answer."""
        self._send_all()
        for pipeline in self._pipelines.values():
            pipeline.finish()

    # --- targets -----------------------------------------------------------------------------------------------------

    def _find_targets(self, topic: str) -> Targets:
        failures = 0
        while True:
            route = self._client.route(topic)
            if route is None:
                self._refuse_missing(topic)
            queues = route.publish_queues() if route is not None else []
            brokers = self._agree(topic, queues) if self._is_repeatable else None
            try:
                targets = Targets(topic, queues, brokers, self._options.partitioning, self._start)
            except TopicNotExist as error:
                # While a broker restarts, its queues are missing from the route for a short time.
                failures += 1
                self._client.wait_before_retry(failures, ConnectFailed(str(error)))
            else:
                self._targets[topic] = targets
                return targets

    def _refuse_missing(self, topic: str) -> None:
        """Refuse a topic that no broker has, without the wait for a broker that restarts.

        Raises:
            TopicNotExist: brokers are registered, and no broker with this topic is listed as absent.
        """
        with suppress(NetworkError):
            if self._client.masters() and not self._client.absent(topic):
                where = "column topic names, in a row," if self._options.topic is None else "option topic names"
                raise TopicNotExist(
                    f"{where} topic {topic!r}, which does not exist: create it with 'rlab topic create'"
                )

    def _agree(self, topic: str, queues: Sequence[MessageQueue]) -> list[str]:
        """Return the broker set of this batch, which is the same in every run; see `broker/sink/broker_sets.py`."""
        assert self._stage is not None, "only a batch that may be repeated needs it"
        header = {"query_id": self._stage.query_id, "batch_id": self._stage.batch_id, "topic": topic}
        brokers = sorted({queue.broker_name for queue in queues})
        for _ in range(MAX_BROKER_SETS):
            body = msgpack.packb(brokers)
            answers = (
                list(self._client.ask_broker(name, RequestCode.SINK_SPREAD, [header], body)[0].header["brokers"])
                for name in brokers
            )
            other = next((answer for answer in answers if answer != brokers), None)
            if other is None:
                return brokers
            brokers = other
        raise IllegalOperation(
            f"brokers do not agree on the broker set of batch {self._stage.batch_id}: start with a new checkpoint"
        )

    # --- sending -----------------------------------------------------------------------------------------------------

    def _add_rows(self, topic: str, rows: SinkRows) -> None:
        """Gather the rows of a topic for their queues, or send them alone if they have a delay."""
        queues, picked = self._picked(topic, rows)
        payloads, hashes = rows.payloads, rows.tag_hashes
        if rows.delays_ms is not None:
            is_now = np.array(rows.delays_ms) == 0
            for row in np.flatnonzero(~is_now).tolist():
                self._send_later(queues[picked[row]], int(hashes[row]), payloads[row].as_py(), rows.delays_ms[row])
            payloads = payloads.filter(pa.Array.from_buffers(pa.bool_(), len(is_now), [None, bits(is_now)]))
            hashes, picked = hashes[is_now], picked[is_now]
        tails = _tails(hashes, payloads)
        keys: Sequence[MessageQueue | str] = queues
        # Queues are sorted by broker. Staged rows are sorted by queue too: a broker publishes a queue at once.
        order = np.argsort(picked, kind="stable")
        if self._stage is None:
            packed = concat_columns(constant(_TWO), tails, payloads)
        else:
            ids = np.array([queue.queue_id for queue in queues], ">u4")[picked]
            packed = concat_columns(constant(_FOUR + msgpack.packb(topic)), _numbers(_UINT32, ids), tails, payloads)
            keys = list(dict.fromkeys(queue.broker_name for queue in queues))
            of_queue = {name: number for number, name in enumerate(keys)}
            picked = np.array([of_queue[queue.broker_name] for queue in queues])[picked]
        packed = packed.take(numbers(order, pa.int64()))
        picked, offsets, data = picked[order], offsets_of(packed), memoryview(packed.buffers()[2] or b"")
        firsts = np.flatnonzero(np.diff(picked, prepend=-1)).tolist()
        for first, end in zip(firsts, [*firsts[1:], len(picked)], strict=True):
            self._gather(keys[picked[first]], data, offsets[first : end + 1])

    def _picked(self, topic: str, rows: SinkRows) -> tuple[Sequence[MessageQueue], Any]:
        """Return the queues of a topic, and the position in them of the queue of each row."""
        targets = self._targets.get(topic) or self._find_targets(topic)
        return targets.queues, targets.pick_all(rows.keys, rows.bodies, rows.queue_ids)

    def _gather(self, key: MessageQueue | str, data: memoryview, offsets: Any) -> None:
        """Add packed messages, which begin in `data` at these offsets; the last offset is the end."""
        index, count = 0, len(offsets) - 1
        while index < count:
            gathered = self._gathered.setdefault(key, _Gathered())
            room = MAX_BATCH_BYTES - gathered.size
            end = int(np.searchsorted(offsets, offsets[index] + room, "right")) - 1
            end = min(end, index + MAX_BATCH_MESSAGES - gathered.count, count)
            if end <= index and gathered.count:
                self._send(key)
                continue
            end = max(end, index + 1)  # a message that is larger than a batch
            gathered.parts.append(bytes(data[offsets[index] : offsets[end]]))
            size = int(offsets[end] - offsets[index])
            gathered.count += end - index
            gathered.size += size
            self._size += size
            index = end
            if self._size > MAX_GATHERED_BYTES:
                self._send_all()

    def _send_all(self) -> None:
        for key in list(self._gathered):
            self._send(key)

    def _send(self, key: MessageQueue | str) -> None:
        gathered = self._gathered.pop(key)
        self._size -= gathered.size
        body = b"".join([_ARRAY32, gathered.count.to_bytes(4, "big"), *gathered.parts])
        header: dict[str, Any]
        if isinstance(key, MessageQueue):
            name, code = key.broker_name, RequestCode.SEND_BATCH_MESSAGE
            header = {"topic": key.topic, "queue_id": key.queue_id}
        else:
            name, code = key, RequestCode.SINK_STAGE
            assert self._stage is not None, "only staged messages are gathered for a broker"
            header = {**self._stage._asdict(), "seq": self._chunks.get(name, 0)}
            self._chunks[name] = header["seq"] + 1
        self._request(name, gathered.count, code, header, body)

    def _send_later(self, queue: MessageQueue, tag_hash: int, payload: bytes, delay_ms: int) -> None:
        """Send a delayed message in its own request, because a batch has no delays."""
        header = {"topic": queue.topic, "queue_id": queue.queue_id, "tag_hash": tag_hash, "delay_ms": delay_ms}
        self._request(queue.broker_name, 1, RequestCode.SEND_MESSAGE, header, payload)

    def _request(self, name: str, rows: int, code: RequestCode, header: dict[str, Any], body: bytes) -> None:
        self.rows[name] = self.rows.get(name, 0) + rows
        pipeline = self._pipelines.get(name)
        if pipeline is None:
            pipeline = self._pipelines[name] = BrokerPipeline(self._client, name)
        pipeline.send(code, header, body)


def _tails(tag_hashes: Any, payloads: pa.Array) -> pa.Array:
    """Pack the hash of the tag and the head of each payload; they precede the payload in all requests."""
    return concat_columns(
        _numbers(_INT32, tag_hashes.astype(">i4")), _numbers(_BIN32, lengths_of(payloads).astype(">u4"))
    )


def _numbers(kind: int, values: Any) -> pa.Array:
    """Pack numbers of 32 bits, or lengths, of one kind."""
    n = len(values)
    packed = np.full((n, 5), kind, np.uint8)
    packed[:, 1:] = values.view(np.uint8).reshape(n, 4)
    return of_width(packed)
