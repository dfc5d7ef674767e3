"""Writes DataFrames to topics, as a batch and as a stream: the classes that Spark calls.

    frame.write.format("rlab").option("nameServer", "127.0.0.1:9876").option("topic", "orders").mode("append").save()

docs/spark-sink.md lists the options. At least once, a task sends its rows, and a task that Spark runs again sends them
again. Exactly once, tasks stage their rows, and the driver sends each broker one request with the attempts to publish;
brokers skip a batch of a query that was published before.

Spark runs `write` on executors, and `commit` and `abort` in a process beside the driver, each with a copy of the
writer. So they exchange data only through the messages that `write` returns.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgpack
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from model.errors import ConfigError, IllegalOperation, NetworkError, RlabError, ServerError
from pipeline.python_worker import no_search_for_cycles
from pipeline.sink.options import DeliveryGuarantee, SinkOptions
from pipeline.sink.task import SinkTask, StageId
from pipeline.wire import WireClient
from remoting.request_code import RequestCode

COMMIT_TIMEOUT_S = 60.0
"""Time limit for the answer to a commit: a broker publishes some 100,000 messages in a second."""
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class SinkTaskResult(WriterCommitMessage):
    """Result of a task."""

    stage: StageId | None  # the stage of its messages, or None if they are in their queues
    rows: dict[str, int]  # broker name -> number of messages


class BatchSink(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        # Every write is a separate query with one batch.
        self._query_id = f"write-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition, on an executor."""
        return _write_partition(iterator, self._options, self._query_id, 0, is_repeatable=False)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the staged messages of the tasks.

        Raises:
            RlabError: a broker refused it, or cannot be reached; the text names the brokers that have published their
                part.
        """
        _publish(messages, self._options, is_only=True)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop the stages of all tasks, failed ones included; a broker that cannot be reached drops them by age."""
        _drop(messages, self._options, (self._query_id, 0))


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition of a batch, on an executor."""
        context = _context()
        query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query_id is None or batch_id is None:
            raise IllegalOperation("Spark passed no query id or batch id: write with the format rlab")
        return _write_partition(iterator, self._options, query_id, int(batch_id), is_repeatable=True)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Publish a batch.

        Raises:
            RlabError: a broker refused it, or cannot be reached; the batch may be run again.
        """
        _publish(messages, self._options, is_only=False)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Like `BatchSink.abort`, if a task has ended: only tasks know the id of the query."""
        _drop(messages, self._options, None)


def check_topic_exists(options: SinkOptions) -> None:
    """Refuse a batch write to a missing topic, before its rows are computed.

    Raises:
        ConfigError: the topic does not exist, or its broker is down.
        RlabError: no name server answers.
    """
    if options.topic is not None:
        with _client(options) as client:
            if client.route(options.topic) is None:
                raise ConfigError(
                    f"option topic: topic {options.topic!r} does not exist, or its broker is down; "
                    "'rlab topic create' creates it"
                )


def _client(options: SinkOptions, timeout_s: float | None = None) -> WireClient:
    return WireClient(
        options.name_servers,
        timeout_s=timeout_s or options.send_timeout_s,
        retries=options.send_retries,
        access=options.access,
    )


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise IllegalOperation("a sink can only write in a task of Spark")
    return context


def _write_partition(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, query_id: str, batch_id: int, *, is_repeatable: bool
) -> SinkTaskResult:
    stage = None
    if options.delivery is DeliveryGuarantee.EXACTLY_ONCE:
        stage = StageId(query_id, batch_id, _context().partitionId(), secrets.randbits(62))
    with no_search_for_cycles(), _client(options) as client:
        task = SinkTask(
            *(client, options, stage, secrets.token_hex(8), lambda: time.time() * 1000),
            is_repeatable=is_repeatable and stage is not None,
        )
        for batch in batches:
            task.add(batch)
        task.finish()
        return SinkTaskResult(stage, task.rows)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> dict[str, list[tuple[StageId, int]]]:
    """Return by broker name the (stage, number of messages) of each task that has staged messages there."""
    staged: dict[str, list[tuple[StageId, int]]] = {}
    for message in messages:
        if isinstance(message, SinkTaskResult) and message.stage is not None:
            for broker_name, n in message.rows.items():
                staged.setdefault(broker_name, []).append((message.stage, n))
    return dict(sorted(staged.items()))


def _publish(messages: Sequence[WriterCommitMessage | None], options: SinkOptions, *, is_only: bool) -> None:
    staged = _staged(messages)
    if not staged:
        return
    published: list[str] = []
    with _client(options, max(COMMIT_TIMEOUT_S, options.send_timeout_s)) as client:
        for broker_name, attempts in staged.items():
            chunk_counts = msgpack.packb([(stage.partition, stage.attempt, n) for stage, n in attempts])
            stage = attempts[0][0]
            header = {"query_id": stage.query_id, "batch_id": stage.batch_id, "is_only": is_only}
            try:
                client.ask_broker(broker_name, RequestCode.SINK_COMMIT, [header], chunk_counts)
            except RlabError as error:
                raise type(error)(_not_published(broker_name, published, error, is_only=is_only)) from error
            published.append(broker_name)


def _not_published(broker_name: str, published: list[str], error: RlabError, *, is_only: bool) -> str:
    text = f"broker {broker_name!r} did not publish its rows: {error}"
    if isinstance(error, NetworkError | ServerError):
        text += "; if it received the request, it may have published them, or still do so"
    if published:
        names = ", ".join(map(repr, published))
        retry_text = (
            "writing all rows again doubles those rows" if is_only else "they skip it when the batch is run again"
        )
        text += f"; published already by {names}: {retry_text}"
    return text


def _drop(messages: Sequence[WriterCommitMessage | None], options: SinkOptions, batch: tuple[str, int] | None) -> None:
    staged = _staged(messages)
    if batch is None:
        batch = next((attempts[0][0][:2] for attempts in staged.values()), None)
    if batch is None or options.delivery is not DeliveryGuarantee.EXACTLY_ONCE:
        return
    header = {"query_id": batch[0], "batch_id": batch[1]}
    with _client(options) as client:
        brokers = set(staged)
        # A failed task does not report the brokers at which it has staged messages.
        with suppress(RlabError):
            brokers.update(client.masters())
        for broker_name in sorted(brokers):
            with suppress(RlabError):
                client.ask_broker(broker_name, RequestCode.SINK_ABORT, [header])
