"""The answer of a read of the store. Apart from the reader, because decisions that are pure take it. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class ReadStatus(Enum):
    """Outcome of a read. RocketMQ: GetMessageStatus."""

    FOUND = "found"
    """`body` holds at least one record."""
    NONE_MATCHED = "none matched"
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
