"""Idle connections are probed by the system, and what has no socket is left alone."""

from __future__ import annotations

import asyncio
import socket

import pytest

from model.limits import KEEPALIVE_IDLE_S
from remoting.overload.keepalive import keep_alive


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


@pytest.mark.parametrize("closed", [True, False])
def test_what_has_no_socket_or_a_closed_one_is_left_alone(closed: bool) -> None:
    sock = socket.socket()
    sock.close()
    keep_alive(Transport(sock if closed else None))
