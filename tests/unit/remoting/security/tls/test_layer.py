"""The server's side of TLS over buffers: bytes cut anywhere, both ends, and peers that break it."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remoting.security.tls.certificates import self_signed_context
from remoting.security.tls.layer import TlsLayer
from tests.unit.remoting.security.tls.tls_client import TlsClient

CONTEXT = self_signed_context()
BYTES = st.binary(max_size=50) | st.integers(16_000, 40_000).map(bytes)


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and knows nothing of a socket."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 1)})
        self.protocol: asyncio.BaseProtocol | None = None
        self.written = b""
        self.calls: list[str] = []

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def take(self) -> bytes:
        data, self.written = self.written, b""
        return data

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return bool(self.calls)

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")

    def get_write_buffer_size(self) -> int:
        return 7


class Above(asyncio.Protocol):
    """The connection over the layer."""

    def __init__(self) -> None:
        self.got = b""
        self.calls: list[str] = []

    def data_received(self, data: bytes) -> None:
        self.got += data

    def eof_received(self) -> bool:
        self.calls.append("eof_received")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.calls.append("connection_lost")

    def pause_writing(self) -> None:
        self.calls.append("pause_writing")

    def resume_writing(self) -> None:
        self.calls.append("resume_writing")


class Pair:
    """A layer with a client at the other end of its wire."""

    def __init__(self) -> None:
        self.wire, self.above, self.client = Wire(), Above(), TlsClient()
        self.events: list[str] = []
        self.layer = TlsLayer(
            CONTEXT, self.wire, self.above, lambda: self.events.append("shaken"), lambda e: self.events.append(str(e))
        )

    def shake_hands(self, size: int = 1 << 20) -> None:
        data = self.client.greeting()
        while data:
            for at in range(0, len(data), size):
                self.layer.data_received(data[at : at + size])
            data = self.client.answer(self.wire.take())
        assert (self.client.is_shaken, self.events) == (True, ["shaken"])


@given(st.integers(1, 600), st.lists(BYTES, max_size=3), st.lists(BYTES, max_size=3))
def test_bytes_in_pieces_of_any_size_are_decrypted_and_answers_are_encrypted(
    size: int, sent: list[bytes], answered: list[bytes]
) -> None:
    pair = Pair()
    pair.shake_hands(size)
    data = b"".join(pair.client.encrypted(each) for each in sent if each)
    for at in range(0, len(data), size):
        pair.layer.data_received(data[at : at + size])
    assert pair.above.got == b"".join(sent)
    for each in answered:
        pair.layer.write(each)
    assert not [each for each in answered if len(each) > 16 and each in pair.wire.written]
    pair.client.answer(pair.wire.take())
    assert pair.client.got == b"".join(answered)


def test_nothing_leaves_before_the_handshake_because_it_would_not_be_encrypted() -> None:
    pair = Pair()
    pair.layer.write(b"secret")
    assert pair.wire.written == b""
    pair.shake_hands()
    assert pair.client.got == b""


def test_the_end_of_tls_closes_the_connection_and_is_answered() -> None:
    pair = Pair()
    pair.shake_hands()
    pair.layer.data_received(pair.client.encrypted(b"last") + pair.client.farewell())
    assert (pair.above.got, pair.wire.calls) == (b"last", ["close"])
    assert pair.wire.take(), "the farewell of the server"
    pair.layer.write(b"an answer that comes too late")
    pair.layer.close()
    assert pair.wire.take() == b""


def test_garbage_gets_an_alert_and_the_reason_is_recorded() -> None:
    pair = Pair()
    pair.layer.data_received(b"\x16\x03\x01\x00\x04none")
    assert pair.wire.take()[:1] == b"\x15", "an alert"
    assert (pair.wire.calls, len(pair.events)) == (["close"], 1)
    assert pair.above.got == b""


def test_a_changed_record_ends_the_connection() -> None:
    pair = Pair()
    pair.shake_hands()
    record = pair.client.encrypted(b"attack at dawn")
    pair.layer.data_received(record[:-1] + bytes((record[-1] ^ 1,)))
    assert (pair.above.got, pair.wire.calls) == (b"", ["close"])
    assert "BAD" in pair.events[-1].upper() or "decrypt" in pair.events[-1].lower(), pair.events


def test_everything_else_is_passed_on_in_both_directions() -> None:
    pair = Pair()
    assert pair.wire.protocol is pair.layer
    pair.layer.pause_writing()
    pair.layer.resume_writing()
    assert pair.layer.eof_received() is False
    pair.layer.connection_lost(None)
    assert pair.above.calls == ["pause_writing", "resume_writing", "eof_received", "connection_lost"]
    pair.layer.pause_reading()
    pair.layer.resume_reading()
    assert not pair.wire.calls[2:]
    pair.layer.abort()
    assert pair.wire.calls == ["pause_reading", "resume_reading", "abort"]
    assert (pair.layer.is_closing(), pair.layer.get_write_buffer_size()) == (True, 7)
    assert pair.layer.get_extra_info("peername") == ("10.0.0.1", 1)
    assert isinstance(pair.layer.get_extra_info("ssl_object"), ssl.SSLObject)
