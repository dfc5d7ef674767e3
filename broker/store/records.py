"""Reads all stored records of a queue: a feature rebuilds its state from them after a restart."""

from __future__ import annotations

from collections.abc import Iterator

from broker.store.message_store import MessageStore
from broker.store.read_result import ReadStatus
from model.limits import MAX_PULL_BYTES
from model.record import StoredRecord, iter_records

_AT_ONCE = 4_096


def records_from(store: MessageStore, topic_id: int, queue_id: int, offset: int) -> Iterator[StoredRecord]:
    """Yield the records of a queue from an offset on, the oldest first, without those that are damaged.

    Raises:
        StoreReadFailed: while iterating: an I/O error.
    """
    while True:
        result = store.read(topic_id, queue_id, offset, max_n=_AT_ONCE, max_bytes=MAX_PULL_BYTES)
        yield from iter_records(result.body)
        if result.status is ReadStatus.NO_NEW or result.next_offset <= offset:
            return
        offset = result.next_offset
