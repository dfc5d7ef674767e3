"""Reads every record of a log, without its broker, and finds the segments that are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from broker.store.disk.files import Files
from broker.store.segments.index_file import HEADER_BYTES, IndexFileCorrupt, decode_header
from broker.store.segments.scan import measure
from broker.store.segments.segment import INDEX_SUFFIX, segment_bases, segment_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCheck:
    """The result of reading one segment; it is damaged if `damaged_at` is not None."""

    base_position: int
    end_position: int  # where it has to end; for the last segment the end of its file
    damaged_at: int | None  # log position of the first byte that is wrong, or missing


def check_segments(directory: Path, files: Files | None = None) -> Iterator[SegmentCheck]:
    """Read the segments of a data directory, one with each step, the oldest first; in any thread.

    The end of the last one is not checked: it may be in the middle of a write. A segment that is deleted while this
    runs is left out.

    Raises:
        OSError: while iterating: a file cannot be read.
    """
    files = files or Files()
    bases = segment_bases(files.list_names(directory))
    for base, next_base in zip(bases, [*bases[1:], None], strict=True):
        try:
            fd = files.open(directory / segment_name(base))
        except FileNotFoundError:
            continue
        try:
            size = files.size(fd)
            sizes = measure(partial(files.pread, fd), size)
        finally:
            files.close(fd)
        if next_base is None:
            end = base + size
            is_whole = sizes.whole_bytes == sizes.valid_bytes
        else:
            end = base + (_covered_bytes(directory, files, base) or next_base - base)
            is_whole = base + sizes.whole_bytes == end
        yield SegmentCheck(
            base_position=base, end_position=end, damaged_at=None if is_whole else base + sizes.whole_bytes
        )


def _covered_bytes(directory: Path, files: Files, base: int) -> int | None:
    """The bytes of a segment that its index file covers; None without a good one."""
    try:
        fd = files.open(directory / segment_name(base).replace(".log", INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    try:
        header = decode_header(files.pread(fd, HEADER_BYTES, 0))
    except IndexFileCorrupt:
        return None
    finally:
        files.close(fd)
    return header.covered_bytes if header.base_position == base else None
