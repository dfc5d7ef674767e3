"""Commits the progress of a stream as the offsets of a group, so that `rlab group` shows its lag.

Spark keeps the offsets of a stream in its checkpoint and never reads the offsets committed here. The group has no
members, so it never rebalances; but it is registered, so brokers keep messages that it has not read, as for any other
group, until `rlab group delete`.

This is a listener because Spark calls the `commit` of a source one batch late, and never for the last batch of a query.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import msgpack
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from model.errors import ConfigError, RlabError
from model.message_queue import MessageQueue
from model.names import check_group
from pipeline.access import OF_ENVIRONMENT, AccessFiles
from pipeline.source.offsets import Offsets, TopicIds, parse_offsets, read_topic_ids, recreated_topics
from pipeline.wire import WireClient
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)

_NO_TOKEN = -1
MAX_ROWS_PER_COMMIT = 1_000
LISTENER_TIMEOUT_S = 30.0
"""Time limit of the wait for Spark's pending events at the end of a block. Commits to stopped brokers take seconds."""


class GroupProgress(StreamingQueryListener):
    """Commits the end of every finished batch to a group without members; the caller closes `client`.

    With a `query_id` only batches of that query count, else the batches of every stream of the session that reads
    topics.

    Attributes:
        failures: queue -> error of its last commit, if it was refused or lost. The next batch tries again.
    """

    def __init__(self, client: WireClient, group: str, query_id: str | None = None) -> None:
        self.committed: Offsets = {}  # the offsets that brokers have accepted
        self.failures: dict[MessageQueue, str] = {}
        self._client = client
        self._group = check_group(group)
        self._query_id = query_id
        # Race: Spark's thread commits while the caller's thread closes, but only one thread at a time may use a client.
        self._lock = threading.Lock()
        self._is_closed = False
        self._ended: set[str] = set()
        self._has_ended = threading.Condition()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit the end of the batch."""
        progress = event.progress
        if self._query_id in (None, str(progress.id)):
            for source in progress.sources:
                recreated_topics = topics_recreated(source.startOffset, source.endOffset)
                self.commit(parse_progress(source.endOffset), recreated_topics)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Record the end of a query; Spark has reported the progress of its last batch before."""
        with self._has_ended:
            self._ended.add(str(event.id))
            self._has_ended.notify_all()

    def wait_ended(self, query_id: str, timeout_s: float) -> bool:
        """Wait until Spark has reported the end of a query, and so every event before it; returns whether it has."""
        with self._has_ended:
            return self._has_ended.wait_for(lambda: query_id in self._ended, timeout_s)

    def commit(self, offsets: Offsets, recreated: Collection[tuple[str, str]] = ()) -> None:
        """Commit changed offsets; failures are recorded and logged, because they must not end a stream.

        `recreated_topics` has topics, each with its broker, that were created again: their old commits are void.
        """
        with self._lock:
            for queue in [each for each in self.committed if (each.topic, each.broker_name) in recreated]:
                del self.committed[queue]
            if not self._is_closed:
                self._commit_changed(offsets)

    def close(self) -> None:
        """Stop committing, so that the client can be closed; waits for a pending commit."""
        with self._lock:
            self._is_closed = True

    def _commit_changed(self, offsets: Offsets) -> None:
        changed = {queue: offset for queue, offset in offsets.items() if self.committed.get(queue) != offset}
        for broker_name in sorted({queue.broker_name for queue in changed}):
            queues_of_broker = sorted(queue for queue in changed if queue.broker_name == broker_name)
            for first in range(0, len(queues_of_broker), MAX_ROWS_PER_COMMIT):
                self._commit(broker_name, queues_of_broker[first : first + MAX_ROWS_PER_COMMIT], changed)

    def _commit(self, broker_name: str, queues: Sequence[MessageQueue], offsets: Offsets) -> None:
        rows = [[queue.topic, queue.queue_id, offsets[queue], _NO_TOKEN] for queue in queues]
        # A reset, because the offset goes back if a stream is started again from an earlier offset.
        header = {"group": self._group, "client_id": f"spark@{self._group}", "reset": True}
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        try:
            (answer,) = self._client.ask_broker(broker_name, code, [header], msgpack.packb(rows))
        except RlabError as error:
            logger.warning("progress of group %s was not committed: %s", self._group, error)
            self.failures.update(dict.fromkeys(queues, str(error)))
            return
        refused = {
            MessageQueue(topic, broker_name, queue_id): str(remark)
            for topic, queue_id, _, remark in _rows(answer.body or b"")
        }
        for queue in queues:
            self.failures.pop(queue, None)
            if queue not in refused:
                self.committed[queue] = offsets[queue]
        for queue, remark in refused.items():
            logger.warning("progress of group %s on %s was refused: %s", self._group, queue, remark)
        self.failures.update(refused)


@contextmanager
def committed_progress(
    spark: SparkSession,
    name_servers: str,
    group: str,
    query_id: str | None = None,
    access: AccessFiles = OF_ENVIRONMENT,
) -> Iterator[GroupProgress]:
    """Commit the progress of the session's streams to a group while the block runs; also works with Spark Connect.

    When the block ends, the progress of all batches that ended in it is committed, also of the last batch of a query.
    With a `query_id`, `str(query.id)`, only that query counts. `access` has the key and the certificates, by default
    those of the environment.

    Raises:
        RlabError: an address or the group's name is malformed.
    """
    with WireClient(name_servers, access=access) as client:
        listener = GroupProgress(client, group, query_id)
        spark.streams.addListener(listener)
        try:
            yield listener
        finally:
            _wait_for_listeners(spark, listener)
            spark.streams.removeListener(listener)
            listener.close()


def _wait_for_listeners(spark: SparkSession, listener: GroupProgress) -> None:
    """Wait until Spark has called its listeners with all events so far, which happens in a separate thread."""
    if not hasattr(spark, "sparkContext"):
        _wait_for_server(spark, listener)
        return
    context = spark.sparkContext._jsc
    if context is None:
        return  # the session was stopped in the block
    try:
        context.sc().listenerBus().waitUntilEmpty(int(LISTENER_TIMEOUT_S * 1000))
    except Py4JError as error:
        logger.warning("progress may not be committed up to the last batch: %s", error)


def _wait_for_server(spark: SparkSession, listener: GroupProgress) -> None:
    """Do the same with Spark Connect, which has no such wait: run a last query, because events come in order."""
    nothing = spark.readStream.format("rate").load().writeStream.format("noop")
    query = nothing.trigger(availableNow=True).start()
    query.awaitTermination()
    if not listener.wait_ended(str(query.id), LISTENER_TIMEOUT_S):
        logger.warning("progress may not be committed up to the last batch: the server has not reported it")


def parse_progress(text: str | None) -> Offsets:
    """Parse an offset of Spark's progress; empty for None and for other kinds of sources."""
    try:
        return parse_offsets(text or "{}")
    except ConfigError:
        return {}


def skipped_rows(start: str | None, end: str | None, input_rows: int) -> int | None:
    """Return the number of messages of a batch without a row, because they were deleted, damaged or not decodable.

    `start`, `end` and `input_rows` (`numInputRows`) come from its progress; the number is valid if the batch was read
    once and without tags. None if the progress lacks the beginning of a queue: in the first batch of a query, and in a
    batch with a new queue.
    """
    starts, ends = parse_progress(start), parse_progress(end)
    recreated = topics_recreated(start, end)
    starts.update((queue, 0) for queue in starts if (queue.topic, queue.broker_name) in recreated)
    if any(last > 0 and queue not in starts for queue, last in ends.items()):
        return None
    # An end before the start means that the queue was truncated: none of its messages were read.
    return sum(max(0, last - starts.get(queue, last)) for queue, last in ends.items()) - input_rows


def topics_recreated(start: str | None, end: str | None) -> list[tuple[str, str]]:
    """Return the topics, each with its broker, that had been deleted and created again when a micro-batch began.

    `start` and `end` come from its progress. Such a topic was read from its beginning; the number of unread messages of
    the old topic is unknown.
    """
    return recreated_topics(_topic_ids(start), _topic_ids(end))


def _topic_ids(text: str | None) -> TopicIds:
    return read_topic_ids(json.loads(text or "{}")) if parse_progress(text) else {}


def _rows(body: bytes) -> list[tuple[str, int, int, str]]:
    rows = msgpack.unpackb(body) if body else []
    assert isinstance(rows, list)
    return [(str(topic), int(queue_id), int(code), str(remark)) for topic, queue_id, code, remark in rows]
