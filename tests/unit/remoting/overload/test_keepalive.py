"""Idle connections are probed by the system, and what has no socket is left alone."""

from __future__ import annotations

import asyncio
import socket

import pytest

from model.limits import KEEPALIVE_IDLE_S, UNACKNOWLEDGED_S
from remoting.overload.keepalive import keep_alive, leave_when_unacknowledged, watch_server


class Transport(asyncio.BaseTransport):
    """What a real transport knows of its socket."""

    def __init__(self, sock: socket.socket | None) -> None:
        super().__init__({"socket": sock})


def test_a_socket_is_watched_from_now_on() -> None:
    with socket.socket() as sock:
        assert not sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        keep_alive(Transport(sock))
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)
        assert idle is not None
        assert sock.getsockopt(socket.IPPROTO_TCP, idle) == KEEPALIVE_IDLE_S


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
def test_only_a_client_leaves_a_peer_that_confirms_nothing() -> None:
    with socket.socket() as server, socket.socket() as client, socket.socket() as blocking:
        keep_alive(Transport(server))
        leave_when_unacknowledged(Transport(client))
        watch_server(blocking)
        found = [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for each in (server, client, blocking)]
        assert found == [0, UNACKNOWLEDGED_S * 1000, UNACKNOWLEDGED_S * 1000]
        assert blocking.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize("closed", [True, False])
def test_what_has_no_socket_or_a_closed_one_is_left_alone(closed: bool) -> None:
    sock = socket.socket()
    sock.close()
    keep_alive(Transport(sock if closed else None))
    leave_when_unacknowledged(Transport(sock if closed else None))
