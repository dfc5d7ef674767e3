"""ReplicaSender: the master's half of the stream, a feature of its broker.

It lets replicas in, sends each flush of the write barrier to them, counts their acknowledgements, and keeps the in-sync
set in the register: `in_sync.py` decides, `set_keeper.py` makes the compare-and-sets.

A master that sees a row with a higher epoch, or with another master, is deposed: it no longer commits, and
`on_deposed` is called, once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import anyio

from broker.durability.changes import RowChange
from broker.feature import Core, CurrentRights, ReplicatingFeature
from model.counted import plural
from model.errors import IllegalOperation, NotEnoughReplicas, NotMaster, RlabError
from model.events import EventKind
from model.quirks import Quirk
from model.record import FlushMode
from model.replica_set import Acks, ReplicaSet
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler
from remoting.wire.field import Right
from replica.lease.held import HeldLease
from replica.register import Register
from replica.stream.commit_point import CommitPoint
from replica.stream.greeting import Greeting
from replica.stream.in_sync import InSyncSet, SetWrite
from replica.stream.kept import KeptChanges
from replica.stream.phases import NEVER, Departure, ReplicaPhases, ReplicaProgress
from replica.stream.segments import SegmentReader
from replica.stream.session import ReplicaSession, StreamSource
from replica.stream.sessions import Sessions
from replica.stream.set_keeper import SetKeeper

logger = logging.getLogger(__name__)

_DONE = Reply({})


class ReplicaSender(ReplicatingFeature):
    """See the module header.

    Args:
        core: of the broker, whose store has an epoch.
        row: of the set, with this replica as the master.
        replica_id: of this replica.
        register: where the row is.
        on_deposed: called with the newest known row when this replica is no longer the master.
        flush: whether an acknowledgement means that a flush is written, or on the disk.
        lease_clock: of leases (`replica/lease/clocks.py`).

    Attributes:
        lease: without it nothing is served, and nothing answered.
    """

    def __init__(
        self,
        core: Core,
        row: ReplicaSet,
        replica_id: int,
        register: Register,
        on_deposed: Callable[[ReplicaSet | None], None],
        flush: FlushMode = FlushMode.ASYNC,
        lease_clock: Callable[[], float] | None = None,
    ) -> None:
        self._core = core
        self._loop = core.loop
        self._epoch = core.store.epochs[-1].number
        self._replica_id = replica_id
        self._on_deposed = on_deposed
        now = core.loop.time()
        position = self._written_position = core.store.written_position
        self._commit = CommitPoint(position, now)
        self.lease = HeldLease(row.name, row.lease_ms / 1000, lease_clock or core.loop.time, core.clock_ms)
        self._in_sync = InSyncSet(row, replica_id, self._epoch, now)
        self._keeper = SetKeeper(register, self._in_sync, self._next_write, self._set_changed)
        kept = KeptChanges()
        source = StreamSource(
            *(self._epoch, core.loop, core.store, core.metadata, self._commit, kept, self.lease), self._session_failed
        )
        self._sessions = Sessions(row.name, kept, self._stream_ended)
        self._greeting = Greeting(source, self._keeper, self._in_sync, replica_id, syncs=flush is FlushMode.SYNC)
        self._segments = SegmentReader(core.store)
        self._replicas: dict[int, ReplicaPhases] = {}
        self._is_deposed = False
        self._refused_by: RlabError | None = None
        self._refusal: RlabError | None = None
        self._progressed = anyio.Event()  # set, and replaced, whenever a caller of `wait_committed` has to look again
        self._waiters = 0
        self._answers_at_once = False
        self._announced = -1  # newest flush that the write barrier may answer
        self._recorded = row.in_sync  # as the events have it
        self._on_committed: Callable[[int], None] = lambda n: None
        self._on_ended: Callable[[NotMaster], None] = lambda error: None
        self._set_changed(())

    # --- for the host ------------------------------------------------------------------------------------------------

    @property
    def row(self) -> ReplicaSet:
        """The newest row of the set that is known."""
        return self._in_sync.row

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The replicas whose acknowledgements a flush waits for, by id."""
        return self._in_sync.waits_for

    @property
    def committed_position(self) -> int:
        """Log position of the newest flush that all of them have."""
        return self._commit.committed_position

    @property
    def is_idle(self) -> bool:
        """Whether every replica in sync has acknowledged everything that is in the log and in the tables."""
        commit = self._commit
        return commit.committed == commit.n and self._written_position == self._core.store.written_position

    def targets(self) -> list[int]:
        """The replicas that can take over: connected and in sync; the one with the most of the log first."""
        ids = [replica_id for replica_id in self._sessions.by_replica if replica_id in self.row.in_sync]
        return sorted(ids, key=lambda replica_id: (-self._replicas[replica_id].acked_position, replica_id))

    def saw(self, row: ReplicaSet) -> None:
        """Record a row that was read by someone else."""
        self._set_changed(self._in_sync.saw(row, self._loop.time()))

    def refuse(self, error: RlabError | None) -> None:
        """Refuse all requests that change stored state with this error from now on; None ends that."""
        self._refused_by = error
        self._update_refusal()

    async def wait_committed(self, timeout_s: float) -> None:
        """Wait until every replica in sync has everything that was flushed before this call.

        Raises:
            TimeoutError: it took too long.
            NotMaster: this replica was deposed.

        Cancellation: harmless.
        """
        n = self._commit.n
        self._waiters += 1
        try:
            with anyio.fail_after(timeout_s):
                while self._commit.committed < n:
                    self._check_master()
                    await self._progressed.wait()
        finally:
            self._waiters -= 1
        self._check_master()

    def _check_master(self) -> None:
        if self._is_deposed:
            raise self._not_master()

    def progress(self) -> list[ReplicaProgress]:
        """Return how far each other replica is."""
        now, written = self._loop.time(), self._core.store.written_position
        all_progress = []
        for member in self.row.members:
            replica = self._replicas.get(member.replica_id)
            if replica is None:
                continue
            since = self._commit.waiting_since(replica.acked_n)
            is_in_sync = member.replica_id in self.row.in_sync
            all_progress.append(replica.progress(now, member.address, written, since, is_in_sync=is_in_sync))
        return all_progress

    def announce_handover(self, row: ReplicaSet) -> None:
        """Send the new epoch and master to all connected replicas, which read the register then."""
        for session in self._sessions:
            session.connection.notify(RequestCode.REPLICA_HANDOVER, {"epoch": row.epoch, "master": row.master})
            session.connection.flush()

    async def run(self) -> NoReturn:
        """Keep the row of the register, while the broker runs. Cancellation: a write may be made or not."""
        await self._keeper.run()

    # --- Replicator --------------------------------------------------------------------------------------------------

    def begin(self, on_committed: Callable[[int], None], on_ended: Callable[[NotMaster], None]) -> None:
        """See `Replicator.begin`."""
        self._on_committed, self._on_ended = on_committed, on_ended

    def may_serve(self) -> bool:
        """See `Replicator.may_serve`."""
        return self.lease.holds()

    def refusal(self) -> RlabError | None:
        """See `Replicator.refusal`."""
        if self._refusal is None and not self.lease.holds():
            return NotMaster(f"{self.row.name}: the lease of this master is over, try again", "", self._epoch)
        return self._refusal

    def offer(self, changes: Sequence[RowChange]) -> int:
        """See `Replicator.offer`."""
        position, start = self._core.store.written_position, self._written_position
        self._written_position = position
        n = self._commit.offer(position, self._loop.time())
        self._sessions.flushed(n, start, position, changes)
        self._move()
        self._announce()
        return n

    # --- requests of replicas ----------------------------------------------------------------------------------------

    def handlers(self) -> Mapping[RequestCode, Handler]:
        """The requests of replicas."""
        return {
            RequestCode.REPLICA_HELLO: self._hello,
            RequestCode.REPLICATED: self._replicated,
            RequestCode.REPLICA_SEGMENT: self._segment,
        }

    async def _hello(self, connection: Connection, request: Command) -> Reply:
        self._check_master()
        greeted = await self._greeting.answer(connection, request, self._replicas, self._sessions.by_replica)
        self._check_master()
        self._sessions.add(greeted.session)
        return greeted.reply

    def _replicated(self, connection: Connection, request: Command) -> Reply:
        session, header, now = self._sessions.of(connection), request.header, self._loop.time()
        if session is None or (header["replica_id"], header["epoch"]) != (session.replica.replica_id, self._epoch):
            raise IllegalOperation("nothing was sent to this replica in this epoch: begin with REPLICA_HELLO")
        if not session.has_begun:
            self._sessions.begin(session, now)
            self._core.emit(EventKind.REPLICA_JOINED, n=session.replica.replica_id)
            self._consider()
            self._core.driver.wake_by(self.next_deadline())
            return _DONE
        replica = session.replica
        if not replica.acknowledged(now, header["number"], header["crc"], header["received"]):
            self._sessions.end(session, f"it confirmed frame {header['number']}, which was not sent to it", now)
            return _DONE
        self.lease.confirmed(replica.replica_id, replica.confirmed_beacon)
        self._commit.acknowledged(replica.replica_id, replica.acked_n)
        if Quirk.ACK_WITHOUT_IDENTITY in self._core.quirks:
            for each in self._commit.waits_for:
                self._commit.acknowledged(each, replica.acked_n)
        self._move()
        self._announce()
        session.pump()
        if replica.replica_id not in self.row.in_sync or self._in_sync.candidate:
            self._consider()
        return _DONE

    def _segment(self, connection: Connection, request: Command) -> Reply:
        return self._segments.read(request)

    def connection_closed(self, connection: Connection) -> None:
        """A replica is gone, or another client."""
        self._sessions.connection_closed(connection, self._loop.time())

    def rights_changed(self, rights: CurrentRights) -> None:
        """End the streams to users that may no longer replicate this broker."""
        for session in self._sessions:
            if not rights.allows(session.connection.owner, Right.REPLICATE, self.row.name):
                self._sessions.end(session, "its user may no longer replicate this broker", self._loop.time())

    def _session_failed(self, session: ReplicaSession, reason: str) -> None:
        self._sessions.end(session, reason, self._loop.time())

    def _stream_ended(self) -> None:
        self._core.driver.wake_by(self.next_deadline())

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When a beacon is due, or a replica has to leave the in-sync set or may enter it."""
        if self._is_deposed:
            return None
        now, written = self._loop.time(), self._core.store.written_position
        waits_for = self._in_sync.waits_for
        # A change of the set that is due, and not made yet, waits for the register, or for an acknowledgement.
        changes = [
            self._departure_of(replica).at if replica_id in waits_for else replica.may_join_at(written)
            for replica_id, replica in self._replicas.items()
        ]
        beacons = [replica.beacon_at for replica in self._replicas.values()]
        deadline = min([*beacons, *(each for each in changes if each > now)], default=NEVER)
        return None if deadline == NEVER else deadline

    def expire(self, now: float) -> None:
        """See `next_deadline`."""
        self._sessions.expire(now)
        self._consider()

    # --- the set -----------------------------------------------------------------------------------------------------

    def _departure_of(self, replica: ReplicaPhases) -> Departure:
        return replica.leaves_at(self._core.store.written_position, self._commit.waiting_since(replica.acked_n))

    def _next_write(self, now: float) -> SetWrite | None:
        written = self._core.store.written_position
        write = self._in_sync.next_write(
            now,
            self._replicas,
            self._sessions.incarnations,
            self._commit.committed,
            self._departure_of,
            lambda replica: replica.may_join_at(written),
        )
        self._update_waits()
        return write

    def _consider(self) -> None:
        if not self._is_deposed:
            self._keeper.consider(self._loop.time())

    def _set_changed(self, left: tuple[int, ...]) -> None:
        """Wait for the replicas of the current row, after it was read or written, or a write has an unknown outcome."""
        now, in_sync = self._loop.time(), self._in_sync
        for replica_id in left:
            if replica_id in self._replicas:
                self._replicas[replica_id].left_in_sync_set(now, in_sync.forget_since(replica_id))
        for member in in_sync.row.members:
            if member.replica_id != self._replica_id:
                self._replicas.setdefault(member.replica_id, ReplicaPhases(member.replica_id, now, self.lease.lease_s))
        for replica_id in [each for each in self._replicas if in_sync.row.member(each) is None]:
            if replica_id in self._sessions.by_replica:
                self._sessions.end(self._sessions.by_replica[replica_id], "it has left the set", now)
            del self._replicas[replica_id]
        if not in_sync.is_master:
            self._depose()
            return
        self._record_changes()
        self._update_waits()
        self._update_refusal()
        self._core.driver.wake_by(self.next_deadline())

    def _record_changes(self) -> None:
        old_in_sync, self._recorded = self._recorded, self.row.in_sync
        for replica_id in self.row.in_sync:
            if replica_id not in old_in_sync:
                self._core.emit(EventKind.REPLICA_IN_SYNC, n=replica_id)
        for replica_id in old_in_sync:
            if replica_id not in self.row.in_sync:
                self._core.emit(EventKind.REPLICA_REMOVED, n=replica_id, detail=self._keeper.reason)

    def _update_waits(self) -> None:
        acked = {replica_id: replica.acked_n for replica_id, replica in self._replicas.items()}
        self._commit.set_waits_for(self._in_sync.waits_for, acked)
        self.lease.wait_for(self._in_sync.waits_for)
        self._answers_at_once = self.row.acks is Acks.MASTER or Quirk.ACK_BEFORE_REPLICATED in self._core.quirks
        self._move()
        self._announce()

    def _move(self) -> None:
        if self._commit.move() and not self._is_deposed and self._waiters:
            self._progressed.set()
            self._progressed = anyio.Event()

    def _announce(self) -> None:
        """Let the barrier answer committed flushes; without a lease none, because another replica may be the master."""
        n = self._commit.n if self._answers_at_once else self._commit.committed
        if n > self._announced and not self._is_deposed and self.lease.holds():
            self._announced = n
            self._on_committed(n)

    def _depose(self) -> None:
        if self._is_deposed:
            return
        self._is_deposed = True
        logger.warning("%s: this replica is no longer the master: %s", self.row.name, self.row)
        self._update_refusal()
        self._on_ended(self._not_master())
        self._progressed.set()
        self._sessions.close(self._loop.time())
        self._on_deposed(self.row)

    def _not_master(self) -> NotMaster:
        row = self.row
        address = row.master_address or ""
        return NotMaster(f"replica {self._replica_id} of {row.name} is no longer the master: {row}", address, row.epoch)

    def _update_refusal(self) -> None:
        row = self.row
        if self._is_deposed:
            self._refusal = self._not_master()
        elif self._refused_by is not None:
            self._refusal = self._refused_by
        elif len(row.in_sync) < row.min_in_sync:
            self._refusal = NotEnoughReplicas(
                f"{row.name} has {plural(len(row.in_sync), 'replica')} in sync, and min_in_sync is {row.min_in_sync}: "
                "nothing was stored; start the others, or lower min_in_sync"
            )
        else:
            self._refusal = None
