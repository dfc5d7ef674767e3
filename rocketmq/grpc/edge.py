"""GrpcEdge: the codec of one connection of RocketMQ 5 clients.

Like `rocketmq/edge.py` it translates calls to this project's commands, and the answers back. While a call is
outstanding, the opaque number of its command is a `GrpcOpaque`: an int that carries the call and the translator of
its answer. Clients in one process share a connection, so each call has the client's id in its metadata.

No call depends on an earlier one, because a server that was restarted does not know what clients announced before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from model.errors import ConsumerNotOnline, ProtocolError, RlabError
from model.grpc_limits import MAX_GRPC_CLIENTS
from model.limits import MAX_GROUPS_OF_CLIENT
from model.response_code import ResponseCode
from model.subscription import Expression
from remoting.codec import Peer
from remoting.command import REQUEST, RESPONSE, Command, NamedOpaque
from remoting.request_code import RequestCode
from rocketmq.edge import ServerFacts
from rocketmq.grpc import proto
from rocketmq.grpc.http2.call import INTERNAL, UNIMPLEMENTED, CallEvent, GrpcCall, Receipt
from rocketmq.grpc.http2.connection import Http2
from rocketmq.grpc.proto import MESSAGES
from rocketmq.grpc.signing import check_signature
from rocketmq.grpc.status import GrpcRefused, status, status_of
from rocketmq.signing import Check


class GrpcRequest(NamedTuple):
    """A request of this project and the translator of its answer; `outcomes` are error codes that count as answers.

    `answer` gets header, body and code of the answer, and returns the messages of the call's answer. `refusal` is the
    answer of a refused request, to which the status is added; None for an empty one. When the client resets the call
    before the answer, `cancel` makes a command that ends this request, from the opaque number of this request. With a
    `receipt` the client is asked whether it has read an answer without an error.
    """

    code: RequestCode
    header: dict[str, Any]
    body: bytes | None
    answer: Callable[[dict[str, Any], bytes | None, int], list[Any]]
    outcomes: tuple[int, ...] = ()
    refusal: Any = None
    receipt: Receipt | None = None
    cancel: Callable[[int], Command] | None = None


class OwnOpaque(int):
    """The opaque number of a request that the edge itself sends."""


_OWN_OPAQUE = OwnOpaque(0)
Subscriptions = dict[str, dict[str, Expression]]
"""Group -> topic -> filter, of one client."""
TELEMETRY = "Telemetry"
"""The RPC whose stream is open as long as its client runs."""


@dataclass(slots=True)
class GrpcConnection:
    """One connection, as translators need it: its server, its peer, and its clients.

    Attributes:
        calls: returns the calls that are not answered yet.
        groups: client id -> what a consumer reads.
        producers: client id -> the topics of a producer, a dict as an ordered set.
    """

    facts: ServerFacts
    peer: Peer
    calls: Callable[[], Iterable[GrpcCall]]
    picked_queues: int = 0
    groups: dict[str, Subscriptions] = field(default_factory=dict)
    producers: dict[str, dict[str, None]] = field(default_factory=dict)

    def record_subscriptions(self, call: GrpcCall, group: str, topics: Mapping[str, Expression]) -> None:
        """Remember what the client of a call reads, for its heartbeats; of too many clients the oldest is forgotten."""
        client_id = client_id_of(call)
        of_client = self.groups.setdefault(client_id, {})
        of_client.setdefault(group, {}).update(topics)
        while len(self.groups) > MAX_GRPC_CLIENTS:
            del self.groups[next(iter(self.groups))]

    def record_topics(self, client_id: str, topics: Iterable[str]) -> None:
        """Remember the topics of a producer; beyond a limit the oldest ones are forgotten, and the oldest producer."""
        known = self.producers.setdefault(client_id, {})
        known.update(dict.fromkeys(topics))
        while len(known) > MAX_GROUPS_OF_CLIENT:
            del known[next(iter(known))]
        while len(self.producers) > MAX_GRPC_CLIENTS:
            del self.producers[next(iter(self.producers))]

    def stream_of(self, client_id: str) -> GrpcCall | None:
        """The newest open stream over which commands reach a client; None without one."""
        found = None
        for call in self.calls():
            if call.method == TELEMETRY and call.metadata.get("x-mq-client-id") == client_id:
                found = call
        return found

    def own_request(self, code: RequestCode, header: dict[str, Any], body: bytes | None = None) -> Command:
        """A request of the edge itself; its answer is dropped."""
        return Command(REQUEST, code, _OWN_OPAQUE, header, body)

    def send_own_request(self, code: RequestCode, header: dict[str, Any], body: bytes | None = None) -> None:
        """Send a request of the edge itself; its answer is dropped."""
        self.peer.handle_soon(self.own_request(code, header, body))

    @property
    def address(self) -> str:
        """The address of this server as its client sees it."""
        return f"{self.peer.local_host}:{self.peer.local_port}"


Translator = Callable[[GrpcConnection, GrpcCall, Any], "GrpcRequest | Command | list[Any]"]
"""Translates the message of a call, or answers it at once. A command is the answer of a client to a request of ours.

Raises:
    GrpcRefused, RlabError: the call is refused, and the answer has the result.
"""
Notifier = Callable[[GrpcConnection, int, Mapping[str, Any], bytes | None], Any]
"""Translates a request of this server to a client: from opaque number, header and body to the command of the stream.

None if the edge has answered it itself.
"""


class Rpc(NamedTuple):
    """One RPC: its translator, the names of its message and of its answer, and whether it is a stream.

    A stream stays open until its client ends or resets it; then `ended` is called.
    """

    translate: Translator
    request: str
    response: str
    is_stream: bool = False
    ended: Callable[[GrpcConnection, GrpcCall], None] | None = None


@dataclass(frozen=True, slots=True)
class GrpcDialect:
    """RocketMQ's gRPC protocol for one server: its RPCs by name.

    `unimplemented_hint` is the end of the error message for an unknown RPC; `notifiers` translate what the server asks
    its clients.
    """

    facts: ServerFacts
    rpcs: Mapping[str, Rpc]
    unimplemented_hint: str
    notifiers: Mapping[int, Notifier] = field(default_factory=dict)
    check: Check | None = None  # with access control: checks that each call is signed

    def with_check(self, check: Check) -> GrpcDialect:
        """The same for a server with access control."""
        return replace(self, check=check)

    def codec(self, peer: Peer) -> GrpcEdge:
        """See `remoting.codec.Dialect`; `rocketmq/grpc/lazy_dialect.py` recognises the protocol, and calls this."""
        return GrpcEdge(self, peer)


def client_id_of(call: GrpcCall) -> str:
    """The id of the client of a call."""
    return call.metadata["x-mq-client-id"]


class GrpcOpaque(NamedOpaque):
    """The opaque number of an outstanding request, with its call and the translator of its answer."""

    call: GrpcCall
    rpc: Rpc
    request: GrpcRequest


class GrpcEdge:
    """The codec and decoder of one connection; see the module header."""

    def __init__(self, dialect: GrpcDialect, peer: Peer) -> None:
        self.error: ProtocolError | None = None
        self._dialect = dialect
        self._peer = peer
        self._http2 = Http2(None if dialect.check is None else self._check_headers)
        self._connection = GrpcConnection(dialect.facts, peer, lambda: self._http2.calls)
        self._opaque = 0

    # --- decoding ----------------------------------------------------------------------------------------------------

    def decoder(self) -> GrpcEdge:
        """See `remoting.codec.Codec`."""
        return self

    @property
    def partial_frame_bytes(self) -> int:
        """See `remoting.codec.Decoder`."""
        return self._http2.partial_frame_bytes

    def at_frame_boundary(self) -> bool:
        """See `remoting.codec.Decoder`."""
        return not self._http2.partial_frame_bytes

    def feed(self, data: bytes) -> list[Command]:
        """See `remoting.codec.Decoder`."""
        commands: list[Command] = []
        if self.error is not None:
            return commands
        try:
            for kind, call in self._http2.receive(data):
                command = self._on_call_event(kind, call)
                if command is not None:
                    commands.append(command)
        except ProtocolError as error:
            self.error = error
            return commands
        self._send()
        return commands

    def _check_headers(self, call: GrpcCall) -> None:
        """End a call that is not signed, before memory is spent on its message: everything signed is in its headers."""
        rpc = self._dialect.rpcs.get(call.method)
        if rpc is None or self._dialect.check is None:
            return  # a call that is not served is ended when it is handled
        try:
            check_signature(self._dialect.check, self._peer, call)
        except GrpcRefused as error:
            answer = MESSAGES[rpc.response](status=status(error.code, str(error)))
            self._http2.send(call, [answer.SerializeToString()], end=True)

    def _on_call_event(self, kind: CallEvent, call: GrpcCall) -> Command | None:
        if kind is CallEvent.CANCELLED or kind is CallEvent.READ:
            if kind is CallEvent.CANCELLED:
                self._stream_ended(call)
            return self._finish(call, was_read=kind is CallEvent.READ)
        rpc = self._dialect.rpcs.get(call.method)
        if rpc is None:
            text = f"{call.method[:200]} is not served here: {self._dialect.unimplemented_hint}"
            self._http2.fail(call, UNIMPLEMENTED, text)
            return None
        # A stream is answered message by message, any other call when its message is complete.
        if kind is CallEvent.MESSAGE:
            if rpc.is_stream:
                self._http2.keep_open(call)
            return self._translate(call, rpc) if rpc.is_stream else None
        if rpc.is_stream:
            self._http2.send(call, (), end=True)
            self._stream_ended(call)
            return None
        if call.messages != 1:
            self._http2.fail(call, INTERNAL, f"{call.method} takes one message, and {call.messages} came")
            return None
        return self._translate(call, rpc)

    def _stream_ended(self, call: GrpcCall) -> None:
        rpc = self._dialect.rpcs.get(call.method)
        if rpc is not None and rpc.ended is not None:
            rpc.ended(self._connection, call)

    def _finish(self, call: GrpcCall, *, was_read: bool) -> Command | None:
        """The client has read the answer to a call, or has cancelled the call."""
        if not isinstance(call.opaque, GrpcOpaque):
            return None
        request = call.opaque.request
        if not call.headers_sent:
            return None if request.cancel is None else request.cancel(int(call.opaque))
        if request.receipt is not None:
            (request.receipt.read if was_read else request.receipt.unread)()
        return None

    def _translate(self, call: GrpcCall, rpc: Rpc) -> Command | None:
        try:
            message = MESSAGES[rpc.request].FromString(call.message)
            call.message = b""  # it may be long, and the call may wait for long
        except DecodeError as error:
            self._http2.fail(call, INTERNAL, f"the message is no {rpc.request}: {error}")
            return None
        try:
            if not call.metadata.get("x-mq-client-id"):
                raise GrpcRefused(proto.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing or empty")
            translated = rpc.translate(self._connection, call, message)
        except GrpcRefused as error:
            translated = [MESSAGES[rpc.response](status=status(error.code, str(error)))]
        except RlabError as error:
            translated = [MESSAGES[rpc.response](status=status_of(error.code or ResponseCode.SYSTEM_ERROR, str(error)))]
        if isinstance(translated, Command):
            return translated
        if not isinstance(translated, GrpcRequest):
            self._http2.send(call, [each.SerializeToString() for each in translated], end=not rpc.is_stream)
            return None
        self._opaque += 1
        opaque = GrpcOpaque(self._opaque)
        opaque.call, opaque.rpc, opaque.request, opaque.name = call, rpc, translated, call.method
        opaque.outcomes = translated.outcomes
        call.opaque = opaque
        return Command(REQUEST, translated.code, opaque, translated.header, translated.body)

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """See `remoting.overload.lifecycle.Lifecycle`: streams end, and receives that wait are answered as empty.

        Other calls are answered as ever.
        """
        self._peer.send_frame(self._http2.stop("the server stops: call another one, or this one when it is back"))
        for call in list(self._http2.calls):
            rpc, opaque = self._dialect.rpcs.get(call.method), call.opaque
            if rpc is not None and rpc.is_stream:
                self._http2.send(call, (), end=True)
            elif isinstance(opaque, GrpcOpaque) and opaque.request.cancel is not None:
                nothing = opaque.request.answer({}, None, ResponseCode.PULL_NOT_FOUND)
                self._http2.send(call, [each.SerializeToString() for each in nothing], end=True)
        self._send()

    @property
    def held_bytes(self) -> int:
        """See `remoting.overload.lifecycle.Lifecycle`."""
        return self._http2.held_bytes

    def look(self) -> None:
        """See `remoting.overload.lifecycle.Lifecycle`."""
        self._http2.look()
        self._send()

    def ping(self) -> None:
        """See `remoting.overload.lifecycle.Lifecycle`."""
        self._http2.ping()
        self._send()

    def _send(self) -> None:
        out = self._http2.take()
        if out:
            self._peer.send_frame(out)

    # --- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `remoting.codec.Codec`. A command without a form in this protocol becomes zero bytes."""
        if flags != RESPONSE:
            return self._encode_pushed(flags, code, opaque, header, body)
        if isinstance(opaque, OwnOpaque):
            return b""
        if not isinstance(opaque, GrpcOpaque):
            return self._http2.encode_goaway(str(header.get("remark")))  # the reason why the connection is closed
        request, call = opaque.request, opaque.call
        if code and code not in request.outcomes:
            refusal = MESSAGES[opaque.rpc.response]() if request.refusal is None else request.refusal
            refusal.status.CopyFrom(status_of(code, str(header.get("remark") or "")))
            answer = [refusal]
        else:
            answer = request.answer(dict(header), body, code)
        receipt = None if code else request.receipt
        if receipt is not None and not call.open:
            receipt.unsent()
            return b""
        return self._sent(call, answer, end=not opaque.rpc.is_stream, asks_read=receipt is not None)

    def _encode_pushed(
        self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None
    ) -> bytes:
        """Send a command that the server starts over the stream of its client.

        Raises:
            ConsumerNotOnline: a request, and its client has no open stream.
        """
        notifier = self._dialect.notifiers.get(code)
        command = None if notifier is None else notifier(self._connection, opaque, header, body)
        if command is None:
            return b""
        client_id = str(header.get("client_id"))
        stream = self._connection.stream_of(client_id)
        if stream is not None:
            return self._sent(stream, [command], end=False)
        if flags == REQUEST:
            raise ConsumerNotOnline(f"{client_id!r} is connected, but has no open Telemetry stream to answer over")
        return b""

    def _sent(self, call: GrpcCall, messages: Iterable[Any], *, end: bool, asks_read: bool = False) -> bytes:
        try:
            self._http2.send(call, [each.SerializeToString() for each in messages], end=end, asks_read=asks_read)
        except ProtocolError as error:
            self.error = error
            return self._http2.encode_goaway(str(error))
        return self._http2.take()
