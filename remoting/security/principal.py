"""Principal: a user whose key was proved, with its rights, its quotas, and the requests allowed before. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from model.access_limits import MAX_REMEMBERED_PERMISSIONS, QUOTA_BURST_S
from model.errors import NoPermission, SystemBusy
from remoting.command import short_text
from remoting.security.policy import User
from remoting.security.right_fields import RequiredRight

USER = "user "
"""The owner of a connection is this and the name of the user; see `Connection.owner`."""


class Quota:
    """A token bucket that fills at a rate and holds the tokens of `QUOTA_BURST_S`: a burst passes, a flood does not."""

    __slots__ = ("_filled_at", "_tokens", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._tokens = rate * QUOTA_BURST_S
        self._filled_at = -math.inf

    def acquire(self, n: float, now: float) -> float:
        """Take `n` tokens and return 0.0; or, if there are too few, take none and return the seconds to wait.

        One request that is larger than the bucket passes when it is full, and leaves a debt.
        """
        full = self.rate * QUOTA_BURST_S
        self._tokens = min(full, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
        n_needed = min(n, full)
        if self._tokens < n_needed - 1e-9:
            return (n_needed - self._tokens) / self.rate
        self._tokens -= n
        return 0.0


class Principal:
    """One user of a server, however many connections it has.

    Attributes:
        permitted: requests that were allowed, by the key with which the gate distinguishes them; cleared with each new
            policy.
    """

    def __init__(self, user: User) -> None:
        self.user = user
        self.permitted: set[object] = set()
        self._requests: Quota | None = None
        self._bytes: Quota | None = None
        self.has_quota = False
        self.become(user)

    def become(self, user: User) -> None:
        """Apply the current entry of the access file."""
        self.user = user
        self.permitted.clear()
        rights = user.rights
        self._requests = _quota(self._requests, rights.requests_per_s)
        self._bytes = _quota(self._bytes, rights.bytes_per_s)
        self.has_quota = self._requests is not None or self._bytes is not None

    def check(self, request: str, needed_rights: Iterable[RequiredRight]) -> None:
        """Check that its rights include all rights that a request takes.

        Raises:
            NoPermission: they do not; the error names the missing right.
        """
        for right, name in needed_rights:
            if not self.user.rights.allow(right, name):
                missing_right = f"{right.value} {short_text(name)}" if name else right.value
                raise NoPermission(
                    f"user {self.user.name!r} may not {request}: it lacks the right: {missing_right}. The "
                    "administrator of the cluster's access file can grant it"
                )

    def permit(self, key: object) -> None:
        """Remember that a request is allowed."""
        if len(self.permitted) >= MAX_REMEMBERED_PERMISSIONS:
            self.permitted.clear()
        self.permitted.add(key)

    def spend(self, n_bytes: int, now: float) -> None:
        """Count a request and its bytes against the quotas.

        Raises:
            SystemBusy: a quota is used up; the error has the time to wait.
        """
        wait_s = self._requests.acquire(1, now) if self._requests is not None else 0.0
        if not wait_s and self._bytes is not None:
            wait_s = self._bytes.acquire(n_bytes, now)
        if wait_s:
            error = SystemBusy(f"user {self.user.name!r} has used up its quota: try again in {wait_s:.2f} s")
            error.retry_after_s = max(wait_s, 0.001)
            raise error


def _quota(old: Quota | None, rate: float) -> Quota | None:
    if not rate:
        return None
    return old if old is not None and old.rate == rate else Quota(rate)
