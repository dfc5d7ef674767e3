"""A client that speaks TLS over buffers in memory, and checks no certificate, as clients of RocketMQ 5 for Java."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import cast


def unchecked_context() -> ssl.SSLContext:
    """The context of such a client, which offers HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class TlsClient(asyncio.Protocol):
    """One connection.

    Attributes:
        got: the decrypted bytes.
        is_shaken: whether its handshake has succeeded.
        error: the reason why TLS failed, or None.
        closed: done when the connection is gone.
        tls: its side of TLS.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        made = context or unchecked_context()
        self.tls = made.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.got = b""
        self.is_shaken = False
        self.error: ssl.SSLError | None = None
        self.closed: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._unsent = b""

    def greeting(self) -> bytes:
        """Its first bytes."""
        return self.answer(b"")

    def answer(self, data: bytes) -> bytes:
        """Take bytes of the server; returns those to send."""
        self._incoming.write(data)
        try:
            if not self.is_shaken:
                self.tls.do_handshake()
                self.is_shaken = True
                if self._unsent:
                    self.tls.write(self._unsent)
            while piece := self.tls.read(65_536):
                self.got += piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = error
        return self._outgoing.read()

    def encrypted(self, data: bytes) -> bytes:
        """The bytes to send for these; after the handshake."""
        self.tls.write(data)
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """The bytes that end TLS."""
        with suppress(ssl.SSLError):  # it wants to read the farewell of the server
            self.tls.unwrap()
        return self._outgoing.read()

    # --- over a transport --------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes, encrypted, as soon as the handshake is done."""
        if self.is_shaken:
            self.write_raw(self.encrypted(data))
        else:
            self._unsent += data

    def write_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self._transport = cast(asyncio.Transport, transport)
        self.begin()

    def begin(self) -> None:
        """Greet; a test may replace it."""
        self.write_raw(self.greeting())

    def data_received(self, data: bytes) -> None:
        out = self.answer(data)
        if out:
            self.write_raw(out)

    def connection_lost(self, error: Exception | None) -> None:
        assert self.closed is not None
        self.closed.set_result(None)
