"""The message store of a broker: append, flush, read. RocketMQ: DefaultMessageStore.

Everything is synchronous and belongs to one thread, the broker's event loop; only `SyncJob.run` may be called
elsewhere.

    append    wraps the payload, gives it the queue's next offset, buffers it: not visible yet
    flush     writes all buffered records with one system call: now they survive the process, and readers see them,
              unless they wait for a sync or for replicas (`show_only_synced`, `show_only_committed`)
    sync      makes all written records durable: now they survive a loss of power

Invariants:
- Readers see only records that are in the file. A flush that fails undoes the whole batch, offsets included.
- Offsets of a queue have no gaps, other than by damage, which is noted (`damage`).
- Stored times never decrease along the log, even if the wall clock does, so that a time can be searched for.
- Memory is bounded by the options, whatever is stored (`disk/options.py`).

    with MessageStore.open(directory, StoreOptions(), clock_ms) as store:
        offset = store.append(topic_id, queue_id, payload, tag_hash)
        store.flush()
        result = store.read(topic_id, queue_id, offset, max_n=32, max_bytes=65536)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, Self

from broker.store.disk.directory import DirectoryLock, claim_directory, to_store_error
from broker.store.disk.errors import StoreReadFailed, StoreWriteFailed
from broker.store.disk.files import Files
from broker.store.disk.options import StoreOptions
from broker.store.disk.reserve import write_error
from broker.store.follower.cut import finish_cut
from broker.store.follower.source import LogSource
from broker.store.queue_state import QueueState, read_tail
from broker.store.read_result import FirstNeeded, ReadResult, ReadStatus, StoreStatistics
from broker.store.reader import LogReader
from broker.store.recovery import Recovery, RecoveryReport
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.index import LogKey
from broker.store.segments.sync_job import SyncJob
from broker.store.syncing import Durability
from broker.store.writer import StoreWriter
from model.limits import MAX_PULL_BYTES
from model.record import StoredRecord, iter_records

# Bound once: for a read of recent messages, looking these up would cost as much as the read.
_FOUND = ReadStatus.FOUND
_new_tuple = tuple.__new__


class SegmentSpan(NamedTuple):
    """One file of the log, as retention sees it; `newest_ms` is the time of its newest record, or else of its start."""

    base_position: int
    end_position: int
    newest_ms: int


class MessageStore(StoreWriter, LogSource):
    """Stores the messages of one broker in one directory; `recovery` reports what opening it had to do."""

    recovery: RecoveryReport

    def __init__(self, log: CommitLog, lock: DirectoryLock, options: StoreOptions, clock_ms: Callable[[], int]) -> None:
        """Use `open` instead."""
        super().__init__(log, Durability(log, lock, self._synced), options, clock_ms)
        self._lock = lock
        self._reader = LogReader(log, self.damage, options.scan_records)
        self.on_damage: Callable[[], None] | None = None  # called when a read has come upon damage: `damage` has it
        self._is_closed = False

    @classmethod
    def open(
        cls,
        directory: Path,
        options: StoreOptions,
        clock_ms: Callable[[], int],
        files: Files | None = None,
        *,
        epoch: tuple[int, int] | None = None,
    ) -> Self:
        """Open the store in a directory, or create it.

        The directory must be empty, a store, or not exist yet. Recovers what a crash left (`recovery.py`); everything
        found is durable when this returns. The store is a context manager that closes it.

        The master of a set of replicas begins an `epoch` with it, given as its number and the id of the replica. The
        directory may be the one of a `FollowerLog`, which must be closed. Opened without an epoch, a log that has
        epochs loses them: later messages are not a part of the set's log.

        Raises:
            StoreUnusable: one of its kinds, saying what to change.
            StoreSyncFailed: the disk does not take what recovery found.
        """
        files = files or Files()
        lock = claim_directory(directory, files)
        log = CommitLog(directory, files, options)
        try:
            store = cls(log, lock, options, clock_ms)
            store.reserve.free()  # until the caller takes it, once it has opened what else needs room
            store._recover(epoch)
        except BaseException:
            log.close()
            lock.release()
            raise
        return store

    def _recover(self, epoch: tuple[int, int] | None) -> None:
        try:
            finish_cut(self._log.directory, self._log.files)
            recovery = Recovery(self._log, self.damage, self._ends.load())
            self.recovery = recovery.run(self._clock_ms(), epoch)
        except OSError as error:
            raise to_store_error(self._log.directory, error) from error
        self._begin(recovery.first_offsets, recovery.end_offsets, recovery.last_stored_ms)
        self._min_position = recovery.min_position
        self._rewrite_ends(durable=True)
        self.sync()

    def close(self) -> None:
        """Make flushed records durable, write the index of the last segment, and release the directory. Idempotent.

        Messages that were appended but not flushed are discarded: no send of them was answered.

        Raises:
            StoreSyncFailed: flushed records may not be durable. The store is closed nevertheless.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._roll_back()
        try:
            self._durability.close()
        finally:
            if self._ends.is_stale and not self._durability.is_lost:
                self._rewrite_ends()
            self._ends.close()
            self._log.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def begin_segment_now(self) -> None:
        """Begin the next segment before this one is full, so that the next start has next to nothing to read.

        Only while nothing is buffered. Does nothing if this segment has no message.

        Raises:
            StoreLockLost: another broker may write to the directory.
            StoreFull, StoreWriteFailed: an I/O error; the segment is still written.
        """
        assert not self._buffer, "flush first"
        try:
            if self._log.active.record_count:
                self._begin_segment()
        except OSError as error:
            raise write_error(self._log.directory, error) from error

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(
        self,
        topic_id: int,
        queue_id: int,
        offset: int,
        *,
        max_n: int,
        max_bytes: int,
        tag_hashes: frozenset[int] | None = None,
    ) -> ReadResult:
        """Read messages of one queue from an offset on; a queue that is not known is empty.

        There may be fewer messages than asked for although more are stored. `max_bytes` bounds `body`; a first message
        that is longer is returned alone. With `tag_hashes`, only messages with one of these hashes are returned.

        Raises:
            StoreReadFailed: an I/O error; nothing has changed.
        """
        queue = self._queues.get((topic_id, queue_id))
        if queue is None:
            return _nothing(offset, 0, 0)
        end_offset = queue.end_offset
        # A consumer that keeps up, without a filter: one slice and one join.
        if tag_hashes is None and queue.tail_base <= offset < end_offset:
            first = offset - queue.tail_base
            n = min(max_n, end_offset - offset)
            if n * queue.longest_bytes <= max_bytes:
                body = b"".join(queue.tail[first : first + n])
                return _new_tuple(ReadResult, (_FOUND, body, n, offset + n, queue.min_offset, end_offset))
        return self._read_otherwise(queue, offset, max_n, max_bytes, tag_hashes)

    def read_one(self, topic_id: int, queue_id: int, offset: int) -> StoredRecord | None:
        """The message at an offset; None if it is deleted, or not stored yet. Raises as `read` does."""
        result = self.read(topic_id, queue_id, offset, max_n=1, max_bytes=MAX_PULL_BYTES)
        return next((record for record in iter_records(result.body) if record.queue_offset == offset), None)

    def _read_otherwise(
        self, queue: QueueState, offset: int, max_n: int, max_bytes: int, tag_hashes: frozenset[int] | None
    ) -> ReadResult:
        low, high = queue.min_offset, queue.end_offset
        if not low <= offset < high:
            return _nothing(offset, low, high)
        if offset >= queue.tail_base:
            max_records = self._options.scan_records
            body, count, next_offset = read_tail(
                queue, offset, max_n=max_n, max_bytes=max_bytes, scan_records=max_records, tag_hashes=tag_hashes
            )
        else:
            try:
                body, count, next_offset = self._reader.read(
                    queue, offset, min(queue.tail_base, high), max_n=max_n, max_bytes=max_bytes, tag_hashes=tag_hashes
                )
            except OSError as error:
                raise self._read_error(error) from error
            next_offset = self.damage.next_readable(queue.key, next_offset)
            if self.damage.has_new and self.on_damage is not None:
                self.on_damage()
        status = ReadStatus.FOUND if count else ReadStatus.NO_MATCH
        return ReadResult(status, body, count, next_offset, low, high)

    def min_offset(self, topic_id: int, queue_id: int) -> int:
        """Return the offset of the oldest message of a queue; equal to `max_offset` if it has none."""
        queue = self._queues.get((topic_id, queue_id))
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic_id: int, queue_id: int) -> int:
        """Return the end of a queue: the offset after the newest message that readers see."""
        queue = self._queues.get((topic_id, queue_id))
        return queue.end_offset if queue is not None else 0

    def offset_at(self, topic_id: int, queue_id: int, timestamp_ms: int) -> int:
        """Return the first offset of a queue that was stored at or after a time; its end if there is none.

        Raises:
            StoreReadFailed: an I/O error.
        """
        queue = self._queues.get((topic_id, queue_id))
        if queue is None:
            return 0
        try:
            return self._reader.offset_at(queue, timestamp_ms)
        except OSError as error:
            raise self._read_error(error) from error

    def queues(self) -> list[LogKey]:
        """Return (topic_id, queue_id) of every queue, sorted."""
        return sorted(self._queues)

    def _read_error(self, error: OSError) -> StoreReadFailed:
        return StoreReadFailed(f"cannot read {self._log.directory} ({error}): check the disk")

    # --- durability --------------------------------------------------------------------------------------------------

    @property
    def log(self) -> CommitLog:
        """The segments, for `keys/search.py`; only the store changes them."""
        return self._log

    @property
    def written_position(self) -> int:
        """Log position after the newest byte that is flushed."""
        return self._log.written_position

    def check_lock(self) -> None:
        """Raise `StoreLockLost` if another broker may be in the directory; then this store no longer writes."""
        self._durability.check_lock()

    @property
    def synced_position(self) -> int:
        """Log position before which everything is durable."""
        return self._log.synced_position

    def begin_sync(self) -> SyncJob:
        """Begin to make flushed records durable. Run the job in a thread, then pass it to `finish_sync`.

        `job.position` is the log position that it reaches. If the caller is cancelled in between, the next `begin_sync`
        or `close` waits for the job and takes note of it.

        Raises:
            StoreReadOnly: a sync failed earlier.
            StoreSyncFailed: the job could not be prepared, or an abandoned one has failed.
        """
        return self._durability.begin_sync()

    def finish_sync(self, job: SyncJob) -> None:
        """Record the outcome of a job that has run.

        Raises:
            StoreSyncFailed: records since the last sync may not be durable: do not acknowledge them. The store takes no
                more writes.
        """
        self._durability.finish_sync(job)

    def sync(self) -> None:
        """Make flushed records durable; blocks for as long as the disk takes. Raises as the two steps do."""
        self._durability.sync()

    # --- retention ---------------------------------------------------------------------------------------------------

    def trim(self, to_position: int, free_space: Callable[[int], None] | None = None) -> int:
        """Remove the oldest segments that end at or before a log position, and return how many.

        The last one that is durable stays. The queues' `min_offset` moves past those removed. `free_space` is called
        with a descriptor of each log file, to be closed in a thread: only then does the system free the space, which
        takes it 10 or 20 ms for 64 MiB. Without `free_space`, that is done here.

        Raises:
            StoreWriteFailed: a file could not be removed; the others are gone, and the call may be repeated.
            StoreLockLost: the files of these names may be those of another broker; nothing is removed.
        """
        self.check_lock()
        segments = self._log.segments
        n_before = len(segments)
        # The segment after them begins with the ends of the queues; the disk must not forget both.
        may_begin = (each.base_position <= to_position and each.synced_size for each in segments[1:])
        count = sum(1 for _ in takewhile(bool, may_begin))
        try:
            if count:
                self._write_first(segments[count])
            try:
                for _ in range(count):
                    self._log.remove_oldest(free_space)
            finally:
                if len(segments) < n_before:
                    self._move_min_offsets()
        except OSError as error:
            raise StoreWriteFailed(
                f"cannot remove old segments of {self._log.directory} ({error}): check the disk"
            ) from error
        return n_before - len(segments)

    def spans(self) -> list[SegmentSpan]:
        """Return all segments, oldest first; the last one is being written and cannot be removed."""
        return [SegmentSpan(each.base_position, each.end_position, each.last_stored_ms) for each in self._log.segments]

    @property
    def newest_base_position(self) -> int:
        """Log position of the first byte of the segment that is being written."""
        return self._log.active.base_position

    def first_needed(self, needs: Mapping[LogKey, int], end_position: int) -> FirstNeeded | None:
        """Find the oldest segment that holds a message at or after the first offset that is needed of its queue.

        Only segments that end at or before the log position `end_position` are checked, because the others are not
        about to be removed. Of each, only the ends of its queues are read, which is one part of its index file. A queue
        that is not in `needs` is not needed.

        Raises:
            StoreReadFailed: an I/O error.
        """
        try:
            for segment in self._log.segments[:-1] if needs else ():
                if segment.end_position > end_position:
                    break
                segment_ends = self._log.ends(segment)
                for key, offset in needs.items():
                    if segment_ends.get(key, 0) > offset:
                        return FirstNeeded(segment.base_position, key)
        except OSError as error:
            raise self._read_error(error) from error
        return None

    def _move_min_offsets(self) -> None:
        firsts = self._log.firsts(self._log.segments[0])
        for key, queue in self._queues.items():
            queue.min_offset = max(queue.min_offset, firsts.get(key, 0))
            queue.drop_tail_before(queue.min_offset)
            queue.last_read_segment = None
            self.damage.forget_before(key, queue.min_offset)
        if self._ends.is_stale:
            self._rewrite_ends()

    def statistics(self) -> StoreStatistics:
        """Return the state of the store now."""
        return StoreStatistics(
            queues=len(self._queues),
            segments=len(self._log.segments),
            min_position=self._log.min_position,
            written_position=self._log.written_position,
            synced_position=self._log.synced_position,
            tail_bytes=self._tail.bytes,
            index_cache_bytes=self._log.parts.bytes,
            unfinished_segments=self._log.unfinished_count,
        )


def _nothing(offset: int, low: int, high: int) -> ReadResult:
    """Answer a read at an offset where a queue that holds [low, high) has nothing."""
    if offset == high:
        return ReadResult(ReadStatus.NO_NEW, b"", 0, high, low, high)
    if offset < low:
        return ReadResult(ReadStatus.OFFSET_TOO_SMALL, b"", 0, low, low, high)
    return ReadResult(ReadStatus.OFFSET_TOO_BIG, b"", 0, high, low, high)
