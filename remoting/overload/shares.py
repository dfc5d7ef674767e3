"""Shares: how much of each table of a server one user has, so that no user can fill a table. Pure.

A user, or without access control an address, may have a quarter of a table. A share refuses additions and drops
nothing: entries above it, added by an earlier run, stay until their owner removes them.

    book = ShareBook()
    topics = book.of("topics", 100, "delete some")
    alice = find_sharer("user alice")
    topics.check(alice), topics.add(alice.number)      25 times
    topics.check(alice)                                SystemBusy: user alice has 25 of the 100 topics ...
    topics.check(find_sharer("user bob"))                there is room

Without access control the addresses of this machine have no share. A client on the server's own machine is its
operator, and cannot be distinguished from others there. A server that listens on 127.0.0.1 has no other clients, so a
share would protect no one and cost three quarters of each table; swarms and benchmarks of a thousand members run this
way. With access control users are distinguished on any address, and each has a share.

A sharer has a number, which tables keep instead of a name and store with their entries: 31 bits of a hash, so that it
is the same after a restart. Two users with one number would have one share together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from model.errors import SystemBusy
from model.limits import SHARE_OF_ONE
from remoting.address import is_loopback

_USER = "user "
_MAX_KNOWN = 4_096
_LOOPBACK_OF_IPV6 = "::/64"
"""The network of ::1. It counts as one address, like any network of this length; no other host has an address in it."""


class Sharer(NamedTuple):
    """A user or an address; number 0 has no share and may use a whole table."""

    number: int
    name: str


NO_SHARER = Sharer(0, "")
"""The server itself, or a client on its machine."""


@lru_cache(_MAX_KNOWN)
def find_sharer(owner: str) -> Sharer:
    """The sharer behind a connection, from its `owner`: `user NAME`, or an address without access control."""
    if not owner or owner == _LOOPBACK_OF_IPV6 or is_loopback(owner):
        return NO_SHARER
    number = int.from_bytes(blake2b(owner.encode(), digest_size=4).digest(), "big") >> 1
    return Sharer(number or 1, owner if owner.startswith(_USER) else f"address {owner}")


class Shares:
    """The entries of each sharer in one table.

    Attributes:
        what: the entries of the table, in the plural.
        share: how many entries one sharer may have.
        refused: additions that were refused since the start.
    """

    __slots__ = ("_advice", "_limit", "_of", "_on_refused", "refused", "share", "what")

    def __init__(
        self, resource: str, limit: int, advice: str, on_refused: Callable[[str], object] = lambda text: None
    ) -> None:
        self.what = resource
        self.share = max(1, limit // SHARE_OF_ONE)
        self.refused = 0
        self._limit = limit
        self._advice = advice
        self._on_refused = on_refused
        self._of: dict[int, int] = {}

    def of(self, number: int) -> int:
        """Number of entries of a sharer."""
        return self._of.get(number, 0)

    @property
    def largest(self) -> int:
        """Number of entries of the largest sharer."""
        return max(self._of.values(), default=0)

    def check(self, sharer: Sharer, n: int = 1) -> None:
        """Check that a sharer may add entries.

        Raises:
            SystemBusy: the sharer would have more than its share.
        """
        if sharer.number and self._of.get(sharer.number, 0) + n > self.share:
            raise SystemBusy(self.refuse(sharer, self.of(sharer.number), self._limit))

    def refuse(self, sharer: Sharer, n_of_sharer: int, limit: int) -> str:
        """Count a refusal; returns its text."""
        self.refused += 1
        text = (
            f"{sharer.name} has {n_of_sharer:,} of the {limit:,} {self.what} of this broker, of which one user, or "
            f"without access control one address, may have a quarter: {self._advice}"
        )
        self._on_refused(text)
        return text

    def add(self, number: int, n: int = 1) -> None:
        """Count entries of a sharer, even above its share."""
        if number and (n_of_sharer := self._of.get(number, 0) + n):
            self._of[number] = n_of_sharer
        elif number:
            self._of.pop(number, None)

    def remove(self, number: int, n: int = 1) -> None:
        """Stop counting entries of a sharer."""
        self.add(number, -n)


class ShareBook:
    """The shares of all tables of one server."""

    def __init__(self, on_refused: Callable[[str], object] = lambda text: None) -> None:
        self._on_refused = on_refused
        self.tables: dict[str, Shares] = {}

    def of(self, resource: str, limit: int, advice: str) -> Shares:
        """Create the shares of a table; `advice` is for a user with a full share."""
        shares = self.tables[resource] = Shares(resource, limit, advice, self._on_refused)
        return shares
