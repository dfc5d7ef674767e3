"""Until when a member may hand out messages under its leases of one broker. Pure.

A broker ends a lease when it has not heard of its owner for the session timeout, or shortly after their connection has
closed. An owner that the broker cannot tell has to find out alone, and not later than the broker acts. It can: the
broker heard of it when the last answered heartbeat arrived, which was after it was sent.

    heartbeat sent at 10.0, answered at 10.2, timeout 3 s    the broker keeps our leases until 13.0 at least
    heartbeat sent at 11.0, not answered                     handing out stops at 13.0, for we cannot know
    the connection closes                                    handing out stops at once: the broker's grace has begun

A session ends by one of these, or by an answer that says that we were no member, and is not continued: a heartbeat that
is answered begins a new one, and then each lease has to be confirmed by the broker before it counts under that one. If
nobody else was granted the queue meanwhile, the owner goes on with the messages it has.

RocketMQ: a client takes its lock for good until 30 s after the lock request was answered, a broker for 60 s after it
came in; and only orderly consumers look at it.
"""

from __future__ import annotations

from typing import Protocol


class Closable(Protocol):
    """What a session needs of its connection."""

    @property
    def closed(self) -> bool:
        """Whether it is gone or going."""
        ...


class LeaseSession:
    """One stretch of time over which one broker has heard of one group's member without a gap.

    Args:
        connection: what it is heard over.
        good_until: loop time in seconds; see `heard`.
    """

    __slots__ = ("_connection", "_good_until")

    def __init__(self, connection: Closable, good_until: float) -> None:
        self._connection = connection
        self._good_until = good_until

    def good(self, now: float) -> bool:
        """Whether nobody else can have been granted a queue that was confirmed in this session."""
        return now < self._good_until and not self._connection.closed

    def is_of(self, connection: Closable) -> bool:
        """Whether it belongs to this connection."""
        return self._connection is connection

    def prolong(self, good_until: float) -> None:
        """Note one more heartbeat that was answered. Answers may come in another order than they were asked for."""
        self._good_until = max(self._good_until, good_until)

    def end(self) -> None:
        """Note that the broker has ended it."""
        self._good_until = float("-inf")


class LeaseSessions:
    """The sessions of one client instance, by group and address of the broker."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], LeaseSession] = {}

    def current(self, group: str, address: str, now: float) -> LeaseSession | None:
        """The session in which a lease may be asked for or confirmed now; None until the next heartbeat is answered."""
        session = self._sessions.get((group, address))
        return session if session is not None and session.good(now) else None

    def heard(
        self, group: str, address: str, connection: Closable, *, good_until: float, joined: bool, now: float
    ) -> bool:
        """Note that a broker has answered a heartbeat.

        Args:
            group: the group.
            address: the broker's.
            connection: what the answer came over.
            good_until: when the heartbeat was sent, loop time in seconds, plus the session timeout.
            joined: whether the broker says that we were no member before.
            now: loop time in seconds.

        Returns:
            Whether a new session has begun, so that leases have to be confirmed.
        """
        session = self._sessions.get((group, address))
        if session is not None and not joined and session.is_of(connection) and session.good(now):
            session.prolong(good_until)
            return False
        if session is not None:
            session.end()
        # The bound of the table: what is no good any more makes room for what is new.
        self._sessions = {key: each for key, each in self._sessions.items() if each.good(now)}
        self._sessions[(group, address)] = LeaseSession(connection, good_until)
        return True

    def forget(self, group: str) -> None:
        """End the sessions of a group that this client leaves."""
        for key in [key for key in self._sessions if key[0] == group]:
            self._sessions.pop(key).end()
