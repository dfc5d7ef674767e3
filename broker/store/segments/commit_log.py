"""The log: segments of records, one after the other; only the last is written.

A record's place is its *position*: the number of bytes written before it since the store began. A segment is named
after the position of its first byte, so positions stay valid when old segments are removed. RocketMQ: CommitLog,
MappedFileQueue.

Files are read with `pread`, not mapped: a mapped page that the disk cannot deliver kills the process with SIGBUS
instead of raising, mapped pages count as the broker's memory, and a test could not stand in for the disk. The
system's page cache already reads ahead, so the store keeps no blocks of its own.
"""

from __future__ import annotations

import contextlib
import errno
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from broker.store.disk.files import TEMPORARY_SUFFIX, Files
from broker.store.disk.options import StoreOptions
from broker.store.segments.epochs import Epoch, LogHistory, read_head
from broker.store.segments.index import IndexRow, LogKey, MemoryIndex
from broker.store.segments.index_file import (
    HEADER_BYTES,
    FileIndex,
    IndexFileCorrupt,
    IndexHeader,
    PartCache,
    decode_header,
)
from broker.store.segments.scan import Scan, find_topic_names, scan_segment
from broker.store.segments.segment import INDEX_SUFFIX, KEYS_SUFFIX, LOG_SUFFIX, Segment, segment_bases
from broker.store.segments.sync_job import SegmentSync, SyncJob

_T = TypeVar("_T")

_SEGMENTS_FOR_NAMES = 8
"""Maximum number of segments that are searched for the names of topics.

One segment with messages names every topic; the others are read if that one is damaged. The logs of earlier versions
have no names.
"""


class CommitLog:
    """The segments of one store, oldest first. A method that touches a file may raise `OSError`."""

    def __init__(self, directory: Path, files: Files, options: StoreOptions) -> None:
        self.directory = directory
        self.files = files
        self.segments: list[Segment] = []  # all of them; the last one is being written (none before recovery has run)
        self.epochs: tuple[Epoch, ...] = ()  # the head of each new segment repeats them; none outside a set
        self.parts = PartCache(options.index_cache_bytes)  # cache of the index files
        self._open_files_max = options.open_files
        self._open: OrderedDict[str, int] = OrderedDict()
        self.synced_position = 0  # everything before this log position is known to be on the disk itself
        self._tail_is_dirty = False
        self._unfinished: dict[Segment, None] = {}
        self._has_new_names = True  # at the start, too: the process before may have been killed before it synced names

    @property
    def active(self) -> Segment:
        """The segment that is being written."""
        return self.segments[-1]

    @property
    def min_position(self) -> int:
        """Position of the oldest byte."""
        return self.segments[0].base_position

    @property
    def written_position(self) -> int:
        """Position after the newest byte."""
        return self.segments[-1].end_position

    def clean_up(self) -> list[int]:
        """Return the base positions of the segments; remove unfinished files, and files that belong to no segment."""
        names = self.files.list_names(self.directory)
        for name in names:
            stem, dot, suffix = name.rpartition(".")
            is_orphan = dot + suffix in (INDEX_SUFFIX, KEYS_SUFFIX) and stem + LOG_SUFFIX not in names
            if is_orphan or name.endswith(TEMPORARY_SUFFIX):
                self.files.remove(self.directory / name)
        return segment_bases(names)

    # --- writing -----------------------------------------------------------------------------------------------------

    def begin_segment(
        self, base_position: int, head: bytes, index: MemoryIndex, *, now_ms: int, durable: bool
    ) -> Segment:
        """Make a new segment, which is the active one from now on.

        The file appears with its head, the queue table, complete or not at all; after an OSError the old segment is
        still active and can be written. The index has a row for each queue in the table.
        """
        segment = Segment(base_position=base_position, size=len(head), index=index, last_stored_ms=now_ms)
        segment.fd = self.files.create(self.directory / segment.name, head, durable=durable)
        segment.synced_size = segment.size if durable else 0
        self.add(segment)
        self._has_new_names = True
        return segment

    def add(self, segment: Segment) -> None:
        """Add a segment as the newest."""
        self.segments.append(segment)
        self._unfinished[segment] = None

    def settle(self, segment: Segment) -> None:
        """Count a segment that was found with a good index file as durable: the index proves it."""
        segment.synced_size = segment.size
        self.close_file(segment)
        self._unfinished.pop(segment, None)

    def drop_index(self, segment: Segment) -> None:
        """Remove the index file of a segment, and its table of terms, because its bytes change."""
        self._forget(segment, segment.name, segment.index_name)
        segment.index = MemoryIndex({})
        self._unfinished[segment] = None
        self.files.remove(self.directory / segment.index_name)
        self.files.remove(self.directory / segment.keys_name)

    def append(self, data: bytes) -> None:
        """Write a batch of whole records at the end of the log: all of it or nothing.

        Raises:
            OSError: nothing was written, or a part that is cut off again before the next write.
        """
        active = self.segments[-1]
        assert active.fd is not None
        if self._tail_is_dirty:
            self._cut_tail()
        try:
            self.files.write_all(active.fd, data, active.size)
        except OSError:
            # A part may be there. It must not stay: a later, shorter batch would leave the rest of it behind itself, to
            # be found by the scan after a crash. If even this fails now, it is tried again before anything is written.
            self._tail_is_dirty = True
            with contextlib.suppress(OSError):
                self._cut_tail()
            raise
        active.size += len(data)

    def _cut_tail(self) -> None:
        active = self.segments[-1]
        assert active.fd is not None
        self.files.truncate(active.fd, active.size)
        self._tail_is_dirty = False

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, segment: Segment, length: int, position: int) -> bytes:
        """Read bytes at a position inside a segment; fewer at the end of its file."""
        fd = segment.fd if segment.fd is not None else self._open_file(segment.name)
        return self.files.pread(fd, length, position)

    def bytes_at(self, position: int, max_bytes: int) -> tuple[bytes, int]:
        """Read the bytes of one segment from a log position on; see `MessageStore.log_bytes`."""
        number = max(bisect_right(self.segments, position, key=lambda each: each.base_position) - 1, 0)
        while position >= self.segments[number].end_position and number + 1 < len(self.segments):
            number += 1
        segment = self.segments[number]
        start = max(position - segment.base_position, 0)
        length = min(max_bytes, segment.size - start)
        data = self.read(segment, length, start) if length > 0 else b""
        if len(data) < length:
            raise OSError(errno.EIO, f"{segment.name} ends at byte {start + len(data)} of {segment.size}")
        return data, segment.base_position

    def index_bytes(self, base_position: int) -> bytes | None:
        """Read the index file of a segment as a whole; see `MessageStore.index_bytes`."""
        segment = next((each for each in self.segments if each.base_position == base_position), None)
        if segment is None or not isinstance(segment.index, FileIndex):
            return None
        fd = self.files.open(self.directory / segment.index_name)
        try:
            return self.files.pread(fd, self.files.size(fd), 0)
        finally:
            self.files.close(fd)

    def history(self) -> LogHistory:
        """Return the epochs of this log; none if its newest messages were written without one, outside a set.

        A last segment that ends within its head, or holds nothing else, does not count if it has no epochs: the history
        is the one of the segment before, and ends where the last segment begins.
        """
        end_position = self.written_position if self.segments else 0
        for segment in reversed(self.segments):
            head = read_head(partial(self.read, segment), segment.size)
            if head.epochs:
                return LogHistory(head.epochs, end_position)
            if head.has_messages:
                break
            end_position = segment.base_position
        return LogHistory((), self.written_position if self.segments else 0)

    def row(self, segment: Segment, key: LogKey) -> IndexRow | None:
        """Return a queue's row in the index of a segment. One in a bad index file is rebuilt from the segment."""
        return self._with_index(segment, lambda index: index.row(key))

    def first_offset(self, segment: Segment, key: LogKey) -> int:
        """Return the first offset of a queue's row, see `MemoryIndex.first_offset`; rebuilds as `row` does."""
        return self._with_index(segment, lambda index: index.first_offset(key))

    def firsts(self, segment: Segment) -> dict[LogKey, int]:
        """Return each queue's first offset in a segment; rebuilds as `row` does."""
        return self._with_index(segment, lambda index: index.firsts())

    def ends(self, segment: Segment) -> dict[LogKey, int]:
        """Return each queue's end in a segment; rebuilds as `row` does."""
        return self._with_index(segment, lambda index: index.ends())

    def _with_index(self, segment: Segment, ask: Callable[[MemoryIndex | FileIndex], _T]) -> _T:
        try:
            return ask(segment.index)
        except (IndexFileCorrupt, FileNotFoundError):
            segment.index = self.scan(segment).index
            self._unfinished[segment] = None
            return ask(segment.index)

    def scan(self, segment: Segment) -> Scan:
        """Read a whole segment and rebuild its index."""
        number = bisect_left(self.segments, segment.base_position, key=lambda other: other.base_position)
        ends_before = self.ends(self.segments[number - 1]) if number else None
        return scan_segment(lambda length, position: self.read(segment, length, position), segment.size, ends_before)

    def load_index(self, segment: Segment) -> IndexHeader | None:
        """Use the index file of a finished segment; None, and nothing changed, if there is no good one of this segment.

        An OSError means that the file is there but cannot be read.
        """
        try:
            header = decode_header(self._read_index(segment, HEADER_BYTES, 0))
        except (IndexFileCorrupt, FileNotFoundError):
            return None
        if header.base_position != segment.base_position:
            return None
        self.use_index_file(segment, header)
        return header

    def use_index_file(self, segment: Segment, header: IndexHeader) -> None:
        """Read the index of a segment from its file from now on, and from nothing that was loaded of an older file."""
        self._forget(segment, segment.index_name)
        segment.index = FileIndex(
            header, lambda length, position: self._read_index(segment, length, position), self.parts
        )

    def _read_index(self, segment: Segment, length: int, position: int) -> bytes:
        return self.files.pread(self._open_file(segment.index_name), length, position)

    def _open_file(self, name: str) -> int:
        fd = self._open.get(name)
        if fd is not None:
            self._open.move_to_end(name)
            return fd
        fd = self._open[name] = self.files.open(self.directory / name)
        if len(self._open) > self._open_files_max:
            _, oldest = self._open.popitem(last=False)
            self.files.close(oldest)
        return fd

    def topic_names(self, topic_ids: Collection[int]) -> dict[int, bytes]:
        """Return topic id -> name of the wanted topics, if the newest segments have it; reads these as a whole."""
        names: dict[int, bytes] = {}
        for segment in self.segments[: -1 - _SEGMENTS_FOR_NAMES : -1]:
            missing = set(topic_ids) - names.keys()
            if missing:
                names |= find_topic_names(partial(self.read, segment), segment.size, missing)
        return names

    # --- syncing -----------------------------------------------------------------------------------------------------

    def begin_sync(
        self, *, finish_active: bool = False, indexes: bool = True, copied: Mapping[int, bytes] | None = None
    ) -> SyncJob:
        """Collect the segments that are not durable yet, and, with `indexes`, the finished ones without an index file.

        With `finish_active`, the active segment will not be written again, and gets its index file too. With `copied`,
        a segment gets the index file that another broker wrote for it, by its base position, and no other one.
        """
        work: list[SegmentSync] = []
        try:
            for segment in self._unfinished:
                index: MemoryIndex | bytes | None
                needs_sync = segment.synced_size < segment.size
                is_finished = indexes and (segment is not self.active or (finish_active and segment.record_count > 0))
                index = segment.index if is_finished and isinstance(segment.index, MemoryIndex) else None
                if copied is not None:
                    index = copied.get(segment.base_position)
                if needs_sync or index is not None:
                    assert segment.fd is not None or not needs_sync, f"{segment.name} was closed before it was synced"
                    work.append(
                        SegmentSync(
                            segment=segment,
                            size=segment.size,
                            fd=self.files.duplicate(segment.fd) if needs_sync and segment.fd is not None else None,
                            index=index,
                            index_path=self.directory / segment.index_name,
                            last_stored_ms=segment.last_stored_ms,
                        )
                    )
        except OSError:
            for item in work:
                item.close(self.files)
            raise
        directory = self.directory if self._has_new_names else None
        self._has_new_names = False
        return SyncJob(self.files, self.written_position, work, directory)

    def finish_sync(self, job: SyncJob) -> None:
        """Record what a successful job has done."""
        self.synced_position = max(self.synced_position, job.position)
        for synced in job.work:
            segment = synced.segment
            if segment not in self._unfinished:
                # It was removed while the job was running, which has written an index for nothing.
                with contextlib.suppress(OSError):
                    self.files.remove(synced.index_path)
                continue
            segment.synced_size = max(segment.synced_size, synced.size)
            if synced.header is not None:
                self.use_index_file(segment, synced.header)
            if segment is not self.active and isinstance(segment.index, FileIndex):
                self.close_file(segment)
                del self._unfinished[segment]

    @property
    def unfinished_count(self) -> int:
        """Segments that wait for a sync, with the active one."""
        return len(self._unfinished)

    # --- removing ----------------------------------------------------------------------------------------------------

    def remove_oldest(self, free_space: Callable[[int], None] | None = None) -> None:
        """Remove the oldest segment, which must not be the active one.

        The log file goes first: an index without its segment is removed when the store is opened, while a segment
        without its index would be scanned.

        `free_space` is called with a descriptor of the log file, and closes it; see `MessageStore.trim`. The segment
        stays if its file cannot be removed.
        """
        assert len(self.segments) > 1, "the segment being written cannot be removed"
        segment = self.segments[0]
        last = None
        if free_space is not None:
            with contextlib.suppress(OSError):  # without it the removal only takes longer
                last = self.files.open(self.directory / segment.name)
        try:
            self.files.remove(self.directory / segment.name)
        finally:
            if free_space is not None and last is not None:
                free_space(last)
        self.drop(segment)

    def drop(self, segment: Segment) -> None:
        """Forget a segment, with everything about it but its log file."""
        self.segments.remove(segment)
        self._unfinished.pop(segment, None)
        self.close_file(segment)
        self._forget(segment, segment.name, segment.index_name)
        self.files.remove(self.directory / segment.index_name)
        self.files.remove(self.directory / segment.keys_name)

    def _forget(self, segment: Segment, *names: str) -> None:
        self.parts.forget(segment.base_position)
        for name in names:
            fd = self._open.pop(name, None)
            if fd is not None:
                self.files.close(fd)

    def close_file(self, segment: Segment) -> None:
        """Close the descriptor that a segment holds while it is not synced."""
        if segment.fd is not None:
            self.files.close(segment.fd)
            segment.fd = None

    def close(self) -> None:
        """Close all files."""
        for segment in self.segments:
            self.close_file(segment)
        while self._open:
            _, fd = self._open.popitem()
            self.files.close(fd)
