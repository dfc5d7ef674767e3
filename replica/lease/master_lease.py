"""MasterLease: until when a master may serve. Pure.

A replica that confirms a frame promises not to become the master within `GRACE` leases (`promise.py`). The master
counts from an earlier moment, when it sent that frame, and a shorter time:

    frame sent at 10.0, confirmed at 10.1       the master serves until 12.0 with a lease of 2 s
                                                the replica stands for election at 12.2 (10.0 + 2.2) at the earliest
    frame sent at 10.3, not confirmed           as before: it may not have arrived
    two replicas, one of them confirms nothing  the earlier of the two ends counts: either may be elected
    the master is alone in sync                 no end: no other replica may be elected

So the master has stopped before the replica begins, as long as their clocks run at rates that differ by less than a
tenth. The times of two clocks are never compared. (PacificA: leases counted from the send time of beacons.)
"""

from __future__ import annotations

from collections.abc import Iterable

NEVER = float("-inf")
ALWAYS = float("inf")
GRACE = 1.1
"""A replica keeps its promise for that many leases: clocks may differ in rate by nearly a tenth. Quartz differs by less
than a thousandth; virtual machines have been seen to differ by a hundredth.
"""


class MasterLease:
    """See the module header; times are of one clock of the master, in seconds.

    Attributes:
        lease_s: how long a confirmed frame lets the master serve.
    """

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self._confirmed: dict[int, float] = {}  # replica id -> when the newest frame was sent that it has confirmed
        self._void_until = NEVER

    def confirmed(self, replica_id: int, sent_at: float) -> None:
        """Record that a replica has confirmed a frame that was sent at a time; an older one changes nothing."""
        if sent_at > self._void_until:
            self._confirmed[replica_id] = max(sent_at, self._confirmed.get(replica_id, NEVER))

    def void(self, now: float) -> None:
        """Forget all confirmations: the clock cannot be trusted before now. Only frames that are sent later count."""
        self._void_until = now
        self._confirmed.clear()

    def ends_at(self, waits_for: Iterable[int]) -> float:
        """When the lease ends from all replicas that may be elected; `ALWAYS` without any, `NEVER` if one gave none."""
        return min((self._confirmed.get(each, NEVER) + self.lease_s for each in waits_for), default=ALWAYS)
