"""PeerMemory: sums the memory that peers occupy by unanswered requests and by answers that they do not read. Pure.

Two sums over all connections; each connection has a limit of its own, too (`model/limits.py`):

- the bodies of requests that are not answered yet. A disk that takes seconds for a sync keeps them all in memory. New
  work is refused while the sum is above its limit.
- the answers that were written to peers that do not read. Each peer may leave some unread, but all together would fill
  the memory: above the limit the peer that has not read for the longest time is cut off.

    memory = PeerMemory(unread_limit_bytes=100)
    memory.unread("a", 60) -> None
    memory.unread("b", 60) -> "a"       cut it off; then call `read` for it
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from model.limits import MAX_UNREAD_BYTES

K = TypeVar("K", bound=Hashable)


class PeerMemory(Generic[K]):
    """See the module header; a key stands for a connection.

    Attributes:
        unanswered_bytes: the bodies of unanswered requests. Connections add and subtract, and their server checks it.
    """

    __slots__ = ("_unread", "_unread_bytes", "_unread_limit", "unanswered_bytes")

    def __init__(self, unread_limit_bytes: int = MAX_UNREAD_BYTES) -> None:
        self.unanswered_bytes = 0
        self._unread_limit = unread_limit_bytes
        self._unread: dict[K, int] = {}  # the first one has not read for the longest time
        self._unread_bytes = 0

    def unread(self, key: K, n_bytes: int) -> K | None:
        """Record how much a peer has not read; returns the connection that has to be cut off, if any."""
        self._unread_bytes += n_bytes - self._unread.get(key, 0)
        self._unread[key] = n_bytes
        if self._unread_bytes <= self._unread_limit:
            return None
        return next(iter(self._unread))

    def read(self, key: K) -> None:
        """Record that a peer has read, or is gone."""
        self._unread_bytes -= self._unread.pop(key, 0)
