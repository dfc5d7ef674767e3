"""Sessions: the connected replicas of a master, one session each, and the changes that are kept for them.

After `add` a replica cuts its log at the common position; then `begin` starts its stream. Each flush is sent to all
replicas, and its changes are kept until every replica that follows was sent them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from broker.durability.changes import RowChange
from model.replica_limits import REPLICA_DEAD_S, REPLICA_KEPT_BYTES
from remoting.connection import Connection
from replica.stream.frames import encode_changes
from replica.stream.kept import KeptChanges
from replica.stream.session import ReplicaSession

logger = logging.getLogger(__name__)


class Sessions:
    """See the module header; `ended` is called after the stream of a replica has ended.

    Attributes:
        by_replica: the sessions whose streams have begun, by replica id.
    """

    def __init__(self, name: str, kept: KeptChanges, on_ended: Callable[[], None]) -> None:
        self.by_replica: dict[int, ReplicaSession] = {}
        self._name = name
        self._kept = kept
        self._ended = on_ended
        self._by_connection: dict[Connection, ReplicaSession] = {}

    def __iter__(self) -> Iterator[ReplicaSession]:
        return iter(tuple(self._by_connection.values()))

    @property
    def incarnations(self) -> Mapping[int, int]:
        """The start of the process of each connected replica."""
        return {replica_id: session.incarnation for replica_id, session in self.by_replica.items()}

    def of(self, connection: Connection) -> ReplicaSession | None:
        """The session of a connection; None without one."""
        return self._by_connection.get(connection)

    def add(self, session: ReplicaSession) -> None:
        """Add a replica that may follow, and has to prepare its log first."""
        self._by_connection[session.connection] = session

    def begin(self, session: ReplicaSession, now: float) -> None:
        """Begin the stream of a session; an earlier one of the same replica ends."""
        replica_id = session.replica.replica_id
        old_session = self.by_replica.get(replica_id)
        if old_session is not None:
            self._remove(old_session, now)
        self.by_replica[replica_id] = session
        session.begin()
        logger.info("%s: replica %d follows from position %d on", self._name, replica_id, session.position)

    def flushed(self, n: int, start: int, end: int, changes: Sequence[RowChange]) -> None:
        """Send a flush to the replicas."""
        if not self.by_replica:
            return
        if any(session.kept_from is not None for session in self.by_replica.values()):
            self._kept.add(n, start, end, encode_changes(changes))
        for session in tuple(self.by_replica.values()):
            session.pump()
        self._drop_kept()

    def _drop_kept(self) -> None:
        """Drop the flushes that all were sent; a replica that is too far behind gets the tables again instead."""
        kept_from: list[int] = []
        for session in self.by_replica.values():
            n = session.kept_from
            if n is not None and self._kept.bytes_after(n) > REPLICA_KEPT_BYTES:
                session.fall_back()
            elif n is not None:
                kept_from.append(n)
        if kept_from:
            self._kept.drop_through(min(kept_from))
        else:
            self._kept.clear()

    def expire(self, now: float) -> None:
        """Send the beacons that are due, and end the sessions of replicas that are silent for too long."""
        for session in tuple(self.by_replica.values()):
            if now >= session.replica.last_received_at + REPLICA_DEAD_S:
                self.end(session, f"nothing came from it for {REPLICA_DEAD_S} s", now)
            elif now >= session.replica.beacon_at:
                session.send_beacon()

    def end(self, session: ReplicaSession, reason: str, now: float) -> None:
        """End a session because of something that this master has found."""
        logger.warning("%s: the stream to replica %d ends: %s", self._name, session.replica.replica_id, reason)
        self._remove(session, now)

    def connection_closed(self, connection: Connection, now: float) -> None:
        """End the session of a connection that is closed, if it has one."""
        session = self._by_connection.get(connection)
        if session is not None:
            self._remove(session, now)

    def close(self, now: float) -> None:
        """End all sessions."""
        for session in self:
            self._remove(session, now)

    def _remove(self, session: ReplicaSession, now: float) -> None:
        self._by_connection.pop(session.connection, None)
        had_begun = self.by_replica.get(session.replica.replica_id) is session
        if had_begun:
            del self.by_replica[session.replica.replica_id]
            session.replica.disconnected(now)
            self._drop_kept()
        session.connection.close()
        if had_begun:
            self._ended()
