"""KeptChanges: the changes of the newest flushes, for replicas that have not been sent them yet. Pure.

Log bytes are not kept: they are read from the files. So a flush takes the size of its changes, and nothing is kept
unless a replica follows.

    add(41, 900, 1_000, changes)      flush 41 wrote the log from 900 to 1,000
    flush(41)                         until every replica that follows was sent it
"""

from __future__ import annotations

from typing import NamedTuple

_FLUSH_BYTES = 200
"""Bytes that a flush without changes counts."""


class KeptFlush(NamedTuple):
    """One flush; `bytes_before` is the size of all flushes that were ever kept before it."""

    n: int
    start: int  # log position before it
    end: int  # log position after it
    changes: bytes
    bytes_before: int


class KeptChanges:
    """Flushes of consecutive numbers; `total_bytes` is the size of all that were ever kept."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._flushes: dict[int, KeptFlush] = {}
        self._oldest = 0

    def __len__(self) -> int:
        return len(self._flushes)

    def add(self, n: int, start: int, end: int, changes: bytes) -> None:
        """Keep one more flush."""
        if not self._flushes:
            self._oldest = n
        self._flushes[n] = KeptFlush(n, start, end, changes, self.total_bytes)
        self.total_bytes += len(changes) + _FLUSH_BYTES

    def flush(self, n: int) -> KeptFlush | None:
        """The flush of a number; None if it was not made yet, or is not kept."""
        return self._flushes.get(n)

    def bytes_after(self, n: int) -> int:
        """Size of the kept flushes after `n`."""
        flush = self._flushes.get(n + 1)
        return 0 if flush is None else self.total_bytes - flush.bytes_before

    def drop_through(self, n: int) -> None:
        """Drop every flush up to `n`: each replica that follows was sent it."""
        while self._oldest <= n and self._flushes:
            del self._flushes[self._oldest]
            self._oldest += 1

    def clear(self) -> None:
        """Drop everything: no replica follows."""
        self._flushes.clear()
