"""Reads the messages of a pop from the store: new ones from an offset on, and due ones at any offsets.

Both kinds of reads also report the offsets without a message: retention has deleted it, or it is damaged. The caller
acknowledges such offsets, or the group would wait for them for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.messages.matching import read_matching
from broker.store.message_store import MessageStore
from broker.store.read_result import ReadResult, ReadStatus
from model.record import HEADER_BYTES, StoredRecord, iter_records
from model.sql.compiled import Matches


class NewMessages(NamedTuple):
    """The result of `read_new_messages`: messages from an offset on."""

    body: bytes  # their stored records
    offsets: Sequence[int]  # of those records
    upto: int  # messages below it that are not in `offsets` do not match the filter, or no longer exist
    result: ReadResult  # the store's result

    @property
    def is_moved(self) -> bool:
        """Whether messages were deleted that the group had still to read."""
        return self.result.status is ReadStatus.OFFSET_TOO_SMALL


def read_new_messages(
    store: MessageStore,
    topic_id: int,
    queue_id: int,
    first: int,
    *,
    max_n: int,
    max_bytes: int,
    tag_hashes: frozenset[int] | None = None,
    matches: Matches | None = None,
) -> NewMessages:
    """Read messages from an offset on.

    Raises:
        StoreReadFailed: an I/O error.
    """
    if matches is None:
        result = store.read(topic_id, queue_id, first, max_n=max_n, max_bytes=max_bytes, tag_hashes=tag_hashes)
    else:
        result = read_matching(store, topic_id, queue_id, first, max_n=max_n, max_bytes=max_bytes, matches=matches)
    if result.status is ReadStatus.FOUND:
        if result.next_offset == first + result.n:
            return NewMessages(result.body, range(first, result.next_offset), result.next_offset, result)
        return NewMessages(result.body, [r.queue_offset for r in iter_records(result.body)], result.next_offset, result)
    passed = result.status in (ReadStatus.NO_MATCH, ReadStatus.OFFSET_TOO_SMALL)
    return NewMessages(b"", (), result.next_offset if passed else first, result)


class DueRead(NamedTuple):
    """The result of `read_due`: messages to be redelivered."""

    bodies: list[bytes]  # stored records
    offsets: list[int]  # of those records, ascending
    gone: list[int]  # offsets whose messages no longer exist
    # The first of them that was deleted by retention, and the result of that read; or None.
    moved: tuple[int, ReadResult] | None


def read_due(store: MessageStore, topic_id: int, queue_id: int, offsets: Sequence[int], *, max_bytes: int) -> DueRead:
    """Read messages at ascending offsets, up to the one with which their records reach `max_bytes`.

    Raises:
        StoreReadFailed: an I/O error.
    """
    bodies: list[bytes] = []
    delivered: list[int] = []
    gone_offsets: list[int] = []
    first_move: tuple[int, ReadResult] | None = None
    i = 0
    while i < len(offsets) and (max_bytes > 0 or not delivered):
        first, n = offsets[i], 1
        while i + n < len(offsets) and offsets[i + n] == first + n:
            n += 1
        run = read_new_messages(store, topic_id, queue_id, first, max_n=n, max_bytes=max(max_bytes, 1))
        if run.upto == first:
            break
        if run.is_moved and first_move is None:
            first_move = first, run.result
        for offset in range(first, min(run.upto, first + n)):
            i += 1
            if offset in run.offsets:
                delivered.append(offset)
            else:
                gone_offsets.append(offset)
        bodies.append(run.body if isinstance(run.offsets, range) else _before(run.body, first + n))
        max_bytes -= len(run.body)
    return DueRead(bodies, delivered, gone_offsets, first_move)


def _before(body: bytes, end: int) -> bytes:
    """The records below an offset: a read that skips damaged records also returns some after the wanted ones."""
    return body[: sum(HEADER_BYTES + len(r.payload) for r in iter_records(body) if r.queue_offset < end)]


def read_records(
    store: MessageStore, topic_id: int, queue_id: int, offsets: Sequence[int], *, max_bytes: int
) -> tuple[list[StoredRecord], DueRead]:
    """As `read_due`, with the records decoded."""
    due = read_due(store, topic_id, queue_id, offsets, max_bytes=max_bytes)
    return [record for body in due.bodies for record in iter_records(body)], due
