"""The role of a replica that is not the master: it copies the log and the tables of the master.

Whatever ends a stream, the role then follows the master of the newest row. The first attempt is made at once, with the
row that is known, so that a broken connection does not remove this replica from the in-sync set.
"""

from __future__ import annotations

import logging

import anyio
from anyio.abc import TaskGroup

from broker.durability.metadata_file import MetadataFile
from broker.store.disk.errors import StoreFull
from broker.store.follower.follower_log import FollowerLog
from model.errors import StorageFull
from model.event_log import EventLog
from model.events import EventKind
from model.replica_set import NO_MASTER, Elect, ReplicaSet
from remoting.client import RemotingClient
from remoting.tasks import background_tasks
from replica.config import ReplicaConfig
from replica.lease.promise import Promise
from replica.mastership.election import HANDED_OVER, Candidate, Election
from replica.membership import Membership
from replica.stream.follower import FollowEnd, FollowProgress, follow

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, PAUSE_S, FIRST_S = 0.03, 0.2, 1.0
"""Between two attempts to follow a master that does not answer: for the first second, and after that. A change of the
row ends a pause, and the second counts from then. A new master opens its log within some tens of milliseconds, or some
hundreds on a busy machine. Its first requests wait for this replica, so this one should not be in a long pause then.
"""
FULL_PAUSE_S = 2.0
"""Pause between two attempts while the disk of this replica is full."""


class FollowerRole:
    """One period as a follower; it ends when the register has this replica as the master.

    Attributes:
        log, tables: the copies of the master's log and tables.
        committed_position: log position up to which all replicas in sync had the log; None if that is not known.
        progress: how far the replica is, as of the newest write; None before the first.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        membership: Membership,
        log: FollowerLog,
        tables: MetadataFile,
        events: EventLog,
        committed_position: int | None,
        promise: Promise,
    ) -> None:
        self.log, self.tables = log, tables
        self.committed_position = committed_position
        self.progress: FollowProgress | None = None
        self._config, self._membership, self._events = config, membership, events
        self._own_epoch = 0  # of the end of the log when the stream began
        self._streamed_epoch = 0  # of the newest stream
        self._candidate = Candidate(
            *(membership, promise, config.lease_clock),
            lacks=lambda: self.lag_bytes > 0,
            is_fit=lambda: not log.is_damaged,
            quirks=config.broker.quirks,
        )
        self._stands = False

    @property
    def lag_bytes(self) -> int:
        """Bytes of the master's log that are not here, according to the newest frame."""
        return 0 if self.progress is None else max(0, self.progress.master_position - self.log.end_position)

    @property
    def election(self) -> Election | None:
        """How this replica has become the master; None before that."""
        return self._candidate.election

    async def run(self) -> None:
        """Follow the master of the newest row, until this replica is the master, and may serve.

        Raises:
            ConfigError, IllegalOperation: the register or the master refuses this replica.
            StoreError: the disk fails.

        Cancellation: the copies stay, and the next start continues them.
        """
        membership, broker, candidate = self._membership, self._config.broker, self._candidate
        async with RemotingClient(rng=broker.rng, key=broker.key) as client:
            while candidate.election is None:
                if membership.is_master:
                    await candidate.wait_free()
                    continue
                self._stands = False
                async with background_tasks() as tasks:
                    if self._config.elect is not Elect.OPERATOR:
                        tasks.start_soon(self._watch_master, tasks)
                    await self._follow_masters(client)
                if self._stands:  # and no stream is open
                    await candidate.stand()

    async def _watch_master(self, tasks: TaskGroup) -> None:
        """End the other tasks when this replica has to stand for election."""
        await self._candidate.wait_due()
        self._stands = True
        tasks.cancel_scope.cancel()

    async def _follow_masters(self, client: RemotingClient) -> None:
        membership, candidate = self._membership, self._candidate
        first_until = anyio.current_time() + FIRST_S
        row = membership.row
        while not membership.is_master:
            if membership.row.epoch != row.epoch:
                first_until = anyio.current_time() + FIRST_S
            row = membership.row
            candidate.saw(row)
            if row.master == NO_MASTER:
                await membership.wait_changed()
                continue
            began_at, pause_s = anyio.current_time(), 0.0
            try:
                end = await self._follow(row, client)
            except (StoreFull, StorageFull) as error:
                logger.error("%s: replica %d cannot follow now: %s", row.name, membership.replica_id, error)
                end, began_at, pause_s = None, anyio.current_time(), FULL_PAUSE_S
            if end is not None:
                logger.info("%s: replica %d follows no more: %s", row.name, membership.replica_id, end.value)
                self._ended(end, row)
            membership.poll_now()
            if anyio.current_time() - began_at > PAUSE_S:
                # The stream has lasted: the next attempt is made at once, because the master waits for it.
                first_until = anyio.current_time() + FIRST_S
            elif membership.row is row:
                is_first = anyio.current_time() < first_until
                with anyio.move_on_after(pause_s or (FIRST_PAUSE_S if is_first else PAUSE_S)):
                    await membership.wait_changed()

    def _ended(self, end: FollowEnd, row: ReplicaSet) -> None:
        """Check whether the end of a stream proves that the master no longer serves."""
        if end is FollowEnd.HANDED_OVER:
            self._candidate.released(HANDED_OVER)
        elif end is FollowEnd.REFUSED and self._config.elect is Elect.FAST and self._streamed_epoch == row.epoch:
            # The process of this mastership had a connection to this replica, and now none listens at its address.
            self._candidate.released(f"the process of replica {row.master} has ended")

    async def _follow(self, row: ReplicaSet, client: RemotingClient) -> FollowEnd | None:
        """Follow the master of a row until the stream ends, or until there is a newer mastership: then None."""
        end, epochs = None, self.log.epochs
        self._own_epoch = epochs[-1].number if epochs else 0
        async with background_tasks() as tasks:

            async def watch() -> None:
                while self._membership.row.epoch == row.epoch:
                    await self._membership.wait_changed()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            end = await follow(
                *(self.log, self.tables, self._membership.identity, row, client, self._progressed),
                committed_position=self.committed_position,
                promise=self._candidate.confirms,
                quirks=self._config.broker.quirks,
            )
        return end

    def _progressed(self, progress: FollowProgress) -> None:
        self.progress, self._streamed_epoch = progress, progress.epoch
        self.committed_position = max(progress.committed_position, self.committed_position or 0)
        if progress.cut_from is not None:
            kept = "kept in the folder salvage" if progress.salvaged else "not kept"
            self._events.emit(
                EventKind.LOG_CUT,
                broker=self._membership.row.name,
                version=self._own_epoch,
                offset=progress.position,
                n=progress.cut_from - progress.position,
                detail=kept,
            )
