"""InSyncSet: which replicas a master waits for, and which compare-and-set it makes next. Pure.

The register knows who may be elected: `in_sync` of the row. The rule is that the master waits for every replica that
the register may have in sync, at any time:

    widen     the master waits for a replica first; once that has everything that is committed, the row is written
    shrink    the row is written first; the master goes on waiting until it is
    unknown   a write whose answer was lost may have been made, or may be made later: the master waits for the replicas
              of both rows until the row has a higher version, because then that write can no longer succeed

(RocketMQ issue 5663: the SyncStateSet was widened at the controller before the master waited for the new member.)
One write is under way at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from model.replica_set import ReplicaSet
from replica.sets import SetRefusal, in_sync_with, removed_from_in_sync
from replica.stream.phases import NEVER, Departure, ReplicaPhases


class SetWrite(NamedTuple):
    """A compare-and-set to make: this row, if the stored one has the version of `InSyncSet.row`."""

    row: ReplicaSet
    reason: str  # for the log


class InSyncSet:
    """The row of a set at its master; times are the loop's, in seconds.

    Attributes:
        row: the newest row that is known.
        candidate: replica that the master waits for and that is not in the row yet; 0 without one.
        must_read: whether the row has to be read before anything else, because the outcome of a write is not known.
    """

    def __init__(self, row: ReplicaSet, replica_id: int, epoch: int, now: float) -> None:
        self.row = row
        self.candidate = 0
        self.must_read = False
        self._replica_id = replica_id
        self._epoch = epoch
        self._writing: ReplicaSet | None = None
        self._maybe: tuple[int, ...] = ()
        self._since = dict.fromkeys(row.in_sync, now)

    @property
    def is_master(self) -> bool:
        """Whether the newest row has this replica as the master of this epoch."""
        return (self.row.master, self.row.epoch) == (self._replica_id, self._epoch)

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The replicas whose acknowledgements the master waits for, in order of their ids."""
        writing = () if self._writing is None else self._writing.in_sync
        ids = {*self.row.in_sync, *writing, *self._maybe, self.candidate} - {0, self._replica_id}
        return tuple(sorted(ids))

    def in_sync_since(self, replica_id: int) -> float:
        """The time since which a replica is in sync; `NEVER` if it is not."""
        return self._since.get(replica_id, NEVER)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def next_write(
        self,
        now: float,
        replicas: Mapping[int, ReplicaPhases],
        incarnations: Mapping[int, int],
        committed: int,
        departure_of: Callable[[ReplicaPhases], Departure],
        may_join_at: Callable[[ReplicaPhases], float],
    ) -> SetWrite | None:
        """The next compare-and-set, if one is due; it is under way from now on, until one of the events below.

        It may also change `candidate`, and so `waits_for`, without a write. `incarnations` has the start of each
        connected replica's process.
        """
        if self._writing is not None or self.must_read or not self.is_master:
            return None
        self._choose_candidate(now, replicas, departure_of, may_join_at)
        write = self._removal(now, replicas, departure_of) or self._addition(replicas, incarnations, committed)
        if write is None and self._maybe and not self.candidate:
            # The version has to move on, so that the lost write can no longer be made.
            write = SetWrite(self.row, "the outcome of a write is not known")
        if write is not None:
            self._writing = write.row
        return write

    def _choose_candidate(
        self,
        now: float,
        replicas: Mapping[int, ReplicaPhases],
        departure_of: Callable[[ReplicaPhases], Departure],
        may_join_at: Callable[[ReplicaPhases], float],
    ) -> None:
        if self.candidate:
            candidate = replicas.get(self.candidate)
            if (
                candidate is None
                or self.row.member(self.candidate) is None
                or self.candidate in self.row.in_sync
                or departure_of(candidate).at <= now
            ):
                self.candidate = 0
        if not self.candidate:
            for replica_id in sorted(replicas):
                replica = replicas[replica_id]
                if self.row.member(replica_id) is None or replica_id in self.row.in_sync:
                    continue
                if may_join_at(replica) <= now < departure_of(replica).at:
                    self.candidate = replica_id
                    break

    def _removal(
        self, now: float, replicas: Mapping[int, ReplicaPhases], departure_of: Callable[[ReplicaPhases], Departure]
    ) -> SetWrite | None:
        for replica_id in self.row.in_sync:
            if replica_id == self._replica_id:
                continue
            departure = departure_of(replicas[replica_id])
            if departure.at <= now:
                row = removed_from_in_sync(self.row, replica_id, by=self._replica_id, epoch=self._epoch)
                return SetWrite(row, f"replica {replica_id} leaves: {departure.reason}")
        return None

    def _addition(
        self, replicas: Mapping[int, ReplicaPhases], incarnations: Mapping[int, int], committed: int
    ) -> SetWrite | None:
        if not self.candidate or replicas[self.candidate].acked_n < committed:
            return None
        try:
            row = in_sync_with(
                *(self.row, self.candidate),
                by=self._replica_id,
                epoch=self._epoch,
                incarnation=incarnations.get(self.candidate, -1),
            )
        except SetRefusal:
            self.candidate = 0  # it has started again, or was forgotten
            return None
        return SetWrite(row, f"replica {self.candidate} has all that is acknowledged")

    # --- events ------------------------------------------------------------------------------------------------------

    def written(self, row: ReplicaSet, now: float) -> tuple[int, ...]:
        """Record that the write was made; returns the replicas that have left the in-sync set."""
        self._writing = None
        return self.saw(row, now)

    def refused(self, current: ReplicaSet | None, now: float) -> tuple[int, ...]:
        """Record that the write was refused for good: the stored row is another one, which is passed to `saw` next."""
        self._writing = None
        return () if current is None else self.saw(current, now)

    def lost(self) -> None:
        """Record that the answer of the write was lost: the write was made, will be made later, or never."""
        if self._writing is not None:
            self._maybe = tuple(sorted({*self._maybe, *self._writing.in_sync}))
            self._writing = None
        self.must_read = True

    def read(self, row: ReplicaSet | None, now: float) -> tuple[int, ...]:
        """Record the result of a read while no write was under way; returns the replicas that have left."""
        self.must_read = False
        return () if row is None else self.saw(row, now)

    def saw(self, row: ReplicaSet, now: float) -> tuple[int, ...]:
        """Record a row that was read or written, unless it is an older one; returns the replicas that have left."""
        if row.version <= self.row.version:
            return ()
        left = tuple(each for each in self.row.in_sync if each not in row.in_sync)
        for replica_id in row.in_sync:
            self._since.setdefault(replica_id, now)
        self.row = row
        self._maybe = ()
        if self.candidate in row.in_sync:
            self.candidate = 0
        return left

    def forget_since(self, replica_id: int) -> float:
        """Forget, and return, the time since which a replica was in sync that has left the set."""
        return self._since.pop(replica_id, NEVER)
