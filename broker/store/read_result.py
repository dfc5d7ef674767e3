"""The results of reads and the state of a store. They are not in the reader, because pure modules need them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from broker.store.segments.index import LogKey


class ReadStatus(Enum):
    """Outcome of a read. RocketMQ: GetMessageStatus."""

    FOUND = "found"
    """`body` holds at least one record."""
    NO_MATCH = "none matched"
    """Records were skipped, by the filter or because they are damaged; ask again at once from `next_offset`."""
    NO_NEW = "no new"
    """The offset is the queue's end; also for offset 0 of a queue that has never had a message."""
    OFFSET_TOO_SMALL = "offset too small"
    """The messages there have been deleted; `next_offset` is the oldest that is left."""
    OFFSET_TOO_BIG = "offset too big"
    """The offset is beyond the queue's end; `next_offset` is the end."""


class ReadResult(NamedTuple):
    """Answer of `MessageStore.read`."""

    status: ReadStatus
    body: bytes  # `n` whole records back to back, for `model.record.iter_records`
    n: int
    next_offset: int  # where to go on. May be beyond the last record of `body`, when others were skipped
    min_offset: int
    max_offset: int  # the queue's end: the offset of the next message


class FirstNeeded(NamedTuple):
    """The oldest segment that is still needed, by its log position, and a queue with messages in it that are needed."""

    position: int
    key: LogKey


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatistics:
    """The state of a store at one moment; see the properties of `MessageStore`.

    Attributes:
        min_position: log position of the oldest byte stored.
        tail_bytes, index_cache_bytes: memory of recent records, and of loaded index parts.
        unfinished_segments: segments that wait for a sync or for their index file; 1, the one being written, is normal.
    """

    queues: int
    segments: int
    min_position: int
    written_position: int
    synced_position: int
    tail_bytes: int
    index_cache_bytes: int
    unfinished_segments: int
