"""Claims: whose a client id is, or the id of a query that writes through a sink. Pure.

An id belongs to the user that used it first, for as long as that user goes on: until it was silent for so long that
brokers have removed its members, too. Without that, whoever may be a member of a group could act for any other member
of it, because client ids are no secret.

    claims.claim("c1", "billing", 0.0)      -> True     it is billing's now
    claims.claim("c1", "reports", 10.0)     -> False
    claims.claim("c1", "reports", 10_000.0) -> True     billing has not used it for hours
"""

from __future__ import annotations

from model.access_limits import CLAIM_KEPT_S, MAX_CLAIMS_OF_USER
from model.errors import SystemBusy


class Claims:
    """Ids and their users. Each is bounded for itself, so that no user can take the room of another."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}  # id -> user
        self._used: dict[str, dict[str, float]] = {}  # user -> id -> when it was used last, the oldest first

    def __len__(self) -> int:
        return len(self._users)

    def owner(self, name: str) -> str | None:
        """The user that an id belongs to, or belonged to until another one claims it."""
        return self._users.get(name)

    def claim(self, name: str, user: str, now: float) -> bool:
        """Whether a user may use an id; from now on it is that user's.

        Raises:
            SystemBusy: the user has too many.
        """
        owner = self._users.get(name)
        if owner is not None and owner != user:
            if now < self._used[owner][name] + CLAIM_KEPT_S:
                return False
            del self._used[owner][name]
            del self._users[name]
        mine = self._used.setdefault(user, {})
        if mine.pop(name, None) is None and len(mine) >= MAX_CLAIMS_OF_USER:
            oldest = next(iter(mine))
            if now < mine[oldest] + CLAIM_KEPT_S:
                raise SystemBusy(
                    f"user {user!r} has used {len(mine)} client ids: use fewer, or wait until old ones end"
                )
            del mine[oldest], self._users[oldest]
        mine[name] = now
        self._users[name] = user
        return True
