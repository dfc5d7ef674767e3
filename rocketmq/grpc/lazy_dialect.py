"""LazyGrpcDialect: the gRPC dialect of a server before its first gRPC client. Pure.

It recognises HTTP/2 by the first bytes of a connection, and imports the rest of the room with the first such
connection: the imports take a tenth of a second, and most servers have no client of RocketMQ 5. Where the extra `grpc`
is not installed, that connection is closed with the reason in a line of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from model.errors import ProtocolError
from remoting.codec import Codec, Decoder, Peer
from remoting.command import Command
from rocketmq.edge import ServerFacts
from rocketmq.grpc.http2.frame_guard import PREFACE
from rocketmq.signing import Check

if TYPE_CHECKING:
    from rocketmq.grpc.edge import GrpcDialect

_NEEDED = ("h2", "google.protobuf")
_INSTALL_HINT = "a gRPC client of RocketMQ 5 needs the extra grpc on this server: pip install 'rebalance-lab[grpc]'"


class MissingExtraCodec:
    """The codec and decoder of a connection that cannot be served, because packages are missing."""

    partial_frame_bytes = 0

    def __init__(self) -> None:
        self.error: ProtocolError | None = None

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `remoting.codec.Codec`."""
        return b""

    def decoder(self) -> Decoder:
        """See `remoting.codec.Codec`."""
        return self

    def feed(self, data: bytes) -> list[Command]:
        """See `remoting.codec.Decoder`."""
        self.error = ProtocolError(_INSTALL_HINT)
        return []

    def at_frame_boundary(self) -> bool:
        """See `remoting.codec.Decoder`."""
        return True


@dataclass(frozen=True, slots=True)
class LazyGrpcDialect:
    """RocketMQ's gRPC protocol for one server; `make` imports and makes the dialect."""

    facts: ServerFacts
    make: Callable[[ServerFacts], GrpcDialect]
    check: Check | None = None

    def with_check(self, check: Check) -> LazyGrpcDialect:
        """See `remoting.codec.Dialect`."""
        return replace(self, check=check)

    def matches(self, first: bytes) -> bool | None:
        """See `remoting.codec.Dialect`."""
        if len(first) < len(PREFACE):
            return None if PREFACE.startswith(first) else False
        return first.startswith(PREFACE)

    def codec(self, peer: Peer) -> Codec:
        """See `remoting.codec.Dialect`."""
        if not is_installed():
            return MissingExtraCodec()
        dialect = self.make(self.facts)
        return (dialect if self.check is None else dialect.with_check(self.check)).codec(peer)


def is_installed() -> bool:
    """Whether the packages of the extra `grpc` can be imported."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:  # of `google`
        return False


def lazy_name_server_grpc() -> LazyGrpcDialect:
    """RocketMQ's gRPC protocol as a name server accepts it."""

    def make(facts: ServerFacts) -> GrpcDialect:
        from rocketmq.grpc.dialect import name_server_grpc  # noqa: PLC0415 - see the module header

        return name_server_grpc(facts)

    return LazyGrpcDialect(ServerFacts(), make)


def lazy_broker_grpc(facts: ServerFacts) -> LazyGrpcDialect:
    """RocketMQ's gRPC protocol as a broker accepts it."""

    def make(facts: ServerFacts) -> GrpcDialect:
        from rocketmq.grpc.dialect import broker_grpc  # noqa: PLC0415 - see the module header

        return broker_grpc(facts)

    return LazyGrpcDialect(facts, make)
