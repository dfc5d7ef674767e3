"""Runs one task of a sink: encodes its rows, gathers them for each queue or broker, and sends them.

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
import pyarrow as pa

from model.errors import ConnectFailed, IllegalOperation, MessageIllegal, NetworkError, TopicNotExist
from model.limits import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES
from model.message_queue import MessageQueue
from pipeline.sink.broker_pipeline import BrokerPipeline
from pipeline.sink.options import SinkOptions
from pipeline.sink.rows import CHUNK_OVERHEAD_BYTES, RowEncoder
from pipeline.sink.targets import Targets
from pipeline.wire import WireClient
from remoting.request_code import RequestCode

MAX_GATHERED_BYTES = 16 * 1024 * 1024
"""Size of the gathered messages of all queues at which a task sends them."""

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
    messages: list[tuple[Any, ...]] = field(default_factory=list)
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
        self._encoder = RowEncoder(options.topic, task_id)
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
        rows = self._encoder.encode(batch, int(self._clock_ms()))
        queue_ids = rows.queue_ids if rows.queue_ids is not None else [None] * len(rows.bodies)
        of_topic = self._targets
        if self._stage is not None and any(rows.delays_ms):
            raise MessageIllegal(
                "column delay or deliver_at has a value in a row, and with exactlyOnce all rows of a batch are "
                "published together: use atLeastOnce"
            )
        for topic, key, body, queue_id, tag_hash, payload, delay_ms in zip(
            *(rows.topics, rows.keys, rows.bodies, queue_ids, rows.tag_hashes, rows.payloads, rows.delays_ms),
            strict=True,
        ):
            targets = of_topic.get(topic) or self._find_targets(topic)
            queue = targets.pick(key, body, queue_id)
            if delay_ms:
                self._send_later(queue, tag_hash, payload, delay_ms)
            else:
                self._gather(queue, tag_hash, payload)

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
                found = Targets(topic, queues, brokers, self._options.partitioning, self._start)
            except TopicNotExist as error:
                # While a broker restarts, its queues are missing from the route for a short time.
                failures += 1
                self._client.wait_before_retry(failures, ConnectFailed(str(error)))
            else:
                self._targets[topic] = found
                return found

    def _refuse_missing(self, topic: str) -> None:
        """Refuse a topic that no broker has, without the wait for a broker that restarts.

        Raises:
            TopicNotExist: brokers are registered, and no broker with this topic is away without a goodbye.
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

    def _gather(self, queue: MessageQueue, tag_hash: int, payload: bytes) -> None:
        size = len(payload) + CHUNK_OVERHEAD_BYTES
        key: MessageQueue | str
        message: tuple[Any, ...]
        if self._stage is None:
            key, message = queue, (tag_hash, payload)
        else:
            key, message = queue.broker_name, (queue.topic, queue.queue_id, tag_hash, payload)
        gathered = self._gathered.get(key)
        if gathered is None:
            gathered = self._gathered[key] = _Gathered()
        elif gathered.size + size > MAX_BATCH_BYTES or len(gathered.messages) == MAX_BATCH_MESSAGES:
            self._send(key)
            gathered = self._gathered[key] = _Gathered()
        gathered.messages.append(message)
        gathered.size += size
        self._size += size
        if self._size > MAX_GATHERED_BYTES:
            self._send_all()

    def _send_all(self) -> None:
        for key in list(self._gathered):
            self._send(key)

    def _send(self, key: MessageQueue | str) -> None:
        gathered = self._gathered.pop(key)
        self._size -= gathered.size
        body: bytes = msgpack.packb(gathered.messages)
        header: dict[str, Any]
        if isinstance(key, MessageQueue):
            name, code = key.broker_name, RequestCode.SEND_BATCH_MESSAGE
            header = {"topic": key.topic, "queue_id": key.queue_id}
        else:
            name, code = key, RequestCode.SINK_STAGE
            assert self._stage is not None, "only staged messages are gathered for a broker"
            header = {**self._stage._asdict(), "seq": self._chunks.get(name, 0)}
            self._chunks[name] = header["seq"] + 1
        self._request(name, len(gathered.messages), code, header, body)

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
