"""TlsLayer: TLS under a connection that has read the first bytes of the handshake already. Shell.

To the transport it is the protocol, and to the connection the transport:

    Connection --write--> TlsLayer --write--> transport
               <-------- data_received --------

An event loop can begin TLS only with the next bytes of a socket. Here the greeting has been read, because it
shows that the peer wants TLS, so the layer runs OpenSSL over buffers in memory. So it works with every event loop, the
virtual one included.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_READ_BYTES = 64 * 1024


class TlsLayer(asyncio.Transport, asyncio.Protocol):
    """The server's side of TLS on one connection.

    Args:
        context: with the certificate.
        below: the transport, whose protocol is this layer from now on.
        above: gets the decrypted bytes.
        on_shaken: called once, before any decrypted bytes, when the handshake has succeeded.
        on_failed: called with the reason when TLS failed; the connection is closed then.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        below: asyncio.Transport,
        above: asyncio.Protocol,
        on_shaken: Callable[[], None],
        on_failed: Callable[[ssl.SSLError], None],
    ) -> None:
        super().__init__()
        self._below = below
        self._above = above
        self._on_shaken = on_shaken
        self._on_failed = on_failed
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = self._is_closed = False
        below.set_protocol(self)

    # --- the protocol of the transport -------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._incoming.write(data)
        pieces: list[bytes] = []
        is_ended = False
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
                self._on_shaken()
            while not is_ended:
                piece = self._tls.read(_READ_BYTES)
                pieces.append(piece)
                is_ended = not piece
        except ssl.SSLWantReadError:
            pass  # everything that has arrived is read
        except ssl.SSLError as error:
            self._send()  # the alert that gives the reason
            self._on_failed(error)
            self._below.close()
            return
        self._send()
        if pieces:
            self._above.data_received(b"".join(pieces))
        if is_ended:
            self.close()

    def eof_received(self) -> bool | None:
        """Called by the loop."""
        return self._above.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        """Called by the loop."""
        self._above.pause_writing()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._above.resume_writing()

    # --- the transport of the connection -----------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """See `asyncio.WriteTransport`; nothing is sent before the end of the handshake, or after the end of TLS."""
        if data and self._is_open and not self._is_closed:
            self._tls.write(data)
            self._send()

    def close(self) -> None:
        """See `asyncio.BaseTransport`; TLS is ended first, so that the peer knows that nothing is missing."""
        if self._is_open and not self._is_closed:
            with suppress(ssl.SSLError):  # it wants to read the end of the peer's TLS, which is not waited for
                self._tls.unwrap()
            self._send()
        self._is_closed = True
        self._below.close()

    def abort(self) -> None:
        """See `asyncio.WriteTransport`."""
        self._below.abort()

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self._below.is_closing()

    def pause_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        self._below.resume_reading()

    def get_write_buffer_size(self) -> int:
        """See `asyncio.WriteTransport`."""
        return self._below.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See `asyncio.BaseTransport`."""
        return self._tls if name == "ssl_object" else self._below.get_extra_info(name, default)

    def _send(self) -> None:
        data = self._outgoing.read()
        if data:
            self._below.write(data)
