"""Promise: when a replica may stand for election. Pure.

With each frame that it confirms a replica promises its master not to become the master for `GRACE` leases from then on,
by its own clock. A replica that starts may have given a promise before its restart, so it begins with one:

    started at 0                                       may stand at 2.2 with a lease of 2 s
    confirms a frame at 5.0, then nothing comes        may stand at 7.2
    the master has handed over at 9.0, or has ended    may stand at 9.0
    an operator has elected another one, seen at 9.0   may stand at 14.4: the elected replica begins by 12.2, as
                                                       it sees the row within 1 s and then waits 2.2 s

The register decides between two replicas that stand at the same time. So that this is rare, each waits for a time that
depends on its rank: those that have everything that the master had go first, and among them the lowest id.

    in sync 2 and 4, both have everything      2 stands at once, 4 after 0.05 s
    in sync 2 and 4, 2 lacks a part            4 after 0.05 s, 2 after 0.1 s
"""

from __future__ import annotations

from collections.abc import Sequence

from replica.lease.master_lease import GRACE

RANK_S = 0.05
"""Between two replicas that may stand: several times what a compare-and-set and its news take."""


class Promise:
    """See the module header; times are of one clock of the replica, in seconds.

    Attributes:
        given_at: when it was given last.
    """

    def __init__(self, now: float) -> None:
        self.given_at = now
        self._begins_in_s = 0.0
        self._released_at: float | None = None

    def give(self, now: float, *, begins_in_s: float = 0.0) -> None:
        """Give it again: a frame is confirmed, or there is a new master, which gets the time to begin.

        `begins_in_s` is how long the new master may have to wait before.
        """
        self.given_at = max(self.given_at, now)
        self._begins_in_s = begins_in_s
        self._released_at = None

    def release(self, now: float) -> None:
        """Record that the master that has it no longer serves."""
        if self._released_at is None:
            self._released_at = now

    def ends_at(self, lease_s: float) -> float:
        """When masters no longer serve by this promise, for a lease of that length."""
        return self.given_at + GRACE * lease_s if self._released_at is None else self._released_at

    def stands_at(self, lease_s: float) -> float:
        """When this replica may stand for election: a new master has had the time to begin, too."""
        return self.ends_at(lease_s) + (self._begins_in_s if self._released_at is None else 0.0)


def length_s(lease_s: float) -> float:
    """How long a promise holds, for a lease of that length."""
    return GRACE * lease_s


def rank_delay_s(replica_id: int, candidates: Sequence[int], *, lacks: bool) -> float:
    """How long a replica lets others stand first; `lacks`: it has less of the log than its master had.

    `candidates` are the replicas that may be elected, ascending.
    """
    position = candidates.index(replica_id) if replica_id in candidates else len(candidates)
    return RANK_S * (position + (len(candidates) if lacks else 0))
