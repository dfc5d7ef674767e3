"""TCP keepalive: the system probes idle connections, and so finds peers that vanished without closing.

A peer vanishes when its machine loses power, or when a router forgets the connection. RocketMQ's servers close a
connection that was silent for 120 s (serverChannelMaxIdleTimeSeconds). Here silence means nothing: an administrator may
think for an hour. So the system probes the peer's system (TCP keepalive), which answers as long as it knows the
connection, whether the process is idle or busy; after some seconds without an answer the connection is lost like any
other. Otherwise vanished clients would fill a server up to `MAX_CONNECTIONS`, and a consumer would wait for ever for
the answer to a pull.

Keepalive is for idle connections only. Linux resends unconfirmed bytes for 15 minutes. Clients shorten that time.
Servers do not: the same timer runs while a peer reads nothing, and a reader that is slow on purpose, as one in Spark,
has not vanished.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

from model.limits import KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES, UNACKNOWLEDGED_S

Option = tuple[int, int, int]
"""Level, name and value."""


class OptionSocket(Protocol):
    """A socket, or the object that a loop has in its place."""

    def setsockopt(self, level: int, name: int, value: int, /) -> object:
        """See `socket.socket`."""
        ...


def _tcp(*names: str, value: float) -> list[Option]:
    """The option of TCP with the first of these names that this system has, if it has any."""
    supported = [name for name in names if hasattr(socket, name)]
    return [(socket.IPPROTO_TCP, getattr(socket, supported[0]), int(value))] if supported else []


# macOS has another name for the first option.
_KEEPALIVE: list[Option] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *_tcp("TCP_KEEPIDLE", "TCP_KEEPALIVE", value=KEEPALIVE_IDLE_S),
    *_tcp("TCP_KEEPINTVL", value=KEEPALIVE_INTERVAL_S),
    *_tcp("TCP_KEEPCNT", value=KEEPALIVE_PROBES),
]
_UNACKNOWLEDGED: list[Option] = _tcp("TCP_USER_TIMEOUT", value=UNACKNOWLEDGED_S * 1000)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Make the system probe a TCP connection while it is idle; do nothing without an open socket."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        _set(sock, _KEEPALIVE)


def leave_when_unacknowledged(transport: asyncio.BaseTransport) -> None:
    """Make the system close a connection to a server that confirms nothing; do nothing without an open socket."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        _set(sock, _UNACKNOWLEDGED)


def watch_server(sock: OptionSocket) -> None:
    """Apply both functions above to the socket of a client that has no transport."""
    _set(sock, _KEEPALIVE + _UNACKNOWLEDGED)


def _set(sock: OptionSocket, options: list[Option]) -> None:
    try:
        for option in options:
            sock.setsockopt(*option)
    except OSError:
        # The peer has already closed the connection; its end is reported like any other.
        return
