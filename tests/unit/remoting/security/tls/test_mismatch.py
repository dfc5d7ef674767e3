"""A second connection of the other kind finds out whether a server uses TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import trustme

from remoting.codec import CODEC
from remoting.command import RESPONSE
from remoting.security.tls.mismatch import (
    MAX_PROBE_S,
    answers_plain_frames,
    is_refusal,
    refuses_certificate,
    uses_tls,
)

ANSWER = CODEC.encode(RESPONSE, 0, 1, {}, None)
PATIENCE_S = 30.0


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve one connection in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                talk(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        host, port = listening.getsockname()
        yield f"{host}:{port}"
        thread.join()


@contextmanager
def server_with_tls() -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").configure_cert(context)

    def talk(peer: socket.socket) -> None:
        try:
            context.wrap_socket(peer, server_side=True).close()
        except ssl.SSLError:
            peer.close()

    with server(talk) as address:
        yield address


def plain(answer: bytes) -> Callable[[socket.socket], None]:
    def talk(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(answer)

    return talk


def test_a_server_with_tls_is_recognised_without_trust_in_its_certificate() -> None:
    with server_with_tls() as address:
        assert uses_tls(address, PATIENCE_S)
    with server_with_tls() as address:
        assert not answers_plain_frames(address, PATIENCE_S)


def test_a_server_without_tls_answers_a_frame_and_no_greeting() -> None:
    with server(plain(ANSWER)) as address:
        assert answers_plain_frames(address, PATIENCE_S)
    with server(plain(ANSWER)) as address:
        assert not uses_tls(address, PATIENCE_S)


@pytest.mark.parametrize("answer", [b"", b"\x00\x00", b"\x15\x03\x03\x00\x02\x02\x46"])
def test_a_server_that_closes_or_answers_something_else_is_of_no_kind(answer: bytes) -> None:
    with server(plain(answer)) as address:
        assert not answers_plain_frames(address, PATIENCE_S)


def test_a_server_that_is_away_is_of_no_kind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        host, port = gone.getsockname()
    assert not uses_tls(f"{host}:{port}", PATIENCE_S)
    assert not answers_plain_frames(f"{host}:{port}", PATIENCE_S)


def test_a_server_that_stops_is_not_one_that_refuses_a_certificate() -> None:
    with server(lambda peer: peer.close()) as address:
        assert not refuses_certificate(address, ssl.create_default_context(), PATIENCE_S)
    assert not refuses_certificate(address, ssl.create_default_context(), PATIENCE_S)


def test_a_probe_has_a_limit_below_that_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def refuse(address: tuple[str, int], timeout_s: float) -> socket.socket:
        limits.append(timeout_s)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert not uses_tls("127.0.0.1:1", 60.0)
    assert not answers_plain_frames("127.0.0.1:1", 60.0)
    assert not uses_tls("127.0.0.1:1", 0.5)
    assert limits == [MAX_PROBE_S, MAX_PROBE_S, 0.5]


def test_a_connection_that_ends_is_no_refusal() -> None:
    assert not is_refusal(ssl.SSLEOFError(8, "EOF occurred"))
    assert not is_refusal(ConnectionResetError())
    assert is_refusal(ssl.SSLCertVerificationError("certificate has expired"))
