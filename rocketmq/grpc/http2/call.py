"""GrpcCall: one call of a gRPC client, the kinds of events of calls, and what follows an answer. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

_SERVICE = "/apache.rocketmq.v2.MessagingService/"
INITIAL_WINDOW_BYTES = 65_535
"""Of each call, as HTTP/2 has it before any settings: a peer may send its first calls before it has ours."""
DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 4, 8, 12, 13
"""Statuses of gRPC, in the trailers of an answer."""
_TIMEOUT_UNITS_NS = {"H": 3_600 * 10**9, "M": 60 * 10**9, "S": 10**9, "m": 10**6, "u": 1_000, "n": 1}


class CallEvent(Enum):
    """Kinds of events; see `connection`."""

    MESSAGE = 0
    ENDED = 1
    CANCELLED = 2
    READ = 3


class GrpcCall:
    """One call of a peer.

    Attributes:
        method: name of the RPC, or its whole path if it is of another service.
        metadata: its headers.
        message: the last message that came, without its prefix.
        messages: how many have come.
        is_stream: whether it may stay open between two messages.
        looks: how often `Http2.look` has found it incomplete.
        open: whether an answer would reach the peer.
        headers_sent: whether the headers of the answer were sent.
        asks_read: whether a PING follows the answer.
        opaque: the opaque number of its outstanding command, which the edge sets; None before.
    """

    __slots__ = (
        *("asks_read", "buffer", "headers_sent", "message", "message_bytes", "messages", "metadata", "method"),
        *("header_bytes", "is_stream", "looks", "opaque", "open", "stream_id", "window_bytes"),
    )

    def __init__(self, stream_id: int, metadata: dict[str, str]) -> None:
        self.stream_id = stream_id
        self.metadata = metadata
        self.method = metadata.get(":path", "").removeprefix(_SERVICE)
        self.message = b""
        self.messages = 0
        self.header_bytes = sum(len(name) + len(value) for name, value in metadata.items())
        self.looks = 0
        self.is_stream = False
        self.open = True
        self.headers_sent = self.asks_read = False
        self.buffer = bytearray()
        self.message_bytes = 0  # bytes of the message under way, with its prefix; 0 while the prefix is not whole
        self.window_bytes = INITIAL_WINDOW_BYTES
        self.opaque: Any = None

    @property
    def timeout_ms(self) -> int | None:
        """How long the peer waits for the answer, from the arrival of the call; None for as long as it takes."""
        text = self.metadata.get("grpc-timeout", "")
        digits, unit = text[:-1], text[-1:]
        if not digits.isascii() or not digits.isdigit() or len(digits) > 8:
            return None
        return int(digits) * _TIMEOUT_UNITS_NS[unit] // 10**6 if unit in _TIMEOUT_UNITS_NS else None


Event = tuple[CallEvent, GrpcCall]


class Receipt(Protocol):
    """What follows once it is known whether a client has read its answer."""

    def read(self) -> None:
        """The client has read the whole answer."""

    def unread(self) -> None:
        """The client has cancelled the call before that."""

    def unsent(self) -> None:
        """The last answer cannot be sent: the client has cancelled the call, or an earlier answer has ended it."""
