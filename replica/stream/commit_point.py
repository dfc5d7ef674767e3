"""CommitPoint: the newest flush that is stored at every replica for which the master waits. Pure.

    the master waits for 2 and 3            it flushes 1, 2, 3
    2 acknowledges 3, 3 acknowledges 1      committed = 1
    3 is removed: waited for until the      committed = 1 until the row is written, then 3
      compare-and-set is done
    4 is added: waited for at once          committed stays 3 until 4 has acknowledged 4; only then the row is written

Flush 0 is everything that was there when this mastership began. The point never moves back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple


class Flush(NamedTuple):
    """One flush of the write barrier that is not committed."""

    n: int
    position: int  # log position after it
    made_at: float


class CommitPoint:
    """See the module header; times are the loop's, in seconds.

    Attributes:
        n: newest flush.
        committed: newest flush that all replicas of `waits_for` have; -1 before the first.
        committed_position: log position of that flush.
        waits_for: the other replicas that have to acknowledge.
    """

    def __init__(self, position: int, now: float) -> None:
        self.n = 0
        self.committed = -1
        self.committed_position = 0
        self.waits_for: tuple[int, ...] = ()
        self._acked: dict[int, int] = {}
        self._flushes: deque[Flush] = deque((Flush(0, position, now),))

    def offer(self, position: int, now: float) -> int:
        """Record a flush that was written, and return its number; `move` is called next."""
        self.n += 1
        self._flushes.append(Flush(self.n, position, now))
        return self.n

    def set_waits_for(self, replica_ids: tuple[int, ...], acked: Mapping[int, int]) -> None:
        """Wait for these replicas from now on; `acked` has the newest flush of each. `move` is called next."""
        self.waits_for = replica_ids
        self._acked = {replica_id: acked.get(replica_id, -1) for replica_id in replica_ids}

    def acknowledged(self, replica_id: int, n: int) -> None:
        """Record that a replica has every flush up to a number; `move` is called next."""
        if replica_id in self._acked:
            self._acked[replica_id] = n

    def move(self) -> bool:
        """Move the point to the newest flush that all have; returns whether it has moved."""
        n = min(self._acked.values(), default=self.n)
        if n <= self.committed:
            return False
        self.committed = min(n, self.n)
        flushes = self._flushes
        while flushes and flushes[0].n <= self.committed:
            self.committed_position = flushes.popleft().position
        return True

    def waiting_since(self, n: int) -> float:
        """When the oldest flush after `n` was made that is not committed; infinity if there is none."""
        return next((flush.made_at for flush in self._flushes if flush.n > n), float("inf"))
