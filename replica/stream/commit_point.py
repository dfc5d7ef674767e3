"""CommitPoint: the newest flush that every replica has that the master waits for, and what waits for it. Pure.

    the master waits for 2 and 3            it flushes 1, 2, 3
    2 acknowledges 3, 3 acknowledges 1      committed = 1: the answers of flush 1 leave
    3 is removed: waited for until the      committed = 1 until the row is written, then 3
      compare-and-set is done
    4 is added: waited for at once          committed stays 3 until 4 has acknowledged 4; only then the row is written

Flush 0 is everything that was there when this mastership began. The point never moves back. Callbacks are called in the
order of their flushes, each once: with None when its flush is committed, or with an error when it has waited for too
long or will never be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from model.errors import ReplicationTimeout, RlabError
from model.replica_limits import REPLICATION_TIMEOUT_S

Waiting = Callable[[RlabError | None], None]
"""Called with None once the flush is committed, or with an error; must not raise."""


class Flush(NamedTuple):
    """One flush of the write barrier that is not committed."""

    n: int
    position: int  # log position after it
    made_at: float


class CommitPoint:
    """See the module header; times are the loop's, in seconds.

    Attributes:
        n: newest flush.
        committed: newest flush that all have that are waited for; -1 before the first.
        committed_position: log position of that flush.
        waits_for: the other replicas that have to acknowledge.
        answers_at_once: whether nothing waits for acknowledgements (`Acks.MASTER`); they are counted anyway.
        on_committed: called with the new value when `committed` has moved, before the callbacks that wait for it.
    """

    def __init__(self, position: int, now: float) -> None:
        self.n = 0
        self.committed = -1
        self.committed_position = 0
        self.waits_for: tuple[int, ...] = ()
        self.answers_at_once = False
        self.on_committed: Callable[[int], object] | None = None
        self._acked: dict[int, int] = {}
        self._flushes: deque[Flush] = deque((Flush(0, position, now),))
        self._waiting: deque[tuple[int, float, Waiting]] = deque()

    def offer(self, position: int, now: float) -> int:
        """A flush was written; returns its number. `move` is called later, so that no callback runs inside this."""
        self.n += 1
        self._flushes.append(Flush(self.n, position, now))
        if not self.waits_for:
            self._advance()
        return self.n

    def wait(self, n: int, now: float, callback: Waiting) -> None:
        """Call back when a flush is committed; at once if it is."""
        if self.answers_at_once or (n <= self.committed and not self._waiting):
            callback(None)
        else:
            self._waiting.append((n, now + REPLICATION_TIMEOUT_S, callback))

    def set_waits_for(self, replica_ids: tuple[int, ...], acked: Mapping[int, int]) -> None:
        """Wait for these replicas from now on; `acked` has the newest flush of each. `move` is called next."""
        self.waits_for = replica_ids
        self._acked = {replica_id: acked.get(replica_id, -1) for replica_id in replica_ids}

    def acknowledged(self, replica_id: int, n: int) -> None:
        """A replica has every flush up to a number; `move` is called next."""
        if replica_id in self._acked:
            self._acked[replica_id] = n

    def move(self) -> None:
        """Move the point to the newest flush that all have, and call back for everything that it passes."""
        if self._advance() and self.on_committed is not None:
            self.on_committed(self.committed)
        waiting, committed = self._waiting, self.n if self.answers_at_once else self.committed
        while waiting and waiting[0][0] <= committed:
            waiting.popleft()[2](None)

    def _advance(self) -> bool:
        n = min(self._acked.values(), default=self.n)
        if n <= self.committed:
            return False
        self.committed = min(n, self.n)
        flushes = self._flushes
        while flushes and flushes[0].n <= self.committed:
            self.committed_position = flushes.popleft().position
        return True

    # --- what takes too long -----------------------------------------------------------------------------------------

    def waiting_since(self, n: int) -> float:
        """When the oldest flush after `n` was made; infinity if there is none."""
        return next((flush.made_at for flush in self._flushes if flush.n > n), float("inf"))

    @property
    def oldest_at(self) -> float:
        """When the oldest flush was made that is not committed; infinity without one."""
        return self._flushes[0].made_at if self._flushes else float("inf")

    @property
    def next_deadline(self) -> float:
        """When the oldest callback has waited for too long; infinity without one."""
        return self._waiting[0][1] if self._waiting else float("inf")

    def expire(self, now: float) -> None:
        """Answer the requests that have waited for too long: their flush is written here, and perhaps nowhere else."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= now:
            waiting.popleft()[2](
                ReplicationTimeout(
                    f"stored, but replicas {_listed(self.waits_for)} have not confirmed it within "
                    f"{REPLICATION_TIMEOUT_S} s: it may be lost if the master is lost now; send it again to be sure"
                )
            )

    def fail(self, error: RlabError) -> None:
        """Answer all that wait with an error: this replica is no longer the master."""
        waiting, self._waiting = self._waiting, deque()
        for _, _, callback in waiting:
            callback(error)


def _listed(replica_ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, replica_ids)) or "(none)"
