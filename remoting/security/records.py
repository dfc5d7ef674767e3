"""Signed records: what passes over a connection after the handshake. Pure.

A record is all that one side writes at a time, whole frames or parts of them, with a signature in front:

    4 bytes   length of the payload
    16 bytes  HMAC-SHA256 of the number of the record and of the payload, cut to 128 bits, with the key of the direction
    payload   the stream of frames goes on here

Both sides count records, and the number is nowhere on the wire: a record that is repeated, left out, put elsewhere or
sent over another connection is as wrong as a changed one, and ends the connection. One signature for each write, not
for each frame, because a signature of a short text takes as long as the rest of a frame: with 64 sends under way that
is one for sixteen of them. Nothing is encrypted here; that is for TLS.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable

from model.access_limits import MAX_RECORD_BYTES
from model.errors import ProtocolError
from remoting.codec import Decoder
from remoting.command import Command

MAC_BYTES = 16
_START = struct.Struct(f">I{MAC_BYTES}s")
RECORD_START_BYTES = _START.size
_NUMBER = struct.Struct(">Q").pack


class RecordSigner:
    """Signs what one side writes; it splits what is longer than a record."""

    __slots__ = ("_key", "_number")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def sign(self, data: bytes) -> bytes:
        """Return the data as records."""
        if len(data) <= MAX_RECORD_BYTES:
            return self._record(data)
        parts = range(0, len(data), MAX_RECORD_BYTES)
        return b"".join(self._record(data[start : start + MAX_RECORD_BYTES]) for start in parts)

    def _record(self, payload: bytes) -> bytes:
        mac = hmac.digest(self._key, _NUMBER(self._number) + payload, "sha256")[:MAC_BYTES]
        self._number += 1
        return _START.pack(len(payload), mac) + payload


class RecordDecoder:
    """Checks the records of the other side, and decodes what is in them; nothing is decoded before it is checked."""

    __slots__ = ("_buffer", "_inner", "_key", "_number", "error", "under_way")

    def __init__(self, key: bytes, inner: Callable[[], Decoder]) -> None:
        self.error: ProtocolError | None = None
        self.under_way = 0
        self._key = key
        self._inner = inner()
        self._number = 0
        self._buffer = b""

    def feed(self, data: bytes) -> list[Command]:
        """See `remoting.codec.Decoder.feed`."""
        if self.error is not None:
            return []
        stream = self._buffer + data if self._buffer else data
        commands: list[Command] = []
        position, end, under_way = 0, len(stream), 0
        while position < end:
            if end - position < _START.size:
                under_way = _START.size
                break
            length, mac = _START.unpack_from(stream, position)
            start = position + _START.size
            if not 0 < length <= MAX_RECORD_BYTES:
                self.error = ProtocolError(f"a signed record of {length} bytes was announced: up to {MAX_RECORD_BYTES}")
                break
            if end - start < length:
                under_way = length
                break
            position = start + length
            payload = stream[start:position]
            if not self._is_signed(mac, payload):
                self.error = ProtocolError("the signature of a record is wrong: it was changed, repeated or left out")
                break
            commands += self._inner.feed(payload)
            if self._inner.error is not None:
                self.error = self._inner.error
                break
        self._buffer = b"" if self.error is not None else stream[position:]
        self.under_way = self._inner.under_way or under_way
        return commands

    def _is_signed(self, mac: bytes, payload: bytes) -> bool:
        right = hmac.digest(self._key, _NUMBER(self._number) + payload, "sha256")
        self._number += 1
        return hmac.compare_digest(right[:MAC_BYTES], mac)

    def at_frame_boundary(self) -> bool:
        """See `remoting.codec.Decoder.at_frame_boundary`."""
        return not self._buffer and self._inner.at_frame_boundary()
