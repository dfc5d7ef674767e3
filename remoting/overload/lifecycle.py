"""Lifecycle: what a server sends to a peer by itself, in a protocol that has frames for that, as HTTP/2 has. Pure."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Lifecycle(Protocol):
    """A codec of such a protocol, for one connection."""

    @property
    def held_bytes(self) -> int:
        """Bytes of answers that it does not send yet, because the peer does not want them."""
        ...

    def look(self) -> None:
        """End what takes the peer too long; called every `SILENT_PEER_S`."""

    def leave(self) -> None:
        """Announce that the server stops: the peer begins new calls elsewhere, and closes after those under way."""

    def ping(self) -> None:
        """Ask for a sign of life, which any peer that runs sends at once."""
