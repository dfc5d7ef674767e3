"""The writing half of the message store: a batch is appended to, then flushed as one write, or discarded.

Every message that is sent takes this path, so it has few steps: one header packed, one checksum, one index entry. The
clock reading and the system call are done once per batch.

    append  append  append  flush           offsets 7, 8, 9; readers see none, none, none, all three
    append  append  flush -> StoreFull      offsets 10, 11 are free again, the file ends where it did
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence

from broker.store.damage import DamageLog
from broker.store.disk.errors import StoreFull, StoreLockLost, StoreReadFailed, StoreReadOnly, StoreSyncFailed
from broker.store.disk.options import MIB, StoreOptions
from broker.store.disk.reserve import Reserve, write_error
from broker.store.ends import EndsFile
from broker.store.queue_state import HiddenFlushes, QueueState, TailCache
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.epochs import encode_epochs
from broker.store.segments.index import ENTRY, LogKey, MemoryIndex
from broker.store.segments.scan import MAX_RECORD_BYTES, encode_queue_table, encode_topic_dropped, encode_topic_named
from broker.store.segments.segment import Segment
from broker.store.syncing import Durability
from model.record import CONTROL_FLAG, encode_record

_pack_entry = ENTRY.pack
_UNFINISHED_SEGMENTS_MAX = 4
_MAX_ID = 2**32 - 1


class StoreWriter:
    """Appends to the log and keeps the table of queues. `MessageStore` adds reading."""

    def __init__(
        self, log: CommitLog, durability: Durability, options: StoreOptions, clock_ms: Callable[[], int]
    ) -> None:
        self.reserve = Reserve(log.directory, log.files, options.reserve_bytes)
        self._log = log
        self._durability = durability
        self._ends = EndsFile(log.directory, log.files)
        self.damage = DamageLog()  # the messages of every queue that are known to be lost
        self._min_position = 0  # log position at which the log begins, or began before files at its start were lost
        self._options = options
        self._clock_ms = clock_ms
        self._queues: dict[LogKey, QueueState] = {}
        self._tail = TailCache(options.tail_bytes)
        self._stored_ms = 0
        # Topic id -> name. The next batch begins with the names that the active segment does not have yet.
        self._names: dict[int, bytes] = {}
        self._unwritten_names: dict[int, bytes] = {}
        # The batch: appended, not flushed.
        self._buffer: list[bytes] = []
        self._batch_queues: list[QueueState] = []
        self._dropped_in_batch: list[QueueState] = []
        self._next_at = 0  # position of the next record in the active segment
        self._hidden_flushes: HiddenFlushes | None = None
        self._shows_synced = False

    def show_only_synced(self) -> None:
        """Show messages to readers only once they are durable, instead of once they are in the file.

        Otherwise a reader could read messages that a loss of power then removes. It would continue after them, and
        never read the later messages that get the same offsets.
        """
        self._hidden_flushes = HiddenFlushes(self._log.written_position)
        self._shows_synced = True

    def show_only_committed(self) -> None:
        """Show messages to readers only once `show` is called: then other replicas have them.

        Otherwise a failover could remove messages that a reader has read, and other messages would get their offsets.
        """
        self._hidden_flushes = self._hidden_flushes or HiddenFlushes(self._log.written_position)
        self._shows_synced = False

    @property
    def shown_position(self) -> int:
        """Log position up to which readers see messages."""
        return self._log.written_position if self._hidden_flushes is None else self._hidden_flushes.shown_position

    def show(self, position: int) -> None:
        """Show what was flushed up to a log position; see `show_only_committed`."""
        assert self._hidden_flushes is not None, "nothing is held back"
        if queues := self._hidden_flushes.show(position):
            self._write_ends(queues)

    def _synced(self) -> None:
        if self._shows_synced:
            self.show(self._log.synced_position)

    def _begin(self, firsts: dict[LogKey, int], ends: dict[LogKey, int], last_stored_ms: int) -> None:
        """Begin with what recovery found; the active segment has a row for each queue."""
        rows = self._active_index.rows
        for key, end_offset in ends.items():
            self._queues[key] = QueueState(key, firsts[key], end_offset, rows[key])
        self._stored_ms = last_stored_ms
        self._next_at = self._log.active.size

    def append(
        self, topic_id: int, queue_id: int, payload: bytes, tag_hash: int, *, flags: int = 0, times_delivered: int = 0
    ) -> int:
        """Buffer one message, and return its offset. It is stored, and visible, once the next `flush` succeeds.

        The topic must not have been dropped. `payload`, the bytes of the producer, is shorter than 16 MiB. `tag_hash`
        is a signed 32-bit number, 0 for a message without a tag. `flags` has 15 bits for the broker. `times_delivered`
        counts the failed deliveries, at most 65535.

        Raises:
            ValueError: the payload is too long, or a flag is the store's own.
        """
        buffer = self._buffer
        if not buffer:
            self._begin_batch()
        queue = self._queues.get((topic_id, queue_id))
        if queue is None:
            queue = self._add_queue((topic_id, queue_id))
        offset = queue.next_offset
        stored_ms = self._stored_ms
        record = encode_record(topic_id, queue_id, offset, stored_ms, tag_hash, flags, times_delivered, payload)
        length = len(record)
        if length > queue.longest_bytes or flags >= CONTROL_FLAG:
            self._check_length(queue, length, flags)
        if offset == queue.flushed_offset:
            self._batch_queues.append(queue)
        queue.row.entries += _pack_entry(self._next_at, length, tag_hash, stored_ms)
        queue.tail.append(record)
        queue.next_offset = offset + 1
        self._next_at += length
        buffer.append(record)
        return offset

    def append_batch(self, topic_id: int, queue_id: int, messages: Sequence[tuple[bytes, int]], flags: int = 0) -> int:
        """Buffer messages of one queue, each (payload, tag hash), and return the offset of the first one.

        They get consecutive offsets. The table of queues is read and changed once for all of them: a call of `append`
        for each would take an eighth more time, the write included.

        Raises:
            ValueError: a payload is too long, or a flag is the store's own; none of the messages is buffered.
        """
        if not messages:
            return self.next_offset(topic_id, queue_id)
        if not self._buffer:
            self._begin_batch()
        key = topic_id, queue_id
        queue = self._queues.get(key) or self._add_queue(key)
        first_offset, position, stored_ms = queue.next_offset, self._next_at, self._stored_ms
        records: list[bytes] = []
        entries: list[bytes] = []
        for offset, (payload, tag_hash) in enumerate(messages, first_offset):
            record = encode_record(topic_id, queue_id, offset, stored_ms, tag_hash, flags, 0, payload)
            entries.append(_pack_entry(position, len(record), tag_hash, stored_ms))
            records.append(record)
            position += len(record)
        if (longest := max(map(len, records))) > queue.longest_bytes or flags >= CONTROL_FLAG:
            self._check_length(queue, longest, flags)
        if first_offset == queue.flushed_offset:
            self._batch_queues.append(queue)
        queue.row.entries += b"".join(entries)
        queue.tail += records
        queue.next_offset += len(records)
        self._buffer += records
        self._next_at = position
        return first_offset

    def next_offset(self, topic_id: int, queue_id: int) -> int:
        """Return the offset that the next message appended to a queue gets."""
        queue = self._queues.get((topic_id, queue_id))
        return queue.next_offset if queue is not None else 0

    def name_topic(self, topic_id: int, name: bytes) -> None:
        """Write the name of a topic id before the next message, and at the start of each later segment.

        So each segment with messages has the names of all topics. If a topic id has two names, the newer one counts.
        """
        self._names[topic_id] = self._unwritten_names[topic_id] = name
        if self._buffer:
            self._append_names({topic_id: name})

    def topic_names(self, topic_ids: Collection[int]) -> dict[int, bytes]:
        """Return the names of topic ids that are in the newest segments of earlier runs; it may take seconds.

        Raises:
            StoreReadFailed: an I/O error.
        """
        try:
            return self._log.topic_names(topic_ids)
        except OSError as error:
            raise StoreReadFailed(f"cannot read {self._log.directory} ({error}): check the disk") from error

    def _append_names(self, names: dict[int, bytes]) -> None:
        record = self._encode_names(names)
        self._buffer.append(record)
        self._next_at += len(record)

    def _encode_names(self, names: dict[int, bytes]) -> bytes:
        return b"".join([encode_topic_named(topic_id, self._stored_ms, name) for topic_id, name in names.items()])

    def drop_topic(self, topic_id: int) -> None:
        """Remove the queues of a topic. Like a message, this is stored by the next `flush`, and undone if it fails.

        The space is free again when the segments are removed. The topic id must never be used again.
        """
        self._names.pop(topic_id, None)
        self._unwritten_names.pop(topic_id, None)
        keys = [key for key in self._queues if key[0] == topic_id]
        if not keys:
            return
        if not self._buffer:
            self._begin_batch()
        record = encode_topic_dropped(topic_id, self._stored_ms)
        self._buffer.append(record)
        self._next_at += len(record)
        self._dropped_in_batch.extend(self._queues.pop(key) for key in keys)
        self._active_index.drop_topic(topic_id)

    def flush(self) -> None:
        """Write all that is buffered, with one system call, and show it to readers (see `show_only_synced`).

        Raises:
            StoreFull: the disk is full. A later flush may succeed, once there is space.
            StoreWriteFailed: an I/O error, or a read-only file system.
            StoreReadOnly: a sync failed earlier; the broker has to be restarted.

        After each of these errors nothing of the batch is stored, and its offsets are free again.
        """
        buffer = self._buffer
        if not buffer:
            return
        log = self._log
        if self.reserve.is_missing:
            self._roll_back()
            raise StoreFull(
                f"{log.directory} has only the room that is kept for commits: nothing of this batch is stored; free "
                f"space or shorten the retention, sending works again with {self.reserve.size_bytes / MIB:g} MiB free"
            )
        data = b"".join(buffer)
        try:
            self._durability.check_writable()
            log.append(data)
        except OSError as error:
            self._roll_back()
            raise write_error(log.directory, error) from error
        except StoreReadOnly:
            self._roll_back()
            raise
        queues = self._batch_queues
        if self._hidden_flushes is None:
            for queue in queues:
                queue.end_offset = queue.flushed_offset = queue.next_offset
        else:
            self._hidden_flushes.add(log.written_position, queues)
        self._tail.added(queues, len(data), len(buffer))
        if self._hidden_flushes is None and queues:
            self._write_ends(queues)
        if self._dropped_in_batch:
            self._forget_dropped()
        active = log.active
        active.record_count += len(buffer)
        active.first_stored_ms = active.first_stored_ms or self._stored_ms
        active.last_stored_ms = self._stored_ms
        options = self._options
        is_full = (
            active.size >= options.segment_bytes
            or active.record_count >= options.segment_records
            or self._stored_ms - active.first_stored_ms >= options.segment_age_ms
        )
        self._end_batch()
        self._unwritten_names.clear()
        if is_full:
            self._begin_next_segment()

    def _write_ends(self, queues: Iterable[QueueState]) -> None:
        """Append the ends of queues to the file `ENDS`, before the producers of their messages get answers."""
        live_queues = self._queues
        rows = [(*queue.key, queue.end_offset) for queue in queues if live_queues.get(queue.key) is queue]
        self._ends.append_ends(self.shown_position, rows)
        if self._ends.is_stale:
            self._rewrite_ends()

    def _write_first(self, segment: Segment) -> None:
        """Append to the file `ENDS` that the log begins with a segment, before the older ones are removed."""
        firsts = self._log.firsts(segment)
        first_offsets = {key: max(queue.min_offset, firsts.get(key, 0)) for key, queue in self._queues.items()}
        self._min_position = segment.base_position
        self._ends.append_first(segment.base_position, first_offsets)

    def _forget_dropped(self) -> None:
        for queue in self._dropped_in_batch:
            queue.drop_tail_before(queue.flushed_offset)
            self.damage.forget(queue.key)
        self._ends.append_dropped(self.shown_position, [queue.key for queue in self._dropped_in_batch])

    @property
    def settled_position(self) -> int:
        """Log position before which everything is durable, and shown to readers."""
        return min(self._log.synced_position, self.shown_position)

    def _rewrite_ends(self, *, durable: bool = False) -> None:
        queues = self._queues.values()
        self._ends.rewrite(
            self._min_position,
            {queue.key: queue.min_offset for queue in queues},
            self.shown_position,
            {queue.key: queue.end_offset for queue in queues},
            durable=durable,
        )

    def go_on_at(self, topic_id: int, queue_id: int, offset: int) -> None:
        """Raise the end of a queue to an offset, because a committed offset proves that it had messages up to there.

        These messages are lost, and no other message may get their offsets. Call it only while nothing is buffered.
        """
        key = (topic_id, queue_id)
        queue = self._queues.get(key) or self._add_queue(key)
        end_offset, count = queue.next_offset, offset - queue.next_offset
        if count <= 0:
            return
        segments = self._log.segments
        self._active_index.add_holes(queue.row, count, self._stored_ms)
        queue.tail.clear()
        queue.end_offset = queue.flushed_offset = queue.next_offset = queue.tail_base = offset
        self.damage.add(segments[max(len(segments) - 2, 0)].name, key, end_offset, offset)
        self._write_ends([queue])

    def discard(self) -> None:
        """Drop the batch, as a failed flush does: nothing is stored, and its offsets are free again."""
        if self._buffer:
            self._roll_back()

    @property
    def _active_index(self) -> MemoryIndex:
        index = self._log.active.index
        assert isinstance(index, MemoryIndex)
        return index

    def _begin_batch(self) -> None:
        # One clock reading for a batch, which lasts one event-loop iteration. The time never goes back, even if the
        # clock does: offsets are searched by time.
        self._stored_ms = max(self._stored_ms, self._clock_ms())
        if self._unwritten_names:
            self._append_names(self._unwritten_names)

    def _check_length(self, queue: QueueState, length: int, flags: int) -> None:
        if length > MAX_RECORD_BYTES or flags >= CONTROL_FLAG:
            raise ValueError(f"a record of {length} bytes with flags {flags:#x} cannot be stored")
        queue.longest_bytes = length

    def _add_queue(self, key: LogKey) -> QueueState:
        if not (0 <= key[0] <= _MAX_ID and 0 <= key[1] <= _MAX_ID):
            raise ValueError(f"topic_id {key[0]} or queue_id {key[1]} does not fit 32 bits")
        queue = self._queues[key] = QueueState(key, 0, 0, self._active_index.add_row(key, 0))
        return queue

    def _end_batch(self) -> None:
        self._buffer.clear()
        self._batch_queues.clear()
        self._dropped_in_batch.clear()
        self._next_at = self._log.active.size

    def _roll_back(self) -> None:
        index = self._active_index
        for queue in self._batch_queues:
            count = queue.next_offset - queue.flushed_offset
            del queue.tail[len(queue.tail) - count :]
            queue.row.remove_last(count)
            queue.next_offset = queue.flushed_offset
            if queue.flushed_offset == 0 and self._queues.get(queue.key) is queue:
                del self._queues[queue.key], index.rows[queue.key]
        for queue in self._dropped_in_batch:
            self._queues[queue.key] = queue
            index.rows[queue.key] = queue.row
        self._end_batch()

    def _begin_next_segment(self) -> None:
        # The batch is stored, so this must not raise. If the lock is lost, the next flush raises. After an error of the
        # disk the old segment grows, and the next flush tries again; a lasting error will soon make a write fail too.
        with contextlib.suppress(StoreLockLost, OSError):
            self._begin_segment()

    def _begin_segment(self) -> None:
        log = self._log
        self._durability.check_lock()
        ends = {key: queue.flushed_offset for key, queue in self._queues.items()}
        index = MemoryIndex(ends)
        head = encode_queue_table(ends, self._stored_ms) + encode_epochs(log.epochs, self._stored_ms)
        head += self._encode_names(self._names)
        log.begin_segment(log.written_position, head, index, now_ms=self._stored_ms, durable=False)
        for key, queue in self._queues.items():
            queue.row = index.rows[key]
        self._next_at = log.active.size
        self._rewrite_ends()
        if log.unfinished_count > _UNFINISHED_SEGMENTS_MAX:
            # Without a sync the indexes of finished segments would pile up in memory.
            with contextlib.suppress(StoreSyncFailed):
                self._durability.sync()
