"""Salvage: keeps what a cut removes from the log of a follower, and reads it again.

These are the messages that an unclean election lost.

A cut at position 1400 of a log whose segments begin at 0, 900, 2000 and 3000 makes a folder with three files: the end
of the segment that is cut, named after position 1400, and the two later segments, unchanged.

    salvage/000001/...1400.log  ...2000.log  ...3000.log

Each cut has a folder of its own, with a number. The files have the format of segments; the first one begins
with records that name the topics in it. A broker never reads these files, and an operator may delete them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker.store.disk.files import TEMPORARY_SUFFIX, Files
from broker.store.segments.index import LogKey
from broker.store.segments.index_file import Read
from broker.store.segments.scan import TOPIC_NAMED, encode_topic_named, find_topic_names, walk
from broker.store.segments.segment import segment_bases, segment_name
from model.record import CONTROL_FLAG, StoredRecord, iter_records

SALVAGE_NAME = "salvage"
_COPY_BYTES = 1024 * 1024


class SalvagedRecord(NamedTuple):
    """One message that a cut removed, and its queue."""

    topic_id: int
    queue_id: int
    record: StoredRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedRange:
    """The messages of one queue that one cut removed.

    The new master may have stored other messages at these offsets.

    `topic` is the content of the newest record that names the topic, see `MessageStore.name_topic`; empty if there is
    none. `messages` is less than `end_offset - first_offset` if some are damaged.
    """

    salvage: int  # number of the folder
    topic_id: int
    topic: bytes
    queue_id: int
    first_offset: int
    end_offset: int
    messages: int


def salvage_folder(directory: Path, number: int) -> Path:
    """Folder of one cut in a data directory."""
    return directory / SALVAGE_NAME / f"{number:06d}"


def salvage_numbers(directory: Path, files: Files) -> list[int]:
    """Numbers of the folders in a data directory, sorted.

    Raises:
        OSError: the directory cannot be read.
    """
    try:
        return sorted(int(name) for name in files.list_names(directory / SALVAGE_NAME) if name.isdecimal())
    except FileNotFoundError:
        return []


def salvage_segment(directory: Path, files: Files, number: int, base: int) -> None:
    """Move a whole segment into a folder. Raises `OSError`.

    The caller syncs the directory once, after the last segment. If a cut was interrupted and is repeated, the moved
    segments are no longer there.
    """
    path = directory / segment_name(base)
    fd = files.open(path)
    try:
        files.sync(fd)
    finally:
        files.close(fd)
    files.rename(path, salvage_folder(directory, number) / path.name)


def salvage_tail(directory: Path, files: Files, number: int, base: int, fd: int, from_byte: int) -> None:
    """Copy the end of a segment, from a byte on, into a folder, durably, or replace the copy. Raises `OSError`."""
    read, size = partial(files.pread, fd), files.size(fd)
    topic_ids = {
        topic_id for _, _, topic_id, _, _, _, _, flags, _ in walk(read, size, from_byte) if not flags & CONTROL_FLAG
    }
    names = find_topic_names(read, size, topic_ids)
    head = b"".join([encode_topic_named(topic_id, 0, name) for topic_id, name in sorted(names.items())])
    target = salvage_folder(directory, number) / segment_name(base + from_byte)
    temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
    copy = files.open(temporary, create=True)
    try:
        files.truncate(copy, 0)
        files.write_all(copy, head, 0)
        for position in range(from_byte, size, _COPY_BYTES):
            files.write_all(copy, read(min(_COPY_BYTES, size - position), position), len(head) + position - from_byte)
        files.sync(copy)
    finally:
        files.close(copy)
    files.rename(temporary, target)
    files.sync_directory(target.parent)


def salvaged_records(directory: Path, number: int, files: Files | None = None) -> Iterator[SalvagedRecord]:
    """Yield the messages that one cut removed, in the order of the log, without those that are damaged.

    Raises:
        OSError: while iterating: a file cannot be read, or there is no folder of this number.
    """
    for read, size in _files_of(directory, number, files or Files()):
        for position, length, topic_id, queue_id, _, _, _, flags, _ in walk(read, size):
            if not flags & CONTROL_FLAG:
                for record in iter_records(read(length, position)):
                    yield SalvagedRecord(topic_id, queue_id, record)


def salvaged_ranges(directory: Path, number: int, files: Files | None = None) -> list[SalvagedRange]:
    """Return the messages that one cut removed, by queue, sorted. Reads all of them: seconds for a gigabyte.

    Raises:
        OSError: a file cannot be read, or there is no folder of this number.
    """
    names: dict[int, bytes] = {}
    ranges: dict[LogKey, tuple[int, int, int]] = {}
    for read, size in _files_of(directory, number, files or Files()):
        for _, _, topic_id, queue_id, offset, _, _, flags, payload in walk(read, size):
            if flags == TOPIC_NAMED:
                names[topic_id] = payload
            elif not flags & CONTROL_FLAG:
                first, end, n = ranges.get((topic_id, queue_id), (offset, offset, 0))
                ranges[topic_id, queue_id] = min(first, offset), max(end, offset + 1), n + 1
    return [
        SalvagedRange(
            salvage=number,
            topic_id=topic_id,
            topic=names.get(topic_id, b""),
            queue_id=queue_id,
            first_offset=first,
            end_offset=end,
            messages=n,
        )
        for (topic_id, queue_id), (first, end, n) in sorted(ranges.items())
    ]


def _files_of(directory: Path, number: int, files: Files) -> Iterator[tuple[Read, int]]:
    folder = salvage_folder(directory, number)
    for base in segment_bases(files.list_names(folder)):
        fd = files.open(folder / segment_name(base))
        try:
            yield partial(files.pread, fd), files.size(fd)
        finally:
            files.close(fd)
