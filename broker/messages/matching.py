"""Reads the messages of a queue that match a filter of their properties: in blocks, which the filter examines.

A tag is in the index, so the store leaves out other tags before it reads anything. Properties are in the records: these
are read as without a filter, and their bodies are not decoded. One call examines a bounded number of records and bytes,
because all other requests wait for it.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from broker.store.message_store import MessageStore
from broker.store.read_result import ReadResult, ReadStatus
from model.names import is_group_topic
from model.record import HEADER_BYTES
from model.sql.compiled import Matches, compile_filter
from model.sql.properties import read_properties

EXAMINED_RECORDS = 1_024
EXAMINED_BYTES = 1024 * 1024
"""How much one call examines at most, but for the last block; it takes a few milliseconds."""
_BLOCK_RECORDS = 256
_BLOCK_BYTES = 256 * 1024

_unpack_head = Struct(">I12xQ").unpack_from
"""Length and queue offset of a record."""


def parse_filter(header: dict[str, Any]) -> Matches | None:
    """The filter of a pull or pop, None without one; the messages of retry topics and DLQs are never filtered.

    Raises:
        FilterIllegal: the filter is not an expression of the language.
    """
    sql = header.get("sql")
    if sql is None:
        return None
    matches = compile_filter(sql)
    return None if is_group_topic(header["topic"]) else matches


def read_matching(
    store: MessageStore, topic_id: int, queue_id: int, offset: int, *, max_n: int, max_bytes: int, matches: Matches
) -> ReadResult:
    """Read messages of one queue from an offset on, as `MessageStore.read`, without those that do not match.

    Raises:
        StoreReadFailed: an I/O error; nothing has changed.
    """
    picked = _Picked(max_n, max_bytes, matches)
    next_offset, block, examined, size = offset, max_n, 0, 0
    while True:
        # While all match, one block of this size is the whole answer; else the next are larger.
        read = store.read(topic_id, queue_id, next_offset, max_n=min(block, _BLOCK_RECORDS), max_bytes=_BLOCK_BYTES)
        if read.status is not ReadStatus.FOUND and (read.status is not ReadStatus.NO_MATCH or next_offset == offset):
            break
        full_at = picked.pick(read.body)
        next_offset = read.next_offset if full_at is None else full_at
        examined += read.n
        size += len(read.body)
        if (
            full_at is not None
            or next_offset >= read.max_offset
            or examined >= EXAMINED_RECORDS
            or size >= EXAMINED_BYTES
        ):
            break
        block = _BLOCK_RECORDS
    if next_offset == offset:
        return read
    status = ReadStatus.FOUND if picked.n else ReadStatus.NO_MATCH
    return ReadResult(status, b"".join(picked.parts), picked.n, next_offset, read.min_offset, read.max_offset)


class _Picked:
    """The records that match so far."""

    def __init__(self, max_n: int, max_bytes: int, matches: Matches) -> None:
        self._max_n = max_n
        self._max_bytes = max_bytes
        self._matches = matches
        self._size = 0
        self.parts: list[bytes] = []
        self.n = 0

    def pick(self, body: bytes) -> int | None:
        """Take the matching records of a block; once there are enough, return the offset at which to go on."""
        matches, max_n, stop, end = self._matches, self._max_n, 0, len(body)
        first = -1  # of the run of matching records that ends here: they are copied together
        full_at: int | None = None
        while stop < end:
            start = stop
            length, offset = _unpack_head(body, start)
            stop += length
            if not matches(read_properties(body, start + HEADER_BYTES, stop)):
                if first >= 0:
                    self.parts.append(body[first:start])
                    first = -1
                continue
            if self.n and self._size + length > self._max_bytes:
                full_at, stop = offset, start
                break
            self._size += length
            self.n += 1
            if first < 0:
                first = start
            if self.n == max_n:
                full_at = offset + 1
                break
        if first >= 0:
            self.parts.append(body[first:stop])
        return full_at
