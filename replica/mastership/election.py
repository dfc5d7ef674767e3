"""Candidate: when a replica that follows stands for election, and how it becomes the master.

    promise to the master over, and rank waited    read the row: it is the same, and this replica is in sync
    the stream ends                                frames are no longer confirmed
    still over?                                    compare-and-set: epoch + 1, this one is the master, the old one has
                                                   left the in-sync set
    the row has changed before                     follow the master that it has

An operator may make a replica the master while the old one serves. Such a row has not settled: its master waits until
its own promise to the old one is over, and records that before it begins. The other replicas wait for longer.

The register is read while the stream goes on: without it nothing would be gained by ending it. From the end of the
stream until the outcome of the compare-and-set is known, the old master gets no confirmation, so its lease cannot be
renewed while this replica may be the master already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import anyio

from model.limits import LATE_S, READ_FIRST_S
from model.quirks import Quirk
from model.replica_set import NO_MASTER, ReplicaSet
from replica.lease.promise import Promise, length_s, rank_delay_s
from replica.membership import POLL_S, Membership
from replica.sets import begun, took_over

logger = logging.getLogger(__name__)

NEVER = float("inf")
LEAST_WAIT_S = 0.001
"""Least wait for a time of the clock of leases. The timers of the loop follow another clock, at another rate: a shorter
wait can end at once, with the same time left, again and again.
"""
HANDED_OVER = "handover"


class Election(NamedTuple):
    """How a replica became the master."""

    cause: str
    silent_since: float
    """Time at which the old master was last known to serve, by the clock of leases."""


class Candidate:
    """See the module header.

    Args:
        promise: of this process to the master of the time; it outlasts the roles of the replica.
        clock: of leases, in seconds.
        lacks: returns whether the master had more of the log than this replica.
        is_fit: returns whether it may stand now.
        quirks: defects of RocketMQ to reproduce.

    Attributes:
        election: how this replica has become the master; None before that.
    """

    def __init__(
        self,
        membership: Membership,
        promise: Promise,
        clock: Callable[[], float],
        *,
        lacks: Callable[[], bool],
        is_fit: Callable[[], bool],
        quirks: frozenset[Quirk] = frozenset(),
    ) -> None:
        self.election: Election | None = None
        self._membership, self._promise, self._clock = membership, promise, clock
        self._lacks, self._is_fit = lacks, is_fit
        self._accepts_loss = Quirk.ELECT_OUT_OF_SYNC in quirks
        self._row: ReplicaSet | None = None  # newest one with another master, or without one
        self._cause = ""

    def confirms(self) -> None:
        """Promise the master not to stand: a frame is confirmed next."""
        self._promise.give(self._clock())

    def saw(self, row: ReplicaSet) -> None:
        """Act on the newest row: another master gets time to begin; without a master this replica stands at once."""
        old_row = self._row
        if row.master == self._membership.replica_id:
            return
        self._row = row
        has_master = row.master != NO_MASTER
        if not has_master and row.has_settled:
            self.released("the set had no master")
        elif old_row is None or (old_row.epoch, old_row.stopped_epoch) != (row.epoch, row.stopped_epoch):
            self._cause = f"the lease of replica {row.master} was over" if has_master else "the set had no master"
            waits = has_master and not row.has_settled
            self._promise.give(self._clock(), begins_in_s=POLL_S + length_s(row.lease_ms / 1000) if waits else 0.0)

    def released(self, cause: str) -> None:
        """Record that the master no longer serves."""
        self._cause = cause
        self._promise.release(self._clock())
        self._membership.wake()

    def due_at(self) -> float:
        """When this replica stands, if nothing changes; `NEVER` if it may not."""
        row, own_id = self._membership.row, self._membership.replica_id
        if own_id == row.master or not (own_id in row.in_sync or self._accepts_loss) or not self._is_fit():
            return NEVER
        candidates = [each for each in row.in_sync if each != row.master]
        return self._promise.stands_at(row.lease_ms / 1000) + rank_delay_s(own_id, candidates, lacks=self._lacks())

    async def wait_due(self) -> None:
        """Wait until this replica has to stand. Raises: as `Membership.refresh`. Cancellation: harmless."""
        membership, clock = self._membership, self._clock
        while True:
            while (wait_s := (due_at := self.due_at()) - clock()) > 0:
                with anyio.move_on_after(
                    min(max(wait_s, LEAST_WAIT_S), POLL_S)
                ):  # a damaged log may be repaired in that time
                    await membership.wait_changed()
            if clock() - due_at > LATE_S:
                await anyio.sleep(READ_FIRST_S)  # after a standstill: the frames of the master are read first
            self.saw(await membership.refresh())
            if self.due_at() <= clock():
                return

    async def stand(self) -> None:
        """Make this replica the master, unless the row or the promise has changed; no stream is open.

        Raises: as `Membership.change`.

        Cancellation: it may be the master.
        """
        membership, row = self._membership, self._membership.row
        own_id, silent_since = membership.replica_id, self._promise.given_at
        if self.due_at() > self._clock():
            return
        logger.warning("%s: replica %d stands for election: %s", row.name, own_id, self._cause)

        def take_over(current: ReplicaSet) -> ReplicaSet:
            if current.stopped_epoch != row.stopped_epoch:
                return current  # the master has begun
            return took_over(current, own_id, epoch=row.epoch, accept_loss=self._accepts_loss)

        if (await membership.change(take_over)).master == own_id:
            self.election = Election(self._cause, silent_since)

    async def wait_free(self) -> None:
        """Wait until no earlier master serves: this replica was made the master by someone else, or starts as it.

        A master that hands over has stopped before it writes the row; the row has this, and so has its last frame. An
        operator may elect another replica while the master still serves. Then this method waits until the promise to
        that master is over, and records in the row that this replica begins.

        Another replica may become the master before that is recorded; then `election` stays None.

        Raises: as `Membership.change`. Cancellation: the row may have that this replica begins.
        """
        membership, old_row = self._membership, self._row
        row, since = membership.row, self._promise.given_at
        epoch = row.epoch
        was_handed_over = self._cause == HANDED_OVER or (old_row is not None and old_row.master != NO_MASTER)
        cause = HANDED_OVER if was_handed_over and (row.has_settled or self._cause == HANDED_OVER) else "operator"
        if not row.has_settled:
            if cause != HANDED_OVER:
                await self._wait_for_promise(row)
            row = await membership.change(lambda current: begun(current, membership.replica_id, epoch=epoch))
        if (row.master, row.epoch) == (membership.replica_id, epoch):
            self.election = Election(cause, since)

    async def _wait_for_promise(self, row: ReplicaSet) -> None:
        while (wait_s := self._promise.ends_at(row.lease_ms / 1000) - self._clock()) > 0:  # noqa: ASYNC110 - two clocks
            await anyio.sleep(max(wait_s, LEAST_WAIT_S))
