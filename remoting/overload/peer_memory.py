"""The memory that the peers of one server take by what they do not do: wait for answers, or read them. Pure.

Two sums over all connections, each beside a limit of one connection that holds anyway (`model/limits.py`):

- the bodies of requests that are not answered yet. A disk that takes seconds for a sync holds them all. New work is
  refused while the sum is above its limit.
- the answers that were written to peers that do not read. Each may leave some, and all together would fill the memory:
  above the limit the one that has not read for the longest time is cut off.

    memory = PeerMemory(unread_limit_bytes=100)
    memory.unread("a", 60) -> None
    memory.unread("b", 60) -> "a"       cut it off; `read` is told when it is gone
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from model.limits import MAX_UNREAD_BYTES

K = TypeVar("K", bound=Hashable)


class PeerMemory(Generic[K]):
    """See the module header; a key stands for a connection.

    Attributes:
        unanswered_bytes: the bodies of unanswered requests. Connections add and subtract, and their server looks.
    """

    __slots__ = ("_unread", "_unread_bytes", "_unread_limit", "unanswered_bytes")

    def __init__(self, unread_limit_bytes: int = MAX_UNREAD_BYTES) -> None:
        self.unanswered_bytes = 0
        self._unread_limit = unread_limit_bytes
        self._unread: dict[K, int] = {}  # the first has not read for the longest time
        self._unread_bytes = 0

    def unread(self, key: K, n_bytes: int) -> K | None:
        """Learn how much a peer has not read; returns the connection that is to be cut off, if there is one."""
        self._unread_bytes += n_bytes - self._unread.get(key, 0)
        self._unread[key] = n_bytes
        if self._unread_bytes <= self._unread_limit:
            return None
        return next(iter(self._unread))

    def read(self, key: K) -> None:
        """Learn that a peer has read, or is gone."""
        self._unread_bytes -= self._unread.pop(key, 0)
