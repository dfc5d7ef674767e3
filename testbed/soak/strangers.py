"""Strangers: connections to a server that send garbage or nothing, and are closed."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

from remoting.address import parse_address

NONSENSE = [b"", b"\x00\x00\x00\x20half a frame", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00"]
"""The bytes that strangers send."""
TIMEOUT_S = 120.0
"""A machine may be busy with other things."""


def bother(address: str, tls: ssl.SSLContext) -> None:
    """Connect, and disconnect: at once, in the middle of a frame, or after garbage; some make a TLS connection before.

    The last ones wait until the server has ended the connection, too. It serves strangers in turn, so it has
    finished all of them then; a slow one would still have some, and the next sample would count them.
    """
    for nonsense in NONSENSE * 4:
        with _foreign_client(address) as outsider:
            outsider.sendall(nonsense)
    for nonsense in NONSENSE:
        with _foreign_client(address) as outsider, suppress(ConnectionResetError):  # it need not read everything
            outsider.sendall(nonsense)
            outsider.shutdown(socket.SHUT_WR)
            while outsider.recv(4096):
                pass
    with _foreign_client(address) as outsider, tls.wrap_socket(outsider) as secured:
        secured.sendall(NONSENSE[2])
        while secured.recv(4096):  # the error in a frame is reported before the end
            pass


def _foreign_client(address: str) -> socket.socket:
    return socket.create_connection(parse_address(address), timeout=TIMEOUT_S)
