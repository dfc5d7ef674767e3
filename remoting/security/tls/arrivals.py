"""TlsArrivals: counts the connections of a server with TLS from the moment that they are accepted. Shell.

asyncio does not call a server's protocol before the handshake has succeeded, and never if it fails. So a connection is
accepted without TLS and counted, and its socket is passed to `connect_accepted_socket`, which returns when the
handshake has succeeded or failed.

If there is no place for another handshake, the oldest one is closed: a real client needs milliseconds, so the oldest
handshake most likely belongs to a peer that only occupies a place.

    accepted --place--> handshake --done--> Connection, which counts as any other from here on
                            | +--failed, deadline, closed for a newer one--> closed
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import cast

import anyio
from anyio.abc import TaskGroup

from model.access_limits import MAX_TLS_HANDSHAKES, MAX_TLS_HANDSHAKES_OF_ADDRESS, UNAUTHENTICATED_S
from remoting.address import format_address
from remoting.overload.addresses import network_of

logger = logging.getLogger(__name__)


class TlsArrivals:
    """The handshakes in progress at one server.

    Args:
        loop: the running loop.
        tasks: each handshake is one task; those in progress end with the group.
        context: with the certificate.
        make_connection: creates the protocol of a connection after its handshake.
        places: number of further connections that the server may have; handshakes count as well.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: TaskGroup,
        context: ssl.SSLContext,
        make_connection: Callable[[], asyncio.Protocol],
        places: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._tasks = tasks
        self._context = context
        self._make_connection = make_connection
        self._places = places
        self._under_way: dict[anyio.CancelScope, str] = {}  # with its address, oldest first

    def __len__(self) -> int:
        return len(self._under_way)

    def accept(self) -> asyncio.Protocol:
        """Protocol factory for the loop, of connections without TLS."""
        return _Accepted(self._arrived)

    def _arrived(self, transport: asyncio.BaseTransport) -> None:
        name = transport.get_extra_info("peername")
        network = network_of(format_address(str(name[0]), int(name[1]))) if name else ""
        if not self._make_room(network):
            logger.info("a connection of %s is closed: this server has as many connections as it may have", network)
            return
        scope = anyio.CancelScope()
        # A copy, because the transport closes its own socket, and would read the bytes meant for TLS.
        sock = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        sock.setblocking(False)
        self._under_way[scope] = network
        self._tasks.start_soon(self._shake_hands, sock, scope)

    def _make_room(self, network: str) -> bool:
        under_way, places = self._under_way, self._places()
        of_address = [scope for scope, each in under_way.items() if each == network]
        if len(of_address) >= MAX_TLS_HANDSHAKES_OF_ADDRESS:
            self._cut(of_address[0])
        elif under_way and len(under_way) >= min(MAX_TLS_HANDSHAKES, places):
            self._cut(next(iter(under_way)))
        return len(under_way) < places

    def _cut(self, scope: anyio.CancelScope) -> None:
        logger.info("a TLS handshake of %s is closed: newer ones need its place", self._under_way.pop(scope))
        scope.cancel()

    async def _shake_hands(self, sock: socket.socket, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await self._loop.connect_accepted_socket(
                    self._make_connection, sock, ssl=self._context, ssl_handshake_timeout=UNAUTHENTICATED_S
                )
        except OSError as error:  # includes the errors of TLS
            logger.info("a TLS handshake failed: %s", error)
        finally:
            self._under_way.pop(scope, None)


class _Accepted(asyncio.Protocol):
    """An accepted connection; its transport ends here, and its socket stays open."""

    def __init__(self, arrived: Callable[[asyncio.BaseTransport], None]) -> None:
        self._arrived = arrived

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        try:
            self._arrived(transport)
        except OSError as error:  # no descriptor is left for the copy
            logger.warning("a connection is closed before its TLS handshake: %s", error)
        finally:
            cast(asyncio.Transport, transport).abort()
