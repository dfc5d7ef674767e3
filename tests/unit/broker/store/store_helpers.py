"""What the tests of the message store share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from broker.store.disk.files import Files
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from broker.store.read_result import ReadStatus
from model.record import StoredRecord, iter_records

NOW_MS = 1_700_000_000_000


def ticking_clock(start_ms: int = NOW_MS) -> Callable[[], int]:
    """Make a clock that is one millisecond later at each reading."""
    ticks = itertools.count(start_ms)
    return lambda: next(ticks)


def open_store(
    directory: Path,
    files: Files | None = None,
    *,
    segment_bytes: int = 2**20,
    tail_bytes: int = 2**20,
    index_cache_bytes: int = 2**20,
    scan_records: int = 4_096,
    segment_records: int = 10**6,
    segment_age_ms: int = 10**12,
) -> MessageStore:
    """Open a store with small limits and a ticking clock."""
    options = StoreOptions(
        segment_bytes=segment_bytes,
        tail_bytes=tail_bytes,
        index_cache_bytes=index_cache_bytes,
        scan_records=scan_records,
        segment_records=segment_records,
        segment_age_ms=segment_age_ms,
    )
    return MessageStore.open(directory, options, ticking_clock(), files)


def fill(store: MessageStore, count: int, *, queues: int = 1, payload: bytes = b"payload") -> None:
    """Append and flush messages one by one, round robin over the queues of topic 1; the tag is the number."""
    for number in range(count):
        store.append(1, number % queues, payload, number)
        store.flush()


def offsets(store: MessageStore, topic_id: int = 1, queue_id: int = 0, start: int | None = None) -> list[int]:
    """Read a queue to its end and return the offsets found."""
    found: list[int] = []
    offset = store.min_offset(topic_id, queue_id) if start is None else start
    while offset < store.max_offset(topic_id, queue_id):
        result = store.read(topic_id, queue_id, offset, max_n=5, max_bytes=2**20)
        found += [record.queue_offset for record in iter_records(result.body, check_crc=True)]
        offset = result.next_offset
    return found


def read_all(store: MessageStore, key: tuple[int, int], step: int) -> dict[int, StoredRecord]:
    """Read a queue from end to end, as a consumer does."""
    found = {}
    offset = store.min_offset(*key)
    while offset < store.max_offset(*key):
        result = store.read(*key, offset, max_n=step, max_bytes=2**40)
        records = list(iter_records(result.body, check_crc=True))
        assert len(records) == result.n
        assert (result.status is ReadStatus.FOUND) == bool(records)
        assert result.next_offset > offset
        for record in records:
            assert offset <= record.queue_offset < result.next_offset
            offset = record.queue_offset + 1
            found[record.queue_offset] = record
        offset = result.next_offset
    return found
