"""Reads old records from the files: finds them by the index rows, fetches several at once, and verifies each.

Records of one queue are scattered among the records of other queues. Those that are close together are fetched with one
`pread`, and the bytes between them are thrown away: copying 16 KiB costs less than another system call.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import itemgetter
from struct import Struct
from zlib import crc32

from broker.store.damage import DamageLog
from broker.store.queue_state import QueueState
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.index import ENTRY, ENTRY_BYTES, IndexRow, LogKey
from broker.store.segments.segment import Segment
from model.record import CRC_FROM, HEADER_BYTES

_GAP_BYTES = 16 * 1024
"""Two records with more bytes than this between them are not fetched together."""
_FETCH_BYTES = 128 * 1024
"""A fetch of several records is at most this long; beyond it, larger blocks only cost more memory traffic."""

_Picked = list[tuple[int, int, int]]
"""(queue offset, position in the segment, length)."""

_unpack_checked = Struct(">IIIIQ").unpack_from
"""Length, checksum, topic, queue and offset at the start of a record's header, which have to agree with the index."""


class LogReader:
    """Reads records that are no longer in memory. Its methods raise `OSError` if a file cannot be read."""

    def __init__(self, log: CommitLog, damage: DamageLog, scan_records: int) -> None:
        self._log = log
        self._damage = damage
        self._scan_records = scan_records

    def read(
        self,
        queue: QueueState,
        offset: int,
        end_offset: int,
        *,
        max_n: int,
        max_bytes: int,
        tag_hashes: frozenset[int] | None,
    ) -> tuple[bytes, int, int]:
        """Read records of one queue in [offset, end_offset) from one segment, the first one however long it is.

        Returns:
            The records back to back, their number, and the offset at which the next read begins. If all records that
            were examined were filtered out or damaged, there is no record, and the offset is after them.
        """
        budget = self._scan_records
        while offset < end_offset and budget > 0:
            segment, row = self._locate(queue, offset)
            if offset < row.first_offset:
                self._report_gap(segment, queue.key, offset, row.first_offset)
                offset = row.first_offset
                continue
            look = min(end_offset - offset, budget)
            if tag_hashes is None:
                look = min(look, max_n)
            picked, next_offset = self._pick(segment, queue.key, row, offset, look, max_n, max_bytes, tag_hashes)
            budget -= next_offset - offset
            offset = next_offset
            body, count = self._fetch(segment, queue.key, picked)
            if count:
                return body, count, offset
        return b"", 0, offset

    def offset_at(self, queue: QueueState, timestamp_ms: int) -> int:
        """Return the first offset stored at or after a time; the queue's end if there is none.

        Times never decrease along the log, so one segment decides.
        """
        segments = self._log.segments
        number = bisect_left(segments, timestamp_ms, key=lambda segment: segment.last_stored_ms)
        if number == len(segments):
            return queue.end_offset
        row = self._log.row(segments[number], queue.key)
        # No row: the queue was created after this segment, so all its messages are later.
        offset = row.first_at_or_after(timestamp_ms) if row is not None else queue.min_offset
        return min(max(offset, queue.min_offset), queue.end_offset)

    def _locate(self, queue: QueueState, offset: int) -> tuple[Segment, IndexRow]:
        log = self._log
        key = queue.key
        segment = queue.last_read_segment
        if segment is not None:
            row = log.row(segment, key)
            if row is not None and row.first_offset <= offset < row.end_offset:
                return segment, row
        segments = log.segments
        number = bisect_right(segments, offset, key=lambda segment: log.first_offset(segment, key)) - 1
        for segment in segments[max(number, 0) :]:
            row = log.row(segment, key)
            if row is not None and offset < row.end_offset:
                queue.last_read_segment = segment
                return segment, row
        raise AssertionError(f"offset {offset} of queue {key} is below its end, but in no segment")

    def _report_gap(self, segment: Segment, key: LogKey, offset: int, end_offset: int) -> None:
        """Report the offsets that are missing at the end of the segment before, which was cut short or is gone."""
        segments = self._log.segments
        previous = segments[max(segments.index(segment) - 1, 0)]
        self._damage.add(previous.name, key, offset, end_offset)

    def _pick(
        self,
        segment: Segment,
        key: LogKey,
        row: IndexRow,
        offset: int,
        look: int,
        max_n: int,
        max_bytes: int,
        tag_hashes: frozenset[int] | None,
    ) -> tuple[_Picked, int]:
        """Choose from the index what to fetch; return it with the offset after the last entry looked at."""
        start_byte = (offset - row.first_offset) * ENTRY_BYTES
        entries = ENTRY.iter_unpack(row.entries[start_byte : start_byte + look * ENTRY_BYTES])
        if tag_hashes is None:
            # Nearly always all entries are picked. This way skips the loop below, a third of the time of such a read.
            positions, lengths, _, _ = columns = tuple(zip(*entries, strict=True))
            if 0 not in lengths:
                n = len(lengths) if sum(lengths) <= max_bytes else bisect_right([*accumulate(lengths)], max_bytes) or 1
                return list(zip(range(offset, offset + n), positions, lengths, strict=False)), offset + n
            entries = zip(*columns, strict=True)
        picked: _Picked = []
        size = 0
        for position, length, tag_hash, _ in entries:
            if length == 0:
                self._damage.add(segment.name, key, offset, offset + 1)
            elif tag_hashes is None or tag_hash in tag_hashes:
                size += length
                if picked and size > max_bytes:
                    break
                picked.append((offset, position, length))
                if len(picked) == max_n:
                    return picked, offset + 1
            offset += 1
        return picked, offset

    def _fetch(self, segment: Segment, key: LogKey, picked: _Picked) -> tuple[bytes, int]:
        parts: list[bytes] = []
        first = count = 0
        while first < len(picked):
            start = picked[first][1]
            after = bisect_right(picked, start + _FETCH_BYTES, first + 1, key=_stop)
            # Most often the bytes between all these records are fewer than one gap may have: then no gap is too long.
            if _stop(picked[after - 1]) - start - sum(map(_length_of, picked[first:after])) > _GAP_BYTES:
                after = _before_gap(picked, first, after)
            block = self._log.read(segment, _stop(picked[after - 1]) - start, start)
            count += self._verify(segment, key, picked[first:after], start, block, parts)
            first = after
        return b"".join(parts), count

    def _verify(
        self, segment: Segment, key: LogKey, picked: _Picked, start: int, block: bytes, parts: list[bytes]
    ) -> int:
        """Append to `parts` the records of a fetched block that match the index, and return how many; note the others.

        Records that are back to back, as in a batch, become one part: a slice of each would cost a quarter of the read.
        """
        view, size = memoryview(block), len(block)
        topic_id, queue_id = key
        count = run_start = run_stop = 0
        for offset, position, length in picked:
            frame_start = position - start
            stop = frame_start + length
            if (
                stop <= size
                and length >= HEADER_BYTES
                and _unpack_checked(block, frame_start)
                == (length, crc32(view[frame_start + CRC_FROM : stop]), topic_id, queue_id, offset)
            ):
                if frame_start != run_stop:
                    parts.append(block[run_start:run_stop])
                    run_start = frame_start
                run_stop = stop
                count += 1
            else:
                self._damage.add(segment.name, key, offset, offset + 1)
        parts.append(block[run_start:run_stop])
        return count


_length_of = itemgetter(2)


def _stop(record: tuple[int, int, int]) -> int:
    return record[1] + record[2]


def _before_gap(picked: _Picked, first: int, after: int) -> int:
    """The number of the first record behind a gap that is too long to be read with the others, or `after`."""
    return next((n for n in range(first + 1, after) if picked[n][1] - _stop(picked[n - 1]) > _GAP_BYTES), after)
