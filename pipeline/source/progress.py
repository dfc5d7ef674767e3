"""Shows how far a stream is where people look for it: as the committed offsets of a group, `rlab group`.

Spark keeps the place of a stream in its checkpoint, and only there; what is committed here is never read by it. The
group has no members, so it takes no part in any rebalance; but it is registered, so brokers keep for it what it has not
read, like for any other. `rlab group delete` ends that.

A listener and not the source's own `commit`: Spark calls that one batch late, and never for the last batch of a query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
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
from pipeline.source.offsets import Offsets, parse_offsets
from pipeline.wire import WireClient
from remoting.wire.request_code import RequestCode

logger = logging.getLogger(__name__)

_NO_TOKEN = -1
MAX_ROWS_PER_COMMIT = 1_000
LISTENER_TIMEOUT_S = 30.0
"""How long the end of a block waits for what Spark has to tell still. Commits to brokers that are away take seconds."""


class GroupProgress(StreamingQueryListener):
    """Commits the end of every finished batch to a group.

    Args:
        client: connections; closed by whoever made it.
        group: where to commit; it has no members.
        query_id: only batches of this query; None for every stream of the session that reads topics.

    Attributes:
        committed: the offsets that brokers have taken.
        failures: texts of the last commits that were refused or lost, by queue. The next batch tries again.
    """

    def __init__(self, client: WireClient, group: str, query_id: str | None = None) -> None:
        self.committed: Offsets = {}
        self.failures: dict[MessageQueue, str] = {}
        self._client = client
        self._group = check_group(group)
        self._query_id = query_id
        # Spark's thread commits, and that of the block closes: a client serves one at a time.
        self._lock = threading.Lock()
        self._is_closed = False

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit where the batch ended."""
        progress = event.progress
        if self._query_id in (None, str(progress.id)):
            for source in progress.sources:
                self.commit(offsets_of(source.endOffset))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the progress of the last batch was told before."""

    def commit(self, offsets: Offsets) -> None:
        """Commit what has changed; what fails is noted and told in the log, because no stream may end by it."""
        with self._lock:
            if not self._is_closed:
                self._commit_changed(offsets)

    def close(self) -> None:
        """Commit nothing any more, so that whoever made the client can close it; waits for a commit under way."""
        with self._lock:
            self._is_closed = True

    def _commit_changed(self, offsets: Offsets) -> None:
        changed = {queue: offset for queue, offset in offsets.items() if self.committed.get(queue) != offset}
        for broker_name in sorted({queue.broker_name for queue in changed}):
            mine = sorted(queue for queue in changed if queue.broker_name == broker_name)
            for first in range(0, len(mine), MAX_ROWS_PER_COMMIT):
                self._commit(broker_name, mine[first : first + MAX_ROWS_PER_COMMIT], changed)

    def _commit(self, broker_name: str, queues: Sequence[MessageQueue], offsets: Offsets) -> None:
        rows = [[queue.topic, queue.queue_id, offsets[queue], _NO_TOKEN] for queue in queues]
        # A stream that is started anew from an earlier place goes back, as an operator may.
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
    spark: SparkSession, name_servers: str, group: str, query_id: str | None = None
) -> Iterator[GroupProgress]:
    """Commit the progress of the session's streams to a group as long as the block runs.

    What a batch that has ended in the block told is committed when the block ends, also the last batch of a query.

    Args:
        spark: the session.
        name_servers: of the cluster.
        group: where to commit.
        query_id: only this query, `str(query.id)`; None for every stream that reads topics.

    Raises:
        RlabError: an address or the group's name is malformed.
    """
    with WireClient(name_servers) as client:
        listener = GroupProgress(client, group, query_id)
        spark.streams.addListener(listener)
        try:
            yield listener
        finally:
            _wait_for_listeners(spark)
            spark.streams.removeListener(listener)
            listener.close()


def _wait_for_listeners(spark: SparkSession) -> None:
    """Wait until Spark has told its listeners what has happened: it does so in a thread behind the query."""
    context = spark.sparkContext._jsc
    if context is None:
        return  # it was stopped in the block, and tells nothing any more
    try:
        context.sc().listenerBus().waitUntilEmpty(int(LISTENER_TIMEOUT_S * 1000))
    except Py4JError as error:
        logger.warning("progress may not be committed up to the last batch: %s", error)


def offsets_of(text: str | None) -> Offsets:
    """Read an offset of Spark's progress; empty when it is that of another kind of source, or of none."""
    try:
        return parse_offsets(text or "{}")
    except ConfigError:
        return {}


def skipped_rows(start: str | None, end: str | None, input_rows: int) -> int | None:
    """How many messages of a batch gave no row, because they were gone, damaged or no messages.

    Args:
        start: where the batch began, as its progress has it.
        end: where it ended.
        input_rows: its `numInputRows`; the result means something where the batch was read once, and without tags.

    Returns:
        The number; None where progress does not tell it: the first batch of a query, and one in which a queue appears,
        have queues of which it says where they end and not where they began.
    """
    starts, ends = offsets_of(start), offsets_of(end)
    if any(last > 0 and queue not in starts for queue, last in ends.items()):
        return None
    # An end before its start is that of a queue that was made anew: nothing of it was read.
    return sum(max(0, last - starts.get(queue, last)) for queue, last in ends.items()) - input_rows


def _rows(body: bytes) -> list[tuple[str, int, int, str]]:
    rows = msgpack.unpackb(body) if body else []
    assert isinstance(rows, list)
    return [(str(topic), int(queue_id), int(code), str(remark)) for topic, queue_id, code, remark in rows]
