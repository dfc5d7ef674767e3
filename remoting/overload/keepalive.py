"""Probes of idle connections by the system: they find peers that vanished without closing.

A machine lost power, or a router forgot the connection. RocketMQ's servers close a connection that was silent for 120 s
(serverChannelMaxIdleTimeSeconds). Here silence is not a sign: an administrator may think for an hour. So the system
probes the peer's system (TCP keepalive), which answers as long as it knows the connection, however idle or busy the
process is; after two minutes without an answer the connection is lost like any other. Otherwise vanished clients would
fill a server up to `MAX_CONNECTIONS`.
"""

from __future__ import annotations

import asyncio
import socket

from model.limits import KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES

# macOS has another name for the first one.
_KEEPALIVE = (
    (getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None), KEEPALIVE_IDLE_S),
    (getattr(socket, "TCP_KEEPINTVL", None), KEEPALIVE_INTERVAL_S),
    (getattr(socket, "TCP_KEEPCNT", None), KEEPALIVE_PROBES),
)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Make the system probe a TCP connection while it is idle; do nothing without an open socket."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, int(value))
    except OSError:
        # The peer was faster than we are: the connection is closed, and its end is reported as any other.
        return
