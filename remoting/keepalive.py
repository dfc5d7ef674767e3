"""Finds out that a peer has vanished without a word: its machine lost power, or a router forgot the connection.

RocketMQ's servers close what was silent for 120 s (serverChannelMaxIdleTimeSeconds). Here silence is no sign: the owner
of an administrator's connection may think for an hour. So the system asks the peer's system, which answers as long as
the connection is known there, however idle or busy the process is; after two minutes without an answer the connection
ends like any other that is lost. Without it a server would keep the connections of vanished clients for ever, up to
`MAX_CONNECTIONS`.
"""

from __future__ import annotations

import asyncio
import socket

from model.limits import KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES

# macOS calls the first one by another name.
_OPTIONS = (
    (getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None), KEEPALIVE_IDLE_S),
    (getattr(socket, "TCP_KEEPINTVL", None), KEEPALIVE_INTERVAL_S),
    (getattr(socket, "TCP_KEEPCNT", None), KEEPALIVE_PROBES),
)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the system watch a TCP connection while it is idle. What has no socket, or a closed one, is left alone."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _OPTIONS:
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, int(value))
    except OSError:
        # The peer was faster than we are: the connection is closed, and its end is reported as any other.
        return
