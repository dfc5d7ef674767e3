"""SilentPeers: closes connections to a server whose peers hang or have vanished, where the protocol has a ping. Shell.

A process that hangs closes nothing, and its system confirms all that arrives, so that `keepalive.py` finds nothing. Nor
does it probe a peer whose machine vanished while an answer was on its way: Linux sends that again for 15 minutes. In
most protocols silence means nothing. In HTTP/2 it does, after a PING, which the peer's library answers by itself.

    0 s the last byte arrives    10 to 20 s a PING leaves    20 s after that: the connection is closed

A peer that reads is alive, too: bytes that wait to be sent become fewer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from model.grpc_limits import SILENT_PEER_S, SILENT_PEER_TIMEOUT_S
from remoting.overload.lifecycle import Lifecycle

logger = logging.getLogger(__name__)

_PINGED_AT = 1
_CLOSED_AT = _PINGED_AT + int(SILENT_PEER_TIMEOUT_S / SILENT_PEER_S)
_ASLEEP_S = 1.0
"""A timer that fires this late: the process did not run, and has not read the bytes that arrived since."""


class ServedConnection(Protocol):
    """A connection of a server, as `remoting/connection.py` has it."""

    peer: str
    reads: int
    closed: bool
    lifecycle: Lifecycle | None

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the system has not accepted yet."""
        ...

    @property
    def is_held_back(self) -> bool:
        """Whether this side does not read at the moment, so that the peer's bytes do not arrive."""
        ...

    def drop_unsent(self, reason: str) -> None:
        """Close it at once."""
        ...

    async def wait_closed(self) -> None:
        """Wait until it is closed."""


class _Seen(NamedTuple):
    """A connection at the last look, and for how many looks it had been silent then."""

    reads: int
    unsent_bytes: int
    silent_looks: int


class SilentPeers:
    """See the module header.

    Args:
        loop: the running loop.
        connections: the open connections of the server, as they are at each look.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: Iterable[ServedConnection]) -> None:
        self._loop = loop
        self._connections = connections
        self._seen: dict[ServedConnection, _Seen] = {}
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Look at the connections from now on, until none is left."""
        if self._timer is None:
            self._due = self._loop.time() + SILENT_PEER_S
            self._timer = self._loop.call_at(self._due, self._look)

    async def leave(self) -> None:
        """Look no more; announce the end of the server where the protocol can, and wait until those peers close.

        Cancellation: harmless; the others are still open then.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        leaving = [each for each in self._connections if each.lifecycle is not None and not each.closed]
        for connection in leaving:
            if connection.lifecycle is not None:
                connection.lifecycle.leave()
        for connection in leaving:
            await connection.wait_closed()

    def _look(self) -> None:
        self._timer = None
        was_asleep = self._loop.time() > self._due + _ASLEEP_S
        old_seen, self._seen = self._seen, {}
        connections = list(self._connections)
        for connection in connections:
            if connection.lifecycle is None or connection.closed:
                continue
            connection.lifecycle.look()
            seen = None if was_asleep else old_seen.get(connection)
            if seen is None or connection.is_held_back or _is_alive(connection, seen):
                looks = 0
            else:
                looks = seen.silent_looks + 1
            if looks >= _CLOSED_AT:
                text = "closing the connection of %s: nothing arrived within %g s after a PING"
                logger.warning(text, connection.peer, SILENT_PEER_TIMEOUT_S)
                connection.drop_unsent("its peer did not answer a PING")
                continue
            if looks == _PINGED_AT:
                connection.lifecycle.ping()
            self._seen[connection] = _Seen(connection.reads, connection.unsent_bytes, looks)
        if connections:
            self.watch()


def _is_alive(connection: ServedConnection, seen: _Seen) -> bool:
    return connection.reads != seen.reads or connection.unsent_bytes < seen.unsent_bytes
