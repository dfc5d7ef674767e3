"""Publishes staged messages, each batch of a query once. The nearest in RocketMQ: half messages.

Staged messages are stored in the log, a record for each chunk, in a topic of the broker's own (STAGE_TOPIC), so that a
commit never fails half way because some of them are missing. A commit first stores an *intent*: the chunks of the
batch, and where each target queue ends now. Once the intent is stored, the batch will be published even after a crash:

    1. the intent is committed to the metadata
    2. the messages are appended to their queues, some thousand per event-loop iteration, each with SINK_FLAG
    3. one transaction stores the query's last batch and deletes the intent and its chunks
    4. the driver of the query is answered

A broker that is killed in between reads the intent at its next start. One batch is published at a time, so all records
with SINK_FLAG after the ends that the intent names are of that batch, in its order: that many messages are skipped, and
the others are appended before any request is served. A repeated commit, because its answer was lost or because Spark
died before it recorded the answer, finds the last batch and changes nothing.

Until step 3 consumers may see the beginning of a batch; the rest of it always follows.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from broker.durability.answers import WriteCallback
from broker.feature import Core, Feature
from broker.sink.stage_table import Attempt, Chunk, LastBatch, StagedMessage, StageTable, unpack_chunk
from broker.sink.store import Intent, SinkStore
from broker.store.disk.errors import StoreError
from broker.store.records import records_from
from broker.store.segments.index import LogKey
from broker.topics.service import Topics
from model.errors import RlabError
from model.limits import LAST_BATCH_KEPT_S, ONLY_BATCH_KEPT_S, STAGE_EXPIRY_S
from model.log_lines import LogLines
from model.names import STAGE_TOPIC
from model.record import SINK_FLAG
from remoting.overload.shares import NO_SHARER, Sharer

logger = logging.getLogger(__name__)

PUBLISHED_AT_ONCE = 2_000
_RETRY_S = 1.0
_EXPIRY_SCAN_S = 600.0
_TARGET = itemgetter(0, 1)
"""The topic and queue of a staged message."""


class _Publishing:
    """One batch that is being published: its `intent` has its chunks, and where the target queues ended."""

    def __init__(self, intent: Intent, skip: dict[LogKey, int]) -> None:
        self.intent = intent
        self.at = (0, 0)  # the next (chunk, message of it)
        self.skip = skip  # queue -> messages that an earlier run has published already
        # Called at the end, or with the error that keeps the batch from being published now.
        self.waiting: list[WriteCallback] = []
        self.kept_s = LAST_BATCH_KEPT_S  # how long the batch is remembered once it is published

    @property
    def is_through(self) -> bool:
        """Whether every message is in its queue."""
        return self.at[0] == len(self.intent.offsets)


class _Slice(NamedTuple):
    """Messages appended at once, to the queues `targets`; `at` and `skip` of the batch once they are written."""

    targets: list[tuple[str, int]]
    at: tuple[int, int]
    skip: dict[LogKey, int]


class Sink(Feature):
    """The staged messages of one broker, and the batch that is being published."""

    def __init__(self, core: Core, topics: Topics) -> None:
        self.table = StageTable(core.shares)
        self._core = core
        self._store = core.store
        self._sinks = SinkStore(core.metadata)
        self._topics = topics.table
        self._topic_id = topics.ensure_own(STAGE_TOPIC).topic_id
        self._queue: deque[_Publishing] = deque()
        self._chunk: tuple[int, Sequence[StagedMessage]] | None = None
        self._is_writing = False
        self._dropped = LogLines()
        self._next_scan = core.loop.time() + _EXPIRY_SCAN_S
        self._retry_at: float | None = None
        self._recover()

    def needed_from(self) -> dict[LogKey, int]:
        """First offset needed of each queue: of the staged chunks, and of the queues that an intent names."""
        pins = {} if (first := self.table.first_offset()) is None else {(self._topic_id, 0): first}
        for publishing in self._queue:
            for key, start in publishing.intent.starts.items():
                pins[key] = min(start, pins.get(key, start))
        return pins

    # --- requests ----------------------------------------------------------------------------------------------------

    def stage(
        self,
        attempt: Attempt,
        seq: int,
        body: bytes,
        messages: Sequence[StagedMessage],
        staged: WriteCallback,
        sharer: Sharer = NO_SHARER,
    ) -> None:
        """Keep messages, packed in `body`, until their batch is committed; calls `staged` once they are stored.

        A chunk that is staged already, by its number in the attempt, is not staged again.

        Raises:
            SystemBusy: there is no room, or not for this sharer.
        """
        if self.table.has(attempt, seq):
            self._core.barrier.after_commit(staged)
            return
        self.table.check_room(attempt.query_id, sharer)
        self.table.hold(attempt.query_id, sharer.number)
        counts = Counter(map(_TARGET, messages))
        offset = self._store.append(self._topic_id, 0, body, 0)
        chunk = Chunk(seq, offset, tuple(counts.items()), int(self._core.clock_ms()), sharer.number)
        self._sinks.save_chunk(attempt, chunk)
        self._sinks.save_sharer(attempt.query_id, self.table.sharer_of_query(attempt.query_id))

        def written(failure: RlabError | None) -> None:
            self.table.unhold(sharer.number)
            if failure is None:
                self.table.add(attempt, chunk)
            else:
                self._sinks.delete_chunks([(attempt, seq)])
                self._core.barrier.metadata_changed()
            staged(failure)

        self._core.barrier.after_append(written, STAGE_TOPIC, 0)

    def commit(
        self,
        query_id: str,
        batch_id: int,
        chunk_counts: list[tuple[int, int, int]],
        published: WriteCallback,
        *,
        is_only: bool = False,
    ) -> bool:
        """Publish a batch; calls `published` once it is, or with the error that prevents it for now.

        A batch that is not above the last one of its query was published before. A repeated commit waits for the same
        end as the first. A batch that is the only one of its query is remembered for a shorter time.

        Returns:
            Whether this commit, or an earlier one that is still in progress, publishes the batch.

        Raises:
            StageLost: see `StageTable.chunks_to_publish`.
        """
        for publishing in self._queue:
            if (publishing.intent.query_id, publishing.intent.batch_id) == (query_id, batch_id):
                publishing.waiting.append(published)
                return True
        if batch_id <= self.table.last_batch(query_id):
            # Perhaps in this very iteration, and not committed yet. Chunks staged since are of no use.
            self._sinks.delete_chunks(self.table.drop_batch(query_id, batch_id))
            self._core.barrier.after_commit(published)
            return False
        chunks = self.table.chunks_to_publish(query_id, batch_id, chunk_counts)
        starts = {
            (entry.topic_id, queue_id): 0
            for chunk in chunks
            for (topic, queue_id), _ in chunk.counts
            if (entry := self._topics.get(topic)) is not None
        }
        publishing = _Publishing(Intent(query_id, batch_id, tuple(c.offset for c in chunks), starts), {})
        publishing.waiting.append(published)
        publishing.kept_s = ONLY_BATCH_KEPT_S if is_only else LAST_BATCH_KEPT_S
        self._queue.append(publishing)
        if len(self._queue) == 1:
            self._begin()
        return True

    def abort(self, query_id: str, batch_id: int) -> int:
        """Drop the staged chunks of a batch that is not being published; returns how many there were."""
        if any((p.intent.query_id, p.intent.batch_id) == (query_id, batch_id) for p in self._queue):
            return 0
        dropped = self.table.drop_batch(query_id, batch_id)
        self._sinks.delete_chunks(dropped)
        self._core.barrier.metadata_changed()
        return len(dropped)

    # --- publishing --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Store the intent of the first batch in line: only now are the ends of its target queues known."""
        publishing = self._queue[0]
        intent = publishing.intent
        for key in intent.starts:
            intent.starts[key] = self._store.max_offset(*key)
        self._sinks.save_intent(intent)
        self._is_writing = True
        self._core.barrier.after_commit(self._write_next)

    def _write_next(self, failure: RlabError | None) -> None:
        """Write the next messages, or end the batch; called when the write before is done."""
        self._is_writing = False
        publishing = self._queue[0]
        if failure is not None:
            self._answer(publishing, failure)
            self._retry_at = self._core.loop.time() + _RETRY_S
            self._core.driver.wake_by(self._retry_at)
            return
        if publishing.is_through:
            self._end(publishing)
            return
        try:
            part = self._append_slice(publishing)
        except StoreError as error:
            self._write_next(error)
            return
        self._is_writing = True

        def written(failure: RlabError | None) -> None:
            if failure is None:
                publishing.at, publishing.skip = part.at, part.skip
            self._write_next(failure)

        for topic, queue_id in part.targets[1:]:
            self._core.barrier.after_append(_do_nothing, topic, queue_id)
        self._core.barrier.after_append(written, *(part.targets[0] if part.targets else (STAGE_TOPIC, 0)))

    def _append_slice(self, publishing: _Publishing) -> _Slice:
        """Append the next messages of a batch, of one chunk.

        Raises:
            StoreError: the chunk cannot be read; nothing was appended.
        """
        number, first = publishing.at
        messages = self._read(publishing.intent.offsets[number])
        end = first + PUBLISHED_AT_ONCE
        targets: dict[tuple[str, int], None] = {}
        skip = dict(publishing.skip)
        # Tasks sort the messages of a chunk by queue, so the messages of a queue are appended together.
        for (topic, queue_id), some in groupby(messages[first:end], _TARGET):
            entry = self._topics.get(topic)
            if entry is None:
                text = "staged messages for topic %r are dropped: the topic was deleted"
                self._dropped.warning(logger, self._core.loop.time(), text, topic)
                continue
            key, rows = (entry.topic_id, queue_id), [(payload, tag_hash) for _, _, tag_hash, payload in some]
            if n_known := min(skip.get(key, 0), len(rows)):
                skip[key] -= n_known
            if n_known < len(rows):
                self._store.append_batch(*key, rows[n_known:], flags=SINK_FLAG)
                targets[(topic, queue_id)] = None
        return _Slice(list(targets), (number, end) if end < len(messages) else (number + 1, 0), skip)

    def _read(self, offset: int) -> Sequence[StagedMessage]:
        # The chunk that was read last is mostly the one that is needed next.
        if self._chunk is not None and self._chunk[0] == offset:
            return self._chunk[1]
        record = self._store.read_one(self._topic_id, 0, offset)
        if record is None:
            raise StoreError(f"the staged chunk {offset} is no longer stored: check the disk")
        messages = unpack_chunk(record.payload)
        self._chunk = (offset, messages)
        return messages

    def _end(self, publishing: _Publishing) -> None:
        last = self._save_end(publishing)

        def committed(failure: RlabError | None) -> None:
            if failure is None:
                self.table.set_last_batch(publishing.intent.query_id, last)
                self._queue.popleft()
                self._chunk = None
                self._is_writing = False
                self._answer(publishing, None)
                if self._queue:
                    self._begin()
            else:
                self._write_next(failure)

        self._core.barrier.after_commit(committed)

    def _save_end(self, publishing: _Publishing) -> LastBatch:
        intent = publishing.intent
        last = LastBatch(intent.batch_id, int(self._core.clock_ms() + publishing.kept_s * 1000))
        self._sinks.save_published(intent, last)
        self._sinks.delete_chunks(self.table.drop_batch(intent.query_id, intent.batch_id))
        return last

    @staticmethod
    def _answer(publishing: _Publishing, failure: RlabError | None) -> None:
        waiting, publishing.waiting = publishing.waiting, []
        for published in waiting:
            published(failure)

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When to call `expire` next."""
        return self._next_scan if self._retry_at is None else min(self._retry_at, self._next_scan)

    def expire(self, now: float) -> None:
        """Retry the batches that could not be written, and drop stages that are too old."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            if self._queue and not self._is_writing:
                self._is_writing = True
                self._core.barrier.after_commit(self._write_next)
        if now >= self._next_scan:
            self._next_scan = now + _EXPIRY_SCAN_S
            self._drop_old()

    def _drop_old(self) -> None:
        now_ms = int(self._core.clock_ms())
        publishing = frozenset((p.intent.query_id, p.intent.batch_id) for p in self._queue)
        dropped = self.table.drop_older(int(now_ms - STAGE_EXPIRY_S * 1000), publishing)
        if dropped:
            logger.warning("%d staged chunks that were not committed in time are dropped", len(dropped))
            self._sinks.delete_chunks(dropped)
        for query_id in self.table.forget_expired(now_ms):
            self._sinks.delete_query(query_id)
        for query_id in self.table.forget_unused():
            self._sinks.delete_sharer(query_id)
        self._core.barrier.metadata_changed()

    # --- restart -----------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Load the state of earlier runs, and complete the batch that was being published."""
        end = self._store.max_offset(self._topic_id, 0)
        for query_id, sharer in self._sinks.sharers():
            self.table.is_of(query_id, sharer)
        for query_id, last in self._sinks.last_batches():
            self.table.set_last_batch(query_id, last)
        for attempt, chunk in list(self._sinks.chunks()):
            if chunk.offset < end:
                self.table.add(attempt, replace(chunk, sharer=self.table.sharer_of_query(attempt.query_id)))
            else:
                # The process ended between the two writes of a stage request, which was not answered.
                self._sinks.delete_chunks([(attempt, chunk.seq)])
        for intent in list(self._sinks.intents()):
            skip = {
                key: sum(record.flags & SINK_FLAG for record in records_from(self._store, *key, start))
                for key, start in intent.starts.items()
            }
            publishing = _Publishing(intent, skip)
            self._queue.append(publishing)
            try:
                while not publishing.is_through:
                    part = self._append_slice(publishing)
                    self._store.flush()
                    publishing.at, publishing.skip = part.at, part.skip
                self._store.sync()
            except StoreError as error:
                logger.error("batch %d of %s is published later: %s", intent.batch_id, intent.query_id, error)
                self._retry_at = self._core.loop.time() + _RETRY_S
                continue
            self._queue.pop()
            self.table.set_last_batch(intent.query_id, self._save_end(publishing))
            logger.info("batch %d of %s, whose publishing had begun, is published", intent.batch_id, intent.query_id)
        self._chunk = None


def _do_nothing(failure: RlabError | None) -> None:
    """Do nothing: `after_append` is called for the queue's readers; the end of the write is handled elsewhere."""
