"""Finds records by a term, segment by segment, the newest first. RocketMQ: IndexService.

Sends cost nothing more for this: keys are read by the first search. The first search that comes to a finished segment
reads all of it and leaves a file beside it (`file.py`); later ones read a few KiB of that. The table of the segment
that is being written is kept in memory, and each search adds the messages stored since the last one.

A search is an iterator, each step of which is about a millisecond of work for a worker thread; in between the event
loop runs, so neither the lock of the interpreter nor a slow disk keeps it from its clients. What the loop does in the
meantime is harmless: a segment is opened by the search itself, and one that was removed is passed over.

The caller decides what a term is: `terms_of` returns the terms of a record, for the table and to check candidates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from broker.store.disk.files import TEMPORARY_SUFFIX, Files
from broker.store.keys.file import KeyFile, KeyFileCorrupt, KeyTable, encode_keys
from broker.store.segments.commit_log import CommitLog
from broker.store.segments.index_file import FileIndex
from broker.store.segments.scan import walk
from model.record import CONTROL_FLAG, HEADER, RecordCorrupt, check_record

TermsOf = Callable[[int, int, bytes], Collection[bytes]]
"""(topic_id, queue_id, payload) -> the terms of the record."""

_STEP_RECORDS = 128
"""About half a millisecond of work, the longest that a step may keep the interpreter's lock from the event loop."""
_TABLES_KEPT = 2
"""The segment being written, and the one before it whose index is not written yet, or that a search was left at."""
_FIRST_READ_BYTES = 4096


class FoundRecord(NamedTuple):
    """A record that has the term, at a log position; `record` is all of its bytes, verified."""

    position: int
    topic_id: int
    queue_id: int
    queue_offset: int
    stored_ms: int
    record: bytes


class Progress(NamedTuple):
    """One step: everything from log position `position` on has been searched; a later search continues before it."""

    found: FoundRecord | None
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentView:
    """A segment at the moment at which the search began.

    `size` counts whole records. One that `is_settled` will never change, not even by a loss of power.
    """

    path: Path
    keys_path: Path
    base_position: int
    size: int
    is_settled: bool


def segment_views(log: CommitLog, *, begin_ms: int, end_ms: int, end_position: int) -> list[SegmentView]:
    """Choose the segments that may hold records of a time before a log position, the newest first.

    To be called on the event loop; both times are included.
    """
    views = []
    for number in range(len(log.segments) - 1, -1, -1):
        segment = log.segments[number]
        if segment.last_stored_ms < begin_ms:
            break  # times never decrease along the log
        starts_after = number > 0 and log.segments[number - 1].last_stored_ms > end_ms
        if starts_after or segment.base_position >= end_position:
            continue
        views.append(
            SegmentView(
                path=log.directory / segment.name,
                keys_path=log.directory / segment.keys_name,
                base_position=segment.base_position,
                size=segment.size,
                is_settled=segment is not log.active and isinstance(segment.index, FileIndex),
            )
        )
    return views


class KeySearcher:
    """Searches the log of one store; one search at a time, its steps in any thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._tables: dict[int, KeyTable] = {}

    def search(
        self, views: Iterable[SegmentView], term: bytes, terms_of: TermsOf, end_position: int
    ) -> Generator[Progress, None, None]:
        """Find the records before a log position that have a term, the newest first; yields its steps.

        The views are newest first too, and `terms_of` always gives the same terms for the same record. Close the
        iterator if it is not used up: it holds a file open.

        Raises:
            OSError: while iterating: a segment cannot be read.
        """
        for view in views:
            try:
                fd = self._files.open(view.path)
            except FileNotFoundError:
                continue  # removed since the search began: its records are gone for every reader
            try:
                yield from self._search_one(view, fd, term, terms_of, end_position)
            finally:
                self._files.close(fd)

    def _search_one(
        self, view: SegmentView, fd: int, term: bytes, terms_of: TermsOf, end_position: int
    ) -> Iterator[Progress]:
        first_end = min(end_position, view.base_position + view.size)
        positions = self._look_up(view, term) if view.is_settled else None
        if positions is None:
            positions = yield from self._index(view, fd, term, terms_of, first_end)
        # A record two of whose terms have the same hash is in the table twice.
        for number, position in enumerate(dict.fromkeys(positions), 1):
            record_position = view.base_position + position
            if record_position < end_position:
                entry = self._read(view, fd, position, term, terms_of)
                if entry is not None or number % _STEP_RECORDS == 0:
                    yield Progress(entry, record_position)
        yield Progress(None, view.base_position)

    def _look_up(self, view: SegmentView, term: bytes) -> list[int] | None:
        """Look the term up in the key file of a segment; None if there is no usable one."""
        try:
            fd = self._files.open(view.keys_path)
            try:
                file = KeyFile(
                    lambda length, position: self._files.pread(fd, length, position), view.base_position, view.size
                )
                return file.positions(term)
            finally:
                self._files.close(fd)
        except (KeyFileCorrupt, OSError):
            return None  # the segment itself has the answer

    def _index(
        self, view: SegmentView, fd: int, term: bytes, terms_of: TermsOf, first_end: int
    ) -> Generator[Progress, None, list[int]]:
        """Bring the table of a segment up to date, and ask it."""
        table = self._tables.pop(view.base_position, None) or KeyTable()
        self._tables[view.base_position] = table
        while len(self._tables) > _TABLES_KEPT:
            del self._tables[next(iter(self._tables))]
        for number, (end, position, terms) in enumerate(self._terms(view, fd, table.end, terms_of), 1):
            for each in terms:
                table.add(each, position)
            table.end = end
            if table.overfull:
                break
            if number % _STEP_RECORDS == 0:
                yield Progress(None, first_end)
        if table.overfull:
            self._tables.pop(view.base_position, None)
            return (yield from self._scan(view, fd, term, terms_of, first_end))
        if view.is_settled:
            self._tables.pop(view.base_position, None)
            self._write(view, table)
        return table.positions(term)

    def _scan(
        self, view: SegmentView, fd: int, term: bytes, terms_of: TermsOf, first_end: int
    ) -> Generator[Progress, None, list[int]]:
        """Search a segment with more terms than a table may have."""
        positions = []
        for number, (_, position, terms) in enumerate(self._terms(view, fd, 0, terms_of), 1):
            if term in terms:
                positions.append(position)
            if number % _STEP_RECORDS == 0:
                yield Progress(None, first_end)
        return positions[::-1]

    def _terms(
        self, view: SegmentView, fd: int, start: int, terms_of: TermsOf
    ) -> Iterator[tuple[int, int, Collection[bytes]]]:
        """Yield (end, position, terms) of each record of a segment."""
        records = walk(
            lambda length, position: self._files.pread(fd, length, position), view.size, start, with_payloads=True
        )
        for position, length, topic_id, queue_id, _, _, _, flags, payload in records:
            yield position + length, position, () if flags & CONTROL_FLAG else terms_of(topic_id, queue_id, payload)

    def _write(self, view: SegmentView, table: KeyTable) -> None:
        """Write the table for the next search. It only repeats the segment, so a failure does no harm."""
        data = encode_keys(table, base_position=view.base_position, covered_bytes=view.size)
        try:
            self._files.replace(view.keys_path, data, durable=False)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.remove(view.keys_path.with_name(view.keys_path.name + TEMPORARY_SUFFIX))
            return
        try:
            self._files.close(self._files.open(view.path))
        except FileNotFoundError:
            # The segment was removed while we wrote; its removal came too early to take this file along.
            with contextlib.suppress(OSError):
                self._files.remove(view.keys_path)

    def _read(self, view: SegmentView, fd: int, position: int, term: bytes, terms_of: TermsOf) -> FoundRecord | None:
        """Read a candidate; None if it does not have the term, or is damaged."""
        data = self._files.pread(fd, min(_FIRST_READ_BYTES, view.size - position), position)
        if len(data) < HEADER.size:
            return None
        length, _, topic_id, queue_id, queue_offset, stored_ms, _, flags, _ = HEADER.unpack_from(data)
        if length > len(data):
            if position + length > view.size:
                return None
            data = self._files.pread(fd, length, position)
        try:
            record = data[: check_record(data)]
        except RecordCorrupt:
            return None
        if flags & CONTROL_FLAG or term not in terms_of(topic_id, queue_id, record[HEADER.size :]):
            return None
        return FoundRecord(view.base_position + position, topic_id, queue_id, queue_offset, stored_ms, record)
