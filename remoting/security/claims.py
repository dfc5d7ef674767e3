"""Claims: which user owns a client id, or the id of a query that writes through a sink. Pure.

An id belongs to the user that used it first, as long as a connection is open over which that user has used it, and
after that as long as brokers might keep its members. Without that, any user with the right to a group could act for
each of its members, because client ids are not secret. A broker keeps the owners of members and queries beyond that
time, and over its restarts: the gate asks for them with `owner_of`.

    first = IdsOfConnection(claims)
    first.claim("c1", "billing", 0.0)       -> True     billing owns it now
    second.claim("c1", "reports", 10_000.0) -> False    the first connection is open
    first.release_all(10_000.0)
    second.claim("c1", "reports", 20_000.0) -> True     billing has been away for hours
"""

from __future__ import annotations

from model.access_limits import CLAIM_KEPT_S, MAX_CLAIMS_OF_CONNECTION, MAX_CLAIMS_OF_USER
from model.errors import SystemBusy


class Claims:
    """Ids and their users. Each user has a limit of its own, so that no user can fill the table."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}  # id -> user
        self._n: dict[str, int] = {}  # user -> ids
        # id -> open connections that have used it and so hold it; a dict as an ordered set.
        self._holders: dict[str, dict[object, None]] = {}
        self._idle: dict[str, dict[str, float]] = {}  # user -> id that no connection holds -> since when, oldest first

    def __len__(self) -> int:
        return len(self._users)

    def claim(self, name: str, user: str, holder: object, now: float) -> bool:
        """Whether a user may use an id; if so, this connection holds it.

        Raises:
            SystemBusy: the user has too many ids.
        """
        owner = self._users.get(name)
        if owner is not None and owner != user:
            if name in self._holders or now < self._idle[owner][name] + CLAIM_KEPT_S:
                return False
            self._end(name)
            owner = None
        idle = self._idle.get(user, {})
        if owner is None:
            if self._n.get(user, 0) >= MAX_CLAIMS_OF_USER:
                oldest = next(iter(idle), None)
                if oldest is None or now < idle[oldest] + CLAIM_KEPT_S:
                    raise SystemBusy(
                        f"user {user!r} has {MAX_CLAIMS_OF_USER} client ids: use fewer, or wait until old ones end"
                    )
                self._end(oldest)
            self._users[name] = user
            self._n[user] = self._n.get(user, 0) + 1
        self._holders.setdefault(name, {})[holder] = None
        self._not_idle(user, name)
        return True

    def release(self, name: str, holder: object, now: float) -> None:
        """Release an id that a connection holds: it is closed, or no longer needs the id."""
        holders = self._holders.get(name, {})
        if holder not in holders:
            return  # it was forgotten with its user
        del holders[holder]
        if not holders:
            del self._holders[name]
            self._idle.setdefault(self._users[name], {})[name] = now

    def forget(self, user: str) -> None:
        """End all claims of a user that an operator has removed."""
        for name in [name for name, owner in self._users.items() if owner == user]:
            self._end(name)

    def _end(self, name: str) -> None:
        user = self._users.pop(name)
        self._holders.pop(name, None)
        self._not_idle(user, name)
        self._n[user] -= 1
        if not self._n[user]:
            del self._n[user]

    def _not_idle(self, user: str, name: str) -> None:
        idle = self._idle.get(user)
        if idle is not None and idle.pop(name, None) is not None and not idle:
            del self._idle[user]


class IdsOfConnection:
    """The ids that were used over one connection; `names` has them, the oldest first."""

    __slots__ = ("_claims", "names")

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self.names: dict[str, None] = {}

    def claim(self, name: str, user: str, now: float) -> bool:
        """Whether a user may use an id over this connection, which then holds it; at a limit the oldest is released.

        Raises:
            SystemBusy: see `Claims.claim`.
        """
        if name in self.names:
            return True
        if not self._claims.claim(name, user, self, now):
            return False
        self.names[name] = None
        if len(self.names) > MAX_CLAIMS_OF_CONNECTION:
            oldest = next(iter(self.names))
            del self.names[oldest]
            self._claims.release(oldest, self, now)
        return True

    def release_all(self, now: float) -> None:
        """Release all ids of the connection, which is closed."""
        for name in self.names:
            self._claims.release(name, self, now)
        self.names.clear()
