"""HeldLease: the lease of a running master, on its clocks.

The master checks it before each request and before answers are sent, and compares its two clocks each time: a machine
that was paused may go on with any callback. The first one may handle the confirmation of a replica, which lay in the
socket for as long as the machine stood; it commits a flush, whose answers must not be sent.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from replica.lease.clocks import ClockWatch
from replica.lease.master_lease import ALWAYS, MasterLease

logger = logging.getLogger(__name__)

MARGIN_WINDOW_S = 60.0
"""Window of the smallest margin, which covers the last one or two: longer than a few scrapes of metrics."""


class HeldLease:
    """See the module header.

    Args:
        name: of the broker, for the log.
        lease_s: how long a confirmed frame lets the master serve.
        clock: of leases, in seconds (`clocks.py`).
        wall_ms: the wall clock in milliseconds.

    Attributes:
        clock: as given.
        ends_at: when it ends, by that clock.
        lapses: how often it has ended while this replica was the master, whether or not it was renewed later.
    """

    def __init__(self, name: str, lease_s: float, clock: Callable[[], float], wall_ms: Callable[[], float]) -> None:
        self.clock = clock
        self.ends_at = ALWAYS
        self.lapses = 0
        self._name = name
        self._wall_ms = wall_ms
        self._lease = MasterLease(lease_s)
        self._watch = ClockWatch(clock(), wall_ms())
        self._waits_for: tuple[int, ...] = ()
        self._has_lapsed = True  # it begins without one
        self._margins: deque[tuple[float, float]] = deque()  # (begin of a window, smallest margin in it), two at most

    @property
    def lease_s(self) -> float:
        """The length of the lease, in seconds."""
        return self._lease.lease_s

    def holds(self) -> bool:
        """Whether the master may serve at this moment: not if its clocks have moved apart since the last check."""
        now = self.clock()
        if self._watch.looked(now, self._wall_ms()):
            logger.warning("%s: the clocks of this machine moved apart: it stood still, or one was set", self._name)
            self._lease.void(now)
            self._update(now)
        if now >= self.ends_at and not self._has_lapsed:
            self._has_lapsed = True
            self.lapses += 1
            logger.warning("%s: the lease of this master is over: it serves nothing until it is renewed", self._name)
        return now < self.ends_at

    def wait_for(self, replica_ids: tuple[int, ...]) -> None:
        """Need the confirmations of these replicas from now on: each of them may be elected."""
        if replica_ids != self._waits_for:
            self._waits_for = replica_ids
            self._update(self.clock())

    def confirmed(self, replica_id: int, sent_at: float) -> None:
        """Record that a replica has confirmed a frame that was sent at a time of the clock."""
        self._lease.confirmed(replica_id, sent_at)
        self._update(self.clock())

    def _update(self, now: float) -> None:
        old_ends_at, self.ends_at = self.ends_at, self._lease.ends_at(self._waits_for)
        if now < self.ends_at:
            if self._has_lapsed:
                self._has_lapsed = False
            elif self.ends_at != old_ends_at != ALWAYS:
                self._note_margin(now, old_ends_at - now)

    def _note_margin(self, now: float, margin_s: float) -> None:
        """Record how much of the lease was left when it was renewed."""
        margins = self._margins
        if not margins or now >= margins[-1][0] + MARGIN_WINDOW_S:
            margins.append((now, margin_s))
            if len(margins) > 2:
                margins.popleft()
        elif margin_s < margins[-1][1]:
            margins[-1] = margins[-1][0], margin_s

    @property
    def margin_s(self) -> float | None:
        """The least that was left of it at a renewal within the last minutes, in seconds; None without a renewal."""
        now = self.clock()
        recent = [margin_s for began_at, margin_s in self._margins if now < began_at + 2 * MARGIN_WINDOW_S]
        return max(0.0, min(recent)) if recent else None
