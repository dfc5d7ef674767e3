"""Limits of the connections of an HTTP port: how many in all, how many of one address, and a deadline for each step.

aiohttp limits neither the number of connections nor the time in which a peer sends a request or reads an answer. So
these classes stand between a connection and aiohttp's protocol:

    accepted --place--> 30 s for the head of its first request --> requests, 75 s apart at most
        |                                                           |
        +--no place--> 503, closed                                  +--an answer is not read for 30 s--> closed
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from model.limits import FIRST_REQUEST_S, FRAME_TIMEOUT_S, MAX_CONNECTIONS, MAX_CONNECTIONS_OF_ADDRESS
from model.log_lines import LogLines
from remoting.address import format_address
from remoting.overload.addresses import Addresses

logger = logging.getLogger(__name__)


class HttpSlots:
    """The connections of one port, and how many more it admits.

    Args:
        loop: the running loop.
        limit: maximum number of connections at a time.

    Attributes:
        address: the address of the port, for the log.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self.address = ""
        self._loop = loop
        self._limit = limit
        self._addresses = Addresses(max(1, limit * MAX_CONNECTIONS_OF_ADDRESS // MAX_CONNECTIONS))
        self._connections: dict[asyncio.BaseTransport, _HttpConnection] = {}
        self._refusals, self._silences = LogLines(), LogLines()

    @property
    def free(self) -> int:
        """The number of further connections that the port admits."""
        return self._limit - len(self._connections)

    def accept(self, served_by: asyncio.Protocol) -> asyncio.Protocol:
        """Return the protocol of a new connection; it forwards the loop's calls to `served_by`."""
        return _HttpConnection(self, self._loop, served_by)

    def requested(self, transport: asyncio.BaseTransport | None) -> None:
        """Record that the head of a request has arrived on a connection; None means that the connection is closed."""
        if transport is not None and (connection := self._connections.get(transport)) is not None:
            connection.requested()

    def admit(self, connection: _HttpConnection, peer: str) -> str:
        """Admit a connection; returns the reason of a refusal, or an empty text."""
        if self.free <= 0:
            why = f"this port already has its maximum of {self._limit} connections"
        elif not self._addresses.admit(peer):
            why = f"your address already has its maximum of {self._addresses.limit} connections to this port"
        else:
            self._connections[connection.transport] = connection
            return ""
        now, text = self._loop.time(), "HTTP port %s refuses a connection of %s: %s"
        self._refusals.warning(logger, now, text, self.address, peer, why)
        return why

    def release(self, connection: _HttpConnection, peer: str) -> None:
        """Record that an admitted connection is closed."""
        del self._connections[connection.transport]
        self._addresses.connection_closed(peer)

    def silent(self, peer: str, why: str) -> None:
        """Log that a connection is closed because it missed a deadline."""
        text = "HTTP port %s closes the connection of %s: %s"
        self._silences.info(logger, self._loop.time(), text, self.address, peer, why)


class _HttpConnection(asyncio.Protocol):
    """Forwards the calls of an admitted connection to the protocol that serves it."""

    def __init__(self, places: HttpSlots, loop: asyncio.AbstractEventLoop, served_by: asyncio.Protocol) -> None:
        self.transport: asyncio.Transport
        self._places = places
        self._loop = loop
        self._served_by = served_by
        self._peer = ""
        self._has_place = False
        self._first: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def requested(self) -> None:
        """Stop the timer of the first request."""
        if self._first is not None:
            self._first.cancel()
            self._first = None

    # --- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self._peer = format_address(str(name[0]), int(name[1])) if name else "?:0"
        why = self._places.admit(self, self._peer)
        if why:
            self._part_with(f"503 Service Unavailable\r\nRetry-After: {FIRST_REQUEST_S:.0f}", why)
            return
        self._has_place = True
        self._first = self._loop.call_later(FIRST_REQUEST_S, self._no_request_came)
        self._served_by.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._has_place:
            self._served_by.data_received(data)

    def eof_received(self) -> bool | None:
        """Called by the loop."""
        return self._served_by.eof_received() if self._has_place else None

    def pause_writing(self) -> None:
        """Called by the loop: the peer reads more slowly than the answer is written."""
        if self._has_place:
            self._unread = self._loop.call_later(FRAME_TIMEOUT_S, self._nothing_read)
            self._served_by.pause_writing()

    def resume_writing(self) -> None:
        """Called by the loop."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        if self._has_place:
            self._served_by.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.requested()
        if self._unread is not None:
            self._unread.cancel()
        if self._has_place:
            self._has_place = False
            self._places.release(self, self._peer)
            self._served_by.connection_lost(exc)

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def _no_request_came(self) -> None:
        why = f"no request came within {FIRST_REQUEST_S:g} s"
        self._places.silent(self._peer, why)
        self._part_with("408 Request Timeout", why)

    def _nothing_read(self) -> None:
        self._places.silent(self._peer, f"the peer has read nothing of its answer for {FRAME_TIMEOUT_S:g} s")
        self.transport.abort()

    def _part_with(self, status: str, why: str) -> None:
        text = f"{why}\n"
        head = (
            f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n"
        )
        self.transport.write((head + text).encode())
        self.transport.close()
