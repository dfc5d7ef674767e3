"""Segment: one file of the log, the names of the files beside it, and how far it is stored. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from broker.store.segments.index import MemoryIndex
from broker.store.segments.index_file import FileIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
KEYS_SUFFIX = ".keys"
_NAME_DIGITS = 20
_LOG_NAME = re.compile(r"(\d{20})\.log")


@dataclass(slots=True, kw_only=True, eq=False)
class Segment:
    """One file of the log, with the log position of its first byte."""

    base_position: int
    size: int  # bytes of whole records in it
    index: MemoryIndex | FileIndex  # in memory until the segment is finished and its index file written
    record_count: int = 0  # records, without those of the store itself; 0 if not known
    first_stored_ms: int = 0  # time of the first record, 0 before there is one
    last_stored_ms: int = 0  # time of the newest record, or of the segment's start
    synced_size: int = 0  # bytes of it that are known to be on the disk itself
    fd: int | None = None  # open while anything in it is not synced, so that an error of the disk is reported to us

    @property
    def name(self) -> str:
        """File name of the segment."""
        return segment_name(self.base_position)

    @property
    def index_name(self) -> str:
        """File name of its index."""
        return f"{self.base_position:0{_NAME_DIGITS}d}{INDEX_SUFFIX}"

    @property
    def keys_name(self) -> str:
        """File name of its table of terms, which the first search in it makes (`keys/file.py`)."""
        return f"{self.base_position:0{_NAME_DIGITS}d}{KEYS_SUFFIX}"

    @property
    def end_position(self) -> int:
        """Position after its last byte."""
        return self.base_position + self.size


def segment_name(base_position: int) -> str:
    """File name of the segment that begins at a log position."""
    return f"{base_position:0{_NAME_DIGITS}d}{LOG_SUFFIX}"


def segment_bases(names: Iterable[str]) -> list[int]:
    """Base positions of the segments among the names of a directory, sorted."""
    return sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if _LOG_NAME.fullmatch(name))
