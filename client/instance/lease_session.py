"""The time until which a member may dispatch messages under its leases of one broker. Pure.

A broker ends a lease when no heartbeat of its owner has come for the session timeout, or shortly after their connection
has closed. At that moment the broker may be unable to reach the owner. So the owner computes a time that is never later
than the broker's, because a heartbeat arrives at the broker after it was sent:

    heartbeat sent at 10.0, answered at 10.2, timeout 3 s    the broker keeps our leases until 13.0 at least
    heartbeat sent at 11.0, not answered                     dispatch stops at 13.0: it may not have arrived
    the connection closes                                    dispatch stops at once: the grace period has begun

A session ends by one of these, or by an answer that we were not a member, and is not continued: the next answered
heartbeat begins a new one, under which the broker has to confirm each lease before it is valid again. If the queue was
granted to no other member in between, the owner goes on with the messages that it has fetched.

RocketMQ: a client counts on its lock until 30 s after the answer, a broker keeps it until 60 s after the request; and
only orderly consumers check it.
"""

from __future__ import annotations

from typing import Protocol


class Closable(Protocol):
    """The connection of a session."""

    @property
    def closed(self) -> bool:
        """Whether it is gone or going."""
        ...


class LeaseSession:
    """A period in which one broker has received the heartbeats of one group's member without a gap.

    It ends at `good_until`, a loop time in seconds, or when the connection closes.
    """

    __slots__ = ("_connection", "_good_until")

    def __init__(self, connection: Closable, good_until: float) -> None:
        self._connection = connection
        self._good_until = good_until

    def good(self, now: float) -> bool:
        """Whether the leases that were confirmed in this session are certainly valid."""
        return now < self._good_until and not self._connection.closed

    @property
    def ends(self) -> float:
        """The loop time at which it ends, in seconds; its connection may end it before that."""
        return self._good_until

    def is_of(self, connection: Closable) -> bool:
        """Whether it belongs to this connection."""
        return self._connection is connection

    def prolong(self, good_until: float) -> None:
        """Record one more answered heartbeat. Answers may arrive in another order than the heartbeats were sent."""
        self._good_until = max(self._good_until, good_until)

    def end(self) -> None:
        """Record that the broker has ended it."""
        self._good_until = float("-inf")


class LeaseSessions:
    """The sessions of one client instance, by group and address of the broker."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], LeaseSession] = {}

    def current(self, group: str, address: str, now: float) -> LeaseSession | None:
        """The session under which a lease may be requested or confirmed now; None until the next answered heartbeat."""
        session = self._sessions.get((group, address))
        return session if session is not None and session.good(now) else None

    def record_answer(
        self, group: str, address: str, connection: Closable, *, good_until: float, joined: bool, now: float
    ) -> bool:
        """Record that a broker has answered a heartbeat; returns whether a new session has begun.

        `good_until` is the time at which the heartbeat was sent plus the session timeout; `joined` is the broker's
        answer that we were not a member before. Under a new session leases have to be confirmed.
        """
        session = self._sessions.get((group, address))
        if session is not None and not joined and session.is_of(connection) and session.good(now):
            session.prolong(good_until)
            return False
        if session is not None:
            session.end()
        # This bounds the table: sessions that have ended make room for new ones.
        self._sessions = {key: each for key, each in self._sessions.items() if each.good(now)}
        self._sessions[(group, address)] = LeaseSession(connection, good_until)
        return True

    def end_at(self, address: str) -> None:
        """End the sessions with a broker that has left an address: each lease has to be confirmed."""
        for key in [key for key in self._sessions if key[1] == address]:
            self._sessions.pop(key).end()

    def forget(self, group: str) -> None:
        """End the sessions of a group that this client leaves."""
        for key in [key for key in self._sessions if key[0] == group]:
            self._sessions.pop(key).end()
