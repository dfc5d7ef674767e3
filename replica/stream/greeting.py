"""Greeting: answers the first request of a replica: who may follow, and from which log position on.

Identity is never an address. A replica is known by the set and the register that its directory names, by its replica
id, and by the number of its start, which the register has too: a second process of one replica id, as from a copied
directory, has another number, and so has an old copy that was put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgpack

from broker.store.segments.epochs import Epoch, common_epoch
from model.counted import plural
from model.errors import ServiceNotAvailable
from model.replica_limits import REPLICA_SILENCE_S
from model.replica_set import ReplicaSet
from remoting.body import rows_of
from remoting.command import Command, Reply
from remoting.connection import Connection
from replica.sets import DeposedMaster, ReplicaRestarted, SetRefusal, UnknownReplica
from replica.stream.in_sync import InSyncSet
from replica.stream.phases import ReplicaPhases
from replica.stream.session import ReplicaSession, StreamSource
from replica.stream.set_keeper import SetKeeper


class OtherSet(SetRefusal):
    """The replica belongs to another set, or to a set of another register."""


class Greeted(NamedTuple):
    """A replica that may follow."""

    session: ReplicaSession
    reply: Reply


class Greeting:
    """See the module header."""

    def __init__(
        self, source: StreamSource, keeper: SetKeeper, in_sync: InSyncSet, replica_id: int, *, syncs: bool
    ) -> None:
        self._source = source
        self._keeper = keeper
        self._in_sync = in_sync
        self._replica_id = replica_id
        self._syncs = syncs

    async def answer(
        self,
        connection: Connection,
        request: Command,
        replicas: Mapping[int, ReplicaPhases],
        sessions: Mapping[int, ReplicaSession],
    ) -> Greeted:
        """Check a replica, and find the position at which its log has to end.

        Raises:
            SetRefusal: it may not follow; the class is the reason.
            ServiceNotAvailable: an earlier process of it is still connected.
            RegisterUnavailable: a new start of it cannot be checked now.

        Cancellation: harmless.
        """
        header, replica_id = request.header, request.header["replica_id"]
        row = self._in_sync.row
        check_set(row, header)
        member = row.member(replica_id)
        if header["epoch"] > row.epoch or member is None or member.incarnation < header["incarnation"]:
            row = await self._keeper.read_now() or row
        check_replica(row, header, self._replica_id)
        self._check_only_one(replica_id, header["incarnation"], sessions)
        position, discard = self._position(request)
        session = ReplicaSession(self._source, connection, replicas[replica_id], header["incarnation"], position)
        answer = {
            "epoch": self._source.epoch,
            "position": position,
            "discard": discard,
            "min_position": self._source.store.min_position,
            "sync": self._syncs,
        }
        # A copy that is interrupted goes on only if it knows the epochs of the log that it copies.
        body = msgpack.packb([list(epoch) for epoch in self._source.store.epochs]) if discard else None
        return Greeted(session, Reply(answer, body))

    def _check_only_one(self, replica_id: int, incarnation: int, sessions: Mapping[int, ReplicaSession]) -> None:
        session = sessions.get(replica_id)
        if session is None or session.incarnation == incarnation:
            return  # its connection broke, and this master has not noticed it yet
        if self._source.loop.time() < session.replica.last_received_at + REPLICA_SILENCE_S:
            raise ServiceNotAvailable(
                f"another process of replica {replica_id} follows from {session.connection.peer}: stop it, or wait "
                f"until it has been silent for {REPLICA_SILENCE_S} s"
            )

    def _position(self, request: Command) -> tuple[int, bool]:
        store = self._source.store
        epochs = [Epoch(*row) for row in rows_of(request)]
        position = common_epoch(epochs, request.header["end_position"], store.epochs, store.written_position)
        minimum = store.min_position
        if position is None or position < minimum:
            return minimum, True
        return position, False


def check_set(row: ReplicaSet, header: Mapping[str, Any]) -> None:
    """Check that a replica belongs to a set.

    Raises:
        OtherSet: it does not.
    """
    if header["set_id"] != row.set_id:
        raise OtherSet(
            f"replica {header['replica_id']} belongs to set {header['set_id']}, and {row.name} here is set "
            f"{row.set_id}: use the data directory of a replica of this set, or an empty one"
        )
    if header["register_id"] != row.register_id:
        raise OtherSet(
            f"replica {header['replica_id']} knows set {row.name} from register {header['register_id']}, and this "
            f"master from register {row.register_id}: use the name servers of one register"
        )


def check_replica(row: ReplicaSet, header: Mapping[str, Any], master: int) -> None:
    """Check that a process is the newest of a member of the set, by a row that is as new as the process.

    Raises:
        UnknownReplica: the set has no such replica, or it is the master itself.
        ReplicaRestarted: another process of it has started since.
        DeposedMaster: the replica has seen a later epoch than this master and the register.
    """
    replica_id, incarnation = header["replica_id"], header["incarnation"]
    member = row.member(replica_id)
    if member is None or replica_id == master:
        ids = ", ".join(str(each.replica_id) for each in row.members if each.replica_id != master)
        raise UnknownReplica(
            f"set {row.name} has no replica {replica_id} beside its master, only {ids or 'none'}: a replica that was "
            "forgotten can only join again as a new one, with an empty directory"
        )
    if incarnation != member.incarnation:
        raise ReplicaRestarted(
            f"replica {replica_id} of set {row.name} has started {plural(member.incarnation, 'time')}, and this is "
            f"the process of start {incarnation}: two processes use one replica id, or its directory is an old copy"
        )
    if header["epoch"] > row.epoch:
        raise DeposedMaster(
            f"replica {replica_id} has seen epoch {header['epoch']} of set {row.name}, and this master has "
            f"{row.epoch}, as its register: was an old register put back?"
        )
