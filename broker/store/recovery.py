"""Opens the log: finds the segments, trusts those with an index file, scans the others, cuts the torn tail.

A segment has an index file only if it was finished and synced (`segments/sync_job.py`), so a crash costs the scan of
the segment that was being written and of a few finished just before, however much is stored. Afterwards a new segment
is begun, which replaces the last one if that holds nothing but its head; an old one is never written again, so no index
file can be out of date.

Damage is recorded by segment and offset range, and all other messages are served. In the middle of the log the segments
themselves show it; at its ends the file of ends does (`ends.py`):

    |0: r0 r1 r2|100: r3 r4 r5|200: r6 r7|        the file of ends: the queue holds 0 to 7, the log ends at 260
    |100: r3 r4 r5|200: r6 ...                    0 to 2 are lost with a file, 7 with the end of one

A queue keeps its place although its last messages are lost: their offsets are never those of other messages. So does
the log: a file that is found again may be put back, and is used at the next start.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.store.damage import DamageLog
from broker.store.disk.errors import StoreEpochTooLow
from broker.store.ends import FILE_NAME as ENDS_NAME
from broker.store.ends import KnownEnds
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.epochs import Epoch, encode_epochs, with_epoch
from broker.store.segments.index import LogKey, MemoryIndex
from broker.store.segments.index_file import FileIndex
from broker.store.segments.scan import Scan, encode_queue_table
from broker.store.segments.segment import Segment, segment_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The findings and repairs of opening a store."""

    segments: int
    scanned_segments: int  # segments without a usable index file; their size and the messages found in them follow
    scanned_bytes: int
    scanned_records: int
    # Bytes in the middle of them that are not records; the damage log has the messages that were there.
    damaged_bytes: int
    cut_bytes: int  # torn tail that was cut off: the write that a crash interrupted, or the damaged end of the log
    damaged_messages: int  # acknowledged messages that were found to be damaged or missing
    ends_flaw: str  # why a loss at the ends of the log could not be detected; "" if it could


class Recovery:
    """One opening of a log; `run` fills in the offsets of each queue, and the time of the newest record (0: none)."""

    def __init__(self, log: CommitLog, damage: DamageLog, known_ends: KnownEnds | None) -> None:
        """`known_ends` is the content of the file of ends; None without one."""
        self.first_offsets: dict[LogKey, int] = {}
        self.end_offsets: dict[LogKey, int] = {}
        self.last_stored_ms = 0
        self.min_position = 0  # where the log begins, if no file is missing there
        self._log = log
        self._damage = damage
        self._known = known_ends
        self._end_position = 0
        self._last_is_empty = False
        self._scans: list[Scan] = []
        self._scanned_bytes = 0
        self._cut_bytes = 0

    def run(self, now_ms: int, epoch: tuple[int, int] | None = None) -> RecoveryReport:
        """Fill `log.segments` and begin the segment to write to; damage is in the damage log.

        The segment begins an epoch, given by its number and by the replica that writes it. Without one the log has no
        epochs from now on: it no longer belongs to a set.

        Raises:
            OSError: a file cannot be read or written.
            StoreEpochTooLow: the log has this epoch, or a later one.
        """
        log = self._log
        bases = log.clean_up()
        for number, base_position in enumerate(bases):
            self._add_segment(base_position, bases[number + 1] if number + 1 < len(bases) else None)
        if bases:
            self.end_offsets = log.ends(log.active)
            self.first_offsets = {key: log.first_offset(log.segments[0], key) for key in self.end_offsets}
        flaw = self._compare_ends(bases)
        known_epochs, epochs_end = log.history()
        if epoch is not None and known_epochs and epoch[0] <= known_epochs[-1].number:
            raise StoreEpochTooLow(
                f"{log.directory} has epoch {known_epochs[-1].number} of its set, so epoch {epoch[0]} cannot begin: "
                "the register of the set is an older copy; restore the newest one"
            )
        is_of_set = bool(known_epochs) and epochs_end >= log.written_position
        if self._last_is_empty and (epoch is None or not is_of_set):  # else other replicas have these bytes, too
            # The new segment gets the name of the last one, and replaces its file in one step.
            self._end_position = log.active.base_position
            log.drop(log.active)
        if epoch is not None:
            # A segment without epochs that stays at the end of the log was not written by a master of the set.
            is_known = not log.segments or epochs_end >= log.written_position
            log.epochs = with_epoch(known_epochs if is_known else (), Epoch(epoch[0], self._end_position, epoch[1]))
        now_ms = max(now_ms, self.last_stored_ms)
        head = encode_queue_table(self.end_offsets, now_ms) + encode_epochs(log.epochs, now_ms)
        log.begin_segment(self._end_position, head, MemoryIndex(self.end_offsets), now_ms=now_ms, durable=True)
        return RecoveryReport(
            segments=len(bases),
            scanned_segments=len(self._scans),
            scanned_bytes=self._scanned_bytes,
            scanned_records=sum(scan.record_count for scan in self._scans),
            damaged_bytes=sum(scan.damaged_bytes for scan in self._scans),
            cut_bytes=self._cut_bytes,
            damaged_messages=sum(self._damage.total(key) for key in self.end_offsets),
            ends_flaw=flaw,
        )

    def _add_segment(self, base_position: int, next_base: int | None) -> None:
        log = self._log
        previous = log.segments[-1] if log.segments else None
        segment = Segment(base_position=base_position, size=0, index=MemoryIndex({}))
        log.add(segment)
        segment.fd = log.files.open(log.directory / segment.name)
        file_size = log.files.size(segment.fd)
        segment.size = file_size if next_base is None else min(file_size, next_base - base_position)
        has_gap = self._end_position != base_position
        if not self._use_index(segment, next_base):
            self._scan(segment, file_size, is_last=next_base is None)
        segment.last_stored_ms = self.last_stored_ms = max(segment.last_stored_ms, self.last_stored_ms)
        if previous is not None and (has_gap or isinstance(previous.index, MemoryIndex)):
            self._record_lost_end(previous, segment)

    def _use_index(self, segment: Segment, next_base: int | None) -> bool:
        """Trust the index file, if it covers the records of the segment and does not go beyond the segment's size."""
        log = self._log
        header = log.load_index(segment)
        if header is None or header.covered_bytes < segment.size:
            return False
        if next_base is not None and segment.base_position + header.covered_bytes > next_base:
            return False
        self._end_position = segment.base_position + header.covered_bytes
        segment.last_stored_ms = header.last_stored_ms
        log.settle(segment)
        if header.hole_count or header.covered_bytes > segment.size:
            self._record_lost_records(segment)
        return True

    def _scan(self, segment: Segment, file_size: int, *, is_last: bool) -> None:
        log = self._log
        self._scanned_bytes += segment.size
        scan = log.scan(segment)
        self._scans.append(scan)
        segment.index = scan.index
        segment.first_stored_ms = scan.first_stored_ms
        segment.last_stored_ms = scan.last_stored_ms
        segment.record_count = scan.record_count
        if is_last and file_size > scan.valid_bytes:
            assert segment.fd is not None
            log.files.truncate(segment.fd, scan.valid_bytes)
            segment.size = scan.valid_bytes
            self._cut_bytes = file_size - scan.valid_bytes
        self._last_is_empty = is_last and scan.record_count == 0
        self._end_position = segment.end_position
        if scan.index.hole_count:
            self._record_lost_records(segment)

    def _compare_ends(self, bases: list[int]) -> str:
        """Compare the recovered queues with the file of ends; returns why that cannot be done in full, or ""."""
        known_ends, log = self._known, self._log
        self.min_position = bases[0] if bases else 0
        if known_ends is None:
            # As at the first start, and at the first one of a version that has the file.
            return f"{ENDS_NAME} is missing" if bases else ""
        if bases and known_ends.position < bases[0]:
            return f"{ENDS_NAME} is older than the log"
        self._compare_firsts(known_ends, bases)
        found_position = log.written_position if bases else 0
        lost_ends = {key: end for key, end in known_ends.ends.items() if end > self._end_of(key)}
        if lost_ends:
            self._record_lost_ends(lost_ends, is_cut=known_ends.position > found_position)
        return f"{ENDS_NAME} {known_ends.flaw}" if known_ends.flaw else ""

    def _end_of(self, key: LogKey) -> int:
        """The end of a queue; without any message left, the offset of its first message."""
        first = 0 if self._known is None else self._known.firsts.get(key, 0)
        return max(self.end_offsets.get(key, 0), first)

    def _compare_firsts(self, known_ends: KnownEnds, bases: list[int]) -> None:
        if bases and known_ends.min_position > bases[0]:
            return  # the end came between the note of a removal and the removal
        missing = bool(known_ends.firsts) and (not bases or known_ends.min_position < bases[0])
        if missing or bases:
            self.min_position = known_ends.min_position if missing else bases[0]
        for key, first in known_ends.firsts.items():
            first_on_disk = self.first_offsets.get(key)
            if first_on_disk is not None and first < first_on_disk:
                self._damage.add(segment_name(self.min_position), key, first, first_on_disk)
                self.first_offsets[key] = first

    def _record_lost_ends(self, lost_ends: dict[LogKey, int], *, is_cut: bool) -> None:
        """Record the lost end of each queue, and let the queue and the log continue after it.

        With `is_cut`, the next segment begins where the lost bytes ended: every later start sees that gap.
        """
        known_ends, log = self._known, self._log
        assert known_ends is not None
        last = log.active if log.segments else None
        is_whole = last is not None and self._is_whole(last)
        # A file that is whole was followed by another one, which is gone.
        name = (
            segment_name(self._end_position if is_whole else known_ends.min_position)
            if last is None or is_whole
            else last.name
        )
        for key, end_offset in lost_ends.items():
            first_offset = self._end_of(key)
            self._damage.add(name, key, first_offset, end_offset)
            self.end_offsets[key] = end_offset
            self.first_offsets.setdefault(key, min(known_ends.firsts.get(key, 0), first_offset))
            if last is not None and isinstance(last.index, MemoryIndex):
                # Its index file is still to be written: with the holes in it, every later start names this file.
                row = last.index.row(key) or last.index.add_row(key, first_offset)
                last.index.add_holes(row, end_offset - first_offset, last.last_stored_ms)
        if is_cut:
            self._last_is_empty = False  # its name stays its own
            self._end_position = known_ends.position

    def _is_whole(self, segment: Segment) -> bool:
        index = segment.index
        return isinstance(index, FileIndex) and index.header.covered_bytes == segment.size

    def _record_lost_end(self, previous: Segment, segment: Segment) -> None:
        """Compare where the queues ended in one segment with where they go on in the next."""
        log = self._log
        previous_ends = log.ends(previous)
        is_whole = self._is_whole(previous)
        name = segment_name(previous.base_position + previous.size) if is_whole else previous.name
        for key in log.ends(segment):
            end_offset = previous_ends.get(key, 0)
            first_offset = log.first_offset(segment, key)
            if first_offset <= end_offset:
                continue
            self._damage.add(name, key, end_offset, first_offset)
            if isinstance(previous.index, MemoryIndex):
                # Its index file is still to be written: with the holes in it, the loss is known at every later start.
                row = previous.index.row(key) or previous.index.add_row(key, 0)
                previous.index.add_holes(row, first_offset - end_offset, previous.last_stored_ms)

    def _record_lost_records(self, segment: Segment) -> None:
        log = self._log
        for key in log.ends(segment):
            row = log.row(segment, key)
            assert row is not None
            for first_offset, end_offset in row.lost_ranges(segment.size):
                self._damage.add(segment.name, key, first_offset, end_offset)
