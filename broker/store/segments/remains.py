"""Reads the rest of a damaged record, whose checksum does not match, to find the queue and offset of its message."""

from __future__ import annotations

from broker.store.segments.commit_log import CommitLog
from broker.store.segments.index import ENTRY, ENTRY_BYTES, LogKey
from model.record import HEADER_BYTES


def read_remains(log: CommitLog, key: LogKey, offset: int) -> bytes:
    """Return the payload of a record as the file has it, any byte of which may be wrong; empty if no index names it."""
    try:
        for segment in reversed(log.segments):
            row = log.row(segment, key)
            if row is not None and row.first_offset <= offset < row.end_offset:
                entry = ENTRY.unpack_from(row.entries, (offset - row.first_offset) * ENTRY_BYTES)
                return log.read(segment, entry[1], entry[0])[HEADER_BYTES:]
    except OSError:
        return b""
    return b""
