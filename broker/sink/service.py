"""Publishes what sinks have staged, each batch of a query once. RocketMQ's nearest relative: half messages.

What is staged lies in the log, a record for each chunk, in a topic of the broker's own (STAGE_TOPIC), so that a commit
has everything here and cannot fail half way for want of it. A commit is an *intent* first: which chunks, and where
each target queue ends now. Once the intent is stored, the batch will be published whatever happens:

    1. the intent is committed to the metadata
    2. the messages are appended to their queues, some thousand a turn, each with SINK_FLAG
    3. in one transaction: the query's last batch, and the end of the intent and of its chunks
    4. the driver is answered

A broker that is killed in between reads the intent at its next start. One batch is published at a time, so the records
with SINK_FLAG behind the ends that the intent names are that batch's, in its order: so many are skipped, and the rest
is appended before anybody is served. A commit that is repeated, because its answer was lost or because Spark died
before it noted the answer, finds the last batch and does nothing.

Until step 3 consumers may see the beginning of a batch; they never see it without getting the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker.durability.barrier import WriteBarrier
from broker.durability.group_commit import Written
from broker.sink.stage_table import Attempt, Chunk, LastBatch, StagedMessage, StageTable, staged_messages
from broker.sink.store import Intent, SinkStore
from broker.store.disk.errors import StoreError
from broker.store.message_store import MessageStore
from broker.store.read_result import ReadStatus
from broker.store.segments.index import LogKey
from broker.topics.table import TopicTable
from model.errors import RlabError
from model.limits import LAST_BATCH_KEPT_S, MAX_PULL_BYTES, ONLY_BATCH_KEPT_S, STAGE_EXPIRY_S
from model.names import STAGE_TOPIC
from model.record import SINK_FLAG, iter_records
from remoting.deadline_driver import DeadlineDriver

logger = logging.getLogger(__name__)

PUBLISHED_PER_TURN = 2_000
_RETRY_S = 1.0
_EXPIRY_SCAN_S = 600.0


class _Publishing:
    """One batch on its way: its `intent` says what, and where the targets ended.

    Attributes:
        at: (chunk, message of it) that is next.
        skip: queue -> messages that an earlier run has published already.
        waiting: called at the end, or with what is in the way now.
        kept_s: how long the batch is remembered once it is published.
    """

    def __init__(self, intent: Intent, skip: dict[LogKey, int]) -> None:
        self.intent = intent
        self.at = (0, 0)
        self.skip = skip
        self.waiting: list[Written] = []
        self.kept_s = LAST_BATCH_KEPT_S

    @property
    def is_through(self) -> bool:
        """Whether every message is in its queue."""
        return self.at[0] == len(self.intent.offsets)


class _Slice(NamedTuple):
    """What one turn appends, to the queues `targets`.

    Attributes:
        at: what is next once it is written.
        skip: what is still to be skipped then.
    """

    targets: list[tuple[str, int]]
    at: tuple[int, int]
    skip: dict[LogKey, int]


class SinkService:
    """The sinks of one broker.

    Args:
        loop: the running loop.
        store: where messages are.
        sinks: where the rest is kept.
        topics: for the stage topic and those that messages are for.
        barrier: writes.
        clock_ms: wall clock in milliseconds.

    Attributes:
        table: what is staged and published.
        driver: drops what is too old, and goes on with what could not be written.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: MessageStore,
        sinks: SinkStore,
        topics: TopicTable,
        barrier: WriteBarrier,
        clock_ms: Callable[[], float],
    ) -> None:
        self.table = StageTable()
        self._loop = loop
        self._store = store
        self._sinks = sinks
        self._topics = topics
        self._barrier = barrier
        self._clock_ms = clock_ms
        self._topic_id = topics.existing(STAGE_TOPIC).topic_id
        self._queue: deque[_Publishing] = deque()
        self._chunk: tuple[int, list[StagedMessage]] | None = None
        self._is_writing = False
        self._next_scan = loop.time() + _EXPIRY_SCAN_S
        self._retry_at: float | None = None
        self.driver = DeadlineDriver(self._next_deadline, self._act)
        self._recover()

    def pinned(self) -> dict[LogKey, int]:
        """Queue -> offset from which on the log must be kept: staged chunks, and the ends that an intent names."""
        pins = {} if (first := self.table.first_offset()) is None else {(self._topic_id, 0): first}
        for publishing in self._queue:
            for key, start in publishing.intent.starts.items():
                pins[key] = min(start, pins.get(key, start))
        return pins

    # --- requests ----------------------------------------------------------------------------------------------------

    def stage(self, attempt: Attempt, seq: int, body: bytes, messages: list[StagedMessage], told: Written) -> None:
        """Keep messages until their batch is committed.

        Args:
            attempt: whose.
            seq: number of the chunk; one that is staged already is not staged again.
            body: the messages as they came.
            messages: the same, unpacked.
            told: called once they are stored.

        Raises:
            SystemBusy: there is no room.
        """
        if self.table.has(attempt, seq):
            self._barrier.after_commit(told)
            return
        self.table.check_room(attempt.query_id)
        counts: dict[tuple[str, int], int] = {}
        for topic, queue_id, _, _ in messages:
            counts[(topic, queue_id)] = counts.get((topic, queue_id), 0) + 1
        offset = self._store.append(self._topic_id, 0, body, 0)
        chunk = Chunk(seq, offset, tuple(counts.items()), int(self._clock_ms()))
        self._sinks.save_chunk(attempt, chunk)

        def written(failure: RlabError | None) -> None:
            if failure is None:
                self.table.add(attempt, chunk)
            else:
                self._sinks.delete_chunks([(attempt, seq)])
                self._barrier.metadata_changed()
            told(failure)

        self._barrier.after_append(written, STAGE_TOPIC, 0)

    def commit(
        self, query_id: str, batch_id: int, wanted: list[tuple[int, int, int]], told: Written, *, is_only: bool = False
    ) -> bool:
        """Publish a batch.

        Args:
            query_id: the query.
            batch_id: its batch; one that is not above the last one was published before.
            wanted: see `StageTable.named`.
            told: called once it is published, or with why it is not yet; a repeated commit waits for the same.
            is_only: whether the query has no other batch.

        Returns:
            Whether this commit, or one before it that is not through yet, publishes anything.

        Raises:
            StageLost: see `StageTable.named`.
        """
        for publishing in self._queue:
            if (publishing.intent.query_id, publishing.intent.batch_id) == (query_id, batch_id):
                publishing.waiting.append(told)
                return True
        if batch_id <= self.table.last_batch(query_id):
            # Perhaps in this very turn, and not committed yet. What was staged anew is of no use.
            self._sinks.delete_chunks(self.table.drop_batch(query_id, batch_id))
            self._barrier.after_commit(told)
            return False
        chunks = self.table.named(query_id, batch_id, wanted)
        starts = {
            (entry.topic_id, queue_id): 0
            for chunk in chunks
            for (topic, queue_id), _ in chunk.counts
            if (entry := self._topics.get(topic)) is not None
        }
        publishing = _Publishing(Intent(query_id, batch_id, tuple(c.offset for c in chunks), starts), {})
        publishing.waiting.append(told)
        publishing.kept_s = ONLY_BATCH_KEPT_S if is_only else LAST_BATCH_KEPT_S
        self._queue.append(publishing)
        if len(self._queue) == 1:
            self._begin()
        return True

    def abort(self, query_id: str, batch_id: int) -> int:
        """Drop what is staged of a batch that is not being published.

        Returns:
            How many chunks it was.
        """
        if any((p.intent.query_id, p.intent.batch_id) == (query_id, batch_id) for p in self._queue):
            return 0
        dropped = self.table.drop_batch(query_id, batch_id)
        self._sinks.delete_chunks(dropped)
        self._barrier.metadata_changed()
        return len(dropped)

    # --- publishing --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Store the intent of the first batch in line: only now is it known where its targets end."""
        publishing = self._queue[0]
        intent = publishing.intent
        for key in intent.starts:
            intent.starts[key] = self._store.max_offset(*key)
        self._sinks.save_intent(intent)
        self._is_writing = True
        self._barrier.after_commit(self._go_on)

    def _go_on(self, failure: RlabError | None) -> None:
        """Write the next messages, or end the batch; called when the write before it is through."""
        self._is_writing = False
        publishing = self._queue[0]
        if failure is not None:
            self._tell(publishing, failure)
            self._retry_at = self._loop.time() + _RETRY_S
            self.driver.wake_by(self._retry_at)
            return
        if publishing.is_through:
            self._end(publishing)
            return
        try:
            part = self._append_slice(publishing)
        except StoreError as error:
            self._go_on(error)
            return
        self._is_writing = True

        def written(failure: RlabError | None) -> None:
            if failure is None:
                publishing.at, publishing.skip = part.at, part.skip
            self._go_on(failure)

        for topic, queue_id in part.targets[1:]:
            self._barrier.after_append(_nothing, topic, queue_id)
        self._barrier.after_append(written, *(part.targets[0] if part.targets else (STAGE_TOPIC, 0)))

    def _append_slice(self, publishing: _Publishing) -> _Slice:
        """Append the next messages of a batch, of one chunk.

        Raises:
            StoreError: the chunk cannot be read; nothing was appended.
        """
        number, first = publishing.at
        messages = self._read(publishing.intent.offsets[number])
        end = first + PUBLISHED_PER_TURN
        targets: dict[tuple[str, int], None] = {}
        skip = dict(publishing.skip)
        for topic, queue_id, tag_hash, payload in messages[first:end]:
            entry = self._topics.get(topic)
            if entry is None:
                logger.warning("a staged message for topic %r is dropped: the topic was deleted", topic)
            elif skip.get((entry.topic_id, queue_id)):
                skip[(entry.topic_id, queue_id)] -= 1
            else:
                self._store.append(entry.topic_id, queue_id, payload, tag_hash, flags=SINK_FLAG)
                targets[(topic, queue_id)] = None
        return _Slice(list(targets), (number, end) if end < len(messages) else (number + 1, 0), skip)

    def _read(self, offset: int) -> list[StagedMessage]:
        # The chunk that was read last is the one that the next turn goes on with.
        if self._chunk is not None and self._chunk[0] == offset:
            return self._chunk[1]
        result = self._store.read(self._topic_id, 0, offset, max_n=1, max_bytes=MAX_PULL_BYTES, tag_hashes=None)
        for record in iter_records(result.body):
            if record.queue_offset == offset:
                messages = staged_messages(record.payload)
                self._chunk = (offset, messages)
                return messages
        raise StoreError(f"the staged chunk {offset} cannot be read any more ({result.status.value}): check the disk")

    def _end(self, publishing: _Publishing) -> None:
        last = self._save_end(publishing)

        def committed(failure: RlabError | None) -> None:
            if failure is None:
                self.table.published(publishing.intent.query_id, last)
                self._queue.popleft()
                self._chunk = None
                self._is_writing = False
                self._tell(publishing, None)
                if self._queue:
                    self._begin()
            else:
                self._go_on(failure)

        self._barrier.after_commit(committed)

    def _save_end(self, publishing: _Publishing) -> LastBatch:
        intent = publishing.intent
        last = LastBatch(intent.batch_id, int(self._clock_ms() + publishing.kept_s * 1000))
        self._sinks.save_published(intent, last)
        self._sinks.delete_chunks(self.table.drop_batch(intent.query_id, intent.batch_id))
        return last

    @staticmethod
    def _tell(publishing: _Publishing, failure: RlabError | None) -> None:
        waiting, publishing.waiting = publishing.waiting, []
        for told in waiting:
            told(failure)

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def _next_deadline(self) -> float | None:
        return self._next_scan if self._retry_at is None else min(self._retry_at, self._next_scan)

    def _act(self, now: float) -> None:
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            if self._queue and not self._is_writing:
                self._is_writing = True
                self._barrier.after_commit(self._go_on)
        if now >= self._next_scan:
            self._next_scan = now + _EXPIRY_SCAN_S
            self._expire()

    def _expire(self) -> None:
        now_ms = int(self._clock_ms())
        publishing = frozenset((p.intent.query_id, p.intent.batch_id) for p in self._queue)
        dropped = self.table.drop_older(int(now_ms - STAGE_EXPIRY_S * 1000), publishing)
        if dropped:
            logger.warning("%d staged chunks that nobody committed are dropped", len(dropped))
            self._sinks.delete_chunks(dropped)
        for query_id in self.table.forget_expired(now_ms):
            self._sinks.delete_query(query_id)
        self._barrier.metadata_changed()

    # --- restart -----------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Take over what earlier runs stored, and bring to its end what was being published."""
        end = self._store.max_offset(self._topic_id, 0)
        for query_id, last in self._sinks.last_batches():
            self.table.published(query_id, last)
        for attempt, chunk in list(self._sinks.chunks()):
            if chunk.offset < end:
                self.table.add(attempt, chunk)
            else:
                # The process ended between the two writes of a stage, which nobody was told of.
                self._sinks.delete_chunks([(attempt, chunk.seq)])
        for intent in list(self._sinks.intents()):
            skip = {key: self._count_published(key, start) for key, start in intent.starts.items()}
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
                self._retry_at = self._loop.time() + _RETRY_S
                continue
            self._queue.pop()
            self.table.published(intent.query_id, self._save_end(publishing))
            logger.info("batch %d of %s was brought to its end", intent.batch_id, intent.query_id)
        self._chunk = None

    def _count_published(self, key: LogKey, offset: int) -> int:
        n = 0
        while True:
            result = self._store.read(*key, offset, max_n=4096, max_bytes=MAX_PULL_BYTES, tag_hashes=None)
            n += sum(record.flags & SINK_FLAG for record in iter_records(result.body))
            if result.status in (ReadStatus.NO_NEW, ReadStatus.OFFSET_TOO_BIG) or result.next_offset <= offset:
                return n
            offset = result.next_offset


def _nothing(failure: RlabError | None) -> None:
    """A queue has something new; whoever waits for the write is told elsewhere."""
