"""TlsOnDemand: TLS for those clients of a server that begin with it, on the port of all others. Shell.

The first byte of a connection decides: 22 begins a handshake of TLS, and no other protocol of a server begins so. After
the handshake the connection starts again with its first bytes, so every protocol of the server is spoken over TLS too.

Clients of RocketMQ 5 for Java and Go encrypt by default, and check no certificate: for them one is made when the first
of them connects. A client that checks certificates needs one from a file.

    first byte 22 --certificate--> handshake --done--> first bytes of another protocol
          |             |              +--failed, deadline of a first request, closed for a newer one--> closed
          +--off--------+--none can be made--> closed, with the reason in the log
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from anyio.abc import TaskGroup

from model.access_limits import (
    MAX_TLS_GREETING_BYTES,
    MAX_TLS_HANDSHAKES,
    MAX_TLS_HANDSHAKES_OF_ADDRESS,
    TLS_HANDSHAKES_OF_ADDRESS_PER_S,
)
from model.errors import ConfigError, ProtocolError
from model.log_lines import LogLines
from remoting.address import is_loopback
from remoting.codec import Codec, Decoder, Dialect, FirstBytes, Peer
from remoting.command import Command
from remoting.connection import Connection
from remoting.security.tls.arrivals import TlsArrivals
from remoting.security.tls.certificates import ServerTls, TlsFiles, self_signed_context
from remoting.security.tls.layer import TlsLayer

logger = logging.getLogger(__name__)

_BURST_S = 0.1
"""The part of a second whose handshakes begin at once."""
_FIRST_BYTE = 22
_HTTP2 = ["h2"]
"""What gRPC clients insist on; clients of other protocols ask for nothing."""
_HANDSHAKE_FAILURE = bytes((21, 3, 3, 0, 2, 2, 40))
"""An alert of TLS, so that a client reports at once that TLS failed."""
_OFF = (
    "it uses TLS, and this server does not: switch TLS off at the client, or on at the server (--grpc-tls auto, "
    "--tls-cert)"
)


class TlsChoice(StrEnum):
    """What a server without a certificate file does with a client that begins with TLS."""

    AUTO = "auto"
    OFF = "off"


GrpcTls = TlsChoice | Path | None
"""A choice, or a file with a certificate and its key; None is `auto` where only this machine connects, else `off`."""


class PortTls:
    """The TLS of a server that listens on `host`.

    Args:
        tls: the certificate with which all connections are encrypted; None if there is a choice.
        given: the choice, which is without effect where all connections are encrypted.
        host: of the address that it listens on.

    Attributes:
        make_context: makes the context for clients that choose TLS, which may take 0.2 s; None if they are refused.

    Raises:
        ConfigError: a file has no certificate with its key.
    """

    def __init__(self, tls: TlsFiles | None, grpc_tls: GrpcTls, host: str) -> None:
        files = TlsFiles(cert=grpc_tls, key=grpc_tls) if isinstance(grpc_tls, Path) else tls
        self._certificates = None if files is None else ServerTls(files)
        if self._certificates is not None:
            self._certificates.context.set_alpn_protocols(_HTTP2)
        self._is_for_all = tls is not None
        self.make_context: Callable[[], ssl.SSLContext] | None = None
        if self._certificates is None:
            if grpc_tls is TlsChoice.AUTO or (grpc_tls is None and is_loopback(host)):
                self.make_context = self_signed_context
        elif not self._is_for_all:
            self.make_context = partial(getattr, self._certificates, "context")

    def accepting(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: TaskGroup,
        make_connection: Callable[[], asyncio.Protocol],
        places: Callable[[], int],
    ) -> Callable[[], asyncio.Protocol]:
        """The protocol factory for the loop; it keeps the certificates of files current."""
        if self._certificates is None:
            return make_connection
        tasks.start_soon(self._certificates.keep_current)
        if not self._is_for_all:
            return make_connection
        return TlsArrivals(loop, tasks, self._certificates.context, make_connection, places).accept


class TlsOnDemand:
    """A dialect (`remoting.codec.Dialect`) that contains the others; see the module header.

    Args:
        loop: the running loop.
        tasks: where the context is made, when the first client needs it.
        make: makes the context, in a thread, because it takes a while; None refuses clients that use TLS.
        own: the codec of the server's own protocol.
        dialects: the other protocols of the server.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: TaskGroup,
        make: Callable[[], ssl.SSLContext] | None,
        own_codec: Codec,
        dialects: Sequence[Dialect],
    ) -> None:
        self._loop = loop
        self._tasks = tasks
        self._make = make
        self._own = own_codec
        self._dialects = dialects
        self._context: ssl.SSLContext | None = None
        self._waiting: list[_Handshake] = []
        self._under_way: dict[_Handshake, None] = {}  # oldest first
        self._turns: dict[str, float] = {}  # address -> the turn of its next handshake
        self._lines = LogLines()

    def with_check(self, check: object) -> TlsOnDemand:
        """See `remoting.codec.Dialect`; the dialects within check what they get."""
        return self

    def matches(self, first: bytes) -> bool | None:
        """See `remoting.codec.Dialect`."""
        return first[0] == _FIRST_BYTE

    def codec(self, peer: Peer) -> Codec:
        """See `remoting.codec.Dialect`."""
        assert isinstance(peer, Connection), "only a connection has a transport"
        return _Refused() if self._make is None else _Handshake(self, peer)

    def undecided(self, connection: Connection) -> Codec:
        """The codec of a connection after its handshake."""
        return _Undecided(self._dialects, self._own, connection)

    def begin(self, handshake: _Handshake) -> None:
        """Begin a handshake, as soon as there is a context and its address has its turn.

        For one too many the oldest one has to end: of its address, or of all.
        """
        of_address = [each for each in self._under_way if each.connection.owner == handshake.connection.owner]
        if len(of_address) >= MAX_TLS_HANDSHAKES_OF_ADDRESS:
            self._cut(of_address[0])
        elif len(self._under_way) >= MAX_TLS_HANDSHAKES:
            self._cut(next(iter(self._under_way)))
        self._under_way[handshake] = None
        if self._context is not None:
            self._start(handshake, self._context)
            return
        self._waiting.append(handshake)
        if len(self._waiting) == 1:
            self._tasks.start_soon(self._make_context)

    def _cut(self, oldest: _Handshake) -> None:
        self.failed(oldest, "newer ones need its place")
        oldest.connection.abort()

    def _start(self, handshake: _Handshake, context: ssl.SSLContext) -> None:
        """Start a handshake in the turn of its address: now, unless others of it have begun within this second."""
        now, address = self._loop.time(), handshake.connection.owner
        self._turns = {each: turn for each, turn in self._turns.items() if turn > now}
        turn = self._turns[address] = self._turns.get(address, now) + 1 / TLS_HANDSHAKES_OF_ADDRESS_PER_S
        if turn <= now + _BURST_S:
            handshake.start(context)
        else:
            self._loop.call_at(turn - _BURST_S, handshake.start, context)

    async def _make_context(self) -> None:
        assert self._make is not None, "clients are refused without it"
        try:
            self._context = await self._loop.run_in_executor(None, self._make)
            self._context.set_alpn_protocols(_HTTP2)
        except ConfigError as error:
            for handshake in self._waiting:
                self.failed(handshake, str(error))
                handshake.connection.abort()
        else:
            for handshake in self._waiting:
                self._start(handshake, self._context)
        self._waiting.clear()

    def failed(self, handshake: _Handshake, reason: object) -> None:
        """Record that a handshake has failed."""
        self.ended(handshake)
        text = "closing the connection of %s, a TLS handshake failed: %s"
        self._lines.warning(logger, self._loop.time(), text, handshake.connection.peer, reason)

    def ended(self, handshake: _Handshake) -> None:
        """Record that a handshake has ended."""
        self._under_way.pop(handshake, None)


class _Handshake:
    """Codec and decoder of a connection from its first bytes until its handshake has ended."""

    partial_frame_bytes = 0

    def __init__(self, tls: TlsOnDemand, connection: Connection) -> None:
        self.error: ProtocolError | None = None
        self.connection = connection
        self._tls = tls
        self._greeting = b""  # read before there was a context

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `remoting.codec.Codec`; nothing can be sent before the end of the handshake."""
        return b""

    def decoder(self) -> Decoder:
        """See `remoting.codec.Codec`."""
        return self

    def at_frame_boundary(self) -> bool:
        """See `remoting.codec.Decoder`."""
        return True

    def feed(self, data: bytes) -> list[Command]:
        """See `remoting.codec.Decoder`. It gets the greeting; later bytes go to the layer."""
        is_first = not self._greeting
        self._greeting += data
        if len(self._greeting) > MAX_TLS_GREETING_BYTES:
            self.error = ProtocolError(f"a greeting of TLS has more than {MAX_TLS_GREETING_BYTES} bytes")
            self._tls.ended(self)
        elif is_first:
            self._tls.begin(self)
        return []

    def start(self, context: ssl.SSLContext) -> None:
        """Put TLS under the connection."""
        if self.connection.closed:
            self._tls.ended(self)
            return

        def layer(below: asyncio.Transport) -> TlsLayer:
            return TlsLayer(context, below, self.connection, self._shaken, partial(self._tls.failed, self))

        self.connection.put_under(layer).data_received(self._greeting)

    def _shaken(self) -> None:
        self._tls.ended(self)
        self.connection.use(self._tls.undecided(self.connection))


class _Undecided:
    """The codec of a connection whose protocol its next bytes decide."""

    def __init__(self, dialects: Sequence[Dialect], own_codec: Codec, connection: Connection) -> None:
        self.encode = own_codec.encode
        self._dialects, self._own, self._connection = dialects, own_codec, connection

    def decoder(self) -> Decoder:
        """See `remoting.codec.Codec`."""
        return FirstBytes(self._dialects, self._own, self._connection)


class _Refused:
    """Codec and decoder of a connection whose client uses TLS where it is off."""

    partial_frame_bytes = 0

    def __init__(self) -> None:
        self.error: ProtocolError | None = None

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `remoting.codec.Codec`; only the reason for the end of the connection is sent."""
        return _HANDSHAKE_FAILURE

    def decoder(self) -> Decoder:
        """See `remoting.codec.Codec`."""
        return self

    def at_frame_boundary(self) -> bool:
        """See `remoting.codec.Decoder`."""
        return True

    def feed(self, data: bytes) -> list[Command]:
        """See `remoting.codec.Decoder`."""
        self.error = ProtocolError(_OFF)
        return []
