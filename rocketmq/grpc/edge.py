"""GrpcEdge: the codec of one connection of RocketMQ 5 clients.

Like `rocketmq/edge.py` it translates calls to this project's commands, and the answers back. While a call is
outstanding, the opaque number of its command is a `GrpcOpaque`: an int that carries the call and the translator of
its answer. Clients in one process share a connection, so each call has the client's id in its metadata.

No call depends on an earlier one, because a server that was restarted does not know what clients announced before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from model.errors import ProtocolError, RlabError
from model.grpc_limits import MAX_GRPC_CLIENTS
from model.response_code import ResponseCode
from model.subscription import Expression
from remoting.codec import Peer
from remoting.command import REQUEST, RESPONSE, Command
from remoting.request_code import RequestCode
from rocketmq.edge import ServerFacts
from rocketmq.grpc import proto
from rocketmq.grpc.http2 import INTERNAL, UNIMPLEMENTED, CallEvent, GrpcCall, Http2
from rocketmq.grpc.proto import MESSAGES
from rocketmq.grpc.signing import check_signature
from rocketmq.grpc.status import GrpcRefused, status, status_of
from rocketmq.signing import Check


class GrpcRequest(NamedTuple):
    """A request of this project and the translator of its answer; `outcomes` are error codes that count as answers.

    `answer` gets header, body and code of the answer, and returns the messages of the call's answer. `refusal` is the
    answer of a refused request, to which the status is added; None for an empty one. When the client resets the call,
    `cancel` makes a command that ends this request, from the opaque number of this request. An answer that comes after
    that is given to `unread`.
    """

    code: RequestCode
    header: dict[str, Any]
    body: bytes | None
    answer: Callable[[dict[str, Any], bytes | None, int], list[Any]]
    outcomes: tuple[int, ...] = ()
    refusal: Any = None
    unread: Callable[[dict[str, Any], bytes | None, int], None] | None = None
    cancel: Callable[[int], Command] | None = None


class OwnOpaque(int):
    """The opaque number of a request that the edge itself sends."""


_OWN_OPAQUE = OwnOpaque(0)
Subscriptions = dict[str, dict[str, Expression]]
"""Group -> topic -> filter, of one client."""


@dataclass(slots=True)
class GrpcConnection:
    """One connection, as translators need it: its server, its peer, and what each client reads in `groups`."""

    facts: ServerFacts
    peer: Peer
    picked_queues: int = 0
    groups: dict[str, Subscriptions] = field(default_factory=dict)

    def record_subscriptions(self, call: GrpcCall, group: str, topics: Mapping[str, Expression]) -> None:
        """Remember what the client of a call reads, for its heartbeats; of too many clients the oldest is forgotten."""
        client_id = client_id_of(call)
        of_client = self.groups.setdefault(client_id, {})
        of_client.setdefault(group, {}).update(topics)
        while len(self.groups) > MAX_GRPC_CLIENTS:
            del self.groups[next(iter(self.groups))]

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


Translator = Callable[[GrpcConnection, GrpcCall, Any], "GrpcRequest | list[Any]"]
"""Translates the message of a call, or answers it at once.

Raises:
    GrpcRefused, RlabError: the call is refused, and the answer has the result.
"""


class Rpc(NamedTuple):
    """One RPC: its translator, the names of its message and of its answer, and whether it is a stream.

    A stream stays open until its client ends it.
    """

    translate: Translator
    request: str
    response: str
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class GrpcDialect:
    """RocketMQ's gRPC protocol for one server: its RPCs by name.

    `unimplemented_hint` is the end of the error message for an unknown RPC.
    """

    facts: ServerFacts
    rpcs: Mapping[str, Rpc]
    unimplemented_hint: str
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


class GrpcOpaque(int):
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
        self._connection = GrpcConnection(dialect.facts, peer)
        self._http2 = Http2(None if dialect.check is None else self._check_headers)
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
        out = self._http2.take()
        if out:
            self._peer.send_frame(out)
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
        if kind is CallEvent.CANCELLED:
            opaque = call.opaque
            if isinstance(opaque, GrpcOpaque) and opaque.request.cancel is not None:
                return opaque.request.cancel(int(opaque))
            return None
        rpc = self._dialect.rpcs.get(call.method)
        if rpc is None:
            text = f"{call.method[:200]} is not served here: {self._dialect.unimplemented_hint}"
            self._http2.fail(call, UNIMPLEMENTED, text)
            return None
        # A stream is answered message by message, any other call when its message is complete.
        if kind is CallEvent.MESSAGE:
            return self._translate(call, rpc) if rpc.is_stream else None
        if rpc.is_stream:
            self._http2.send(call, (), end=True)
            return None
        if call.messages != 1:
            self._http2.fail(call, INTERNAL, f"{call.method} takes one message, and {call.messages} came")
            return None
        return self._translate(call, rpc)

    def _translate(self, call: GrpcCall, rpc: Rpc) -> Command | None:
        try:
            message = MESSAGES[rpc.request].FromString(call.message)
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
        if not isinstance(translated, GrpcRequest):
            self._http2.send(call, [each.SerializeToString() for each in translated], end=not rpc.is_stream)
            return None
        self._opaque += 1
        opaque = GrpcOpaque(self._opaque)
        opaque.call, opaque.rpc, opaque.request = call, rpc, translated
        call.opaque = opaque
        return Command(REQUEST, translated.code, opaque, translated.header, translated.body)

    # --- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `remoting.codec.Codec`. A command without a form in this protocol becomes zero bytes."""
        if flags != RESPONSE:
            return b""
        if isinstance(opaque, OwnOpaque):
            return b""
        if not isinstance(opaque, GrpcOpaque):
            # About the connection: the reason why it is closed.
            return self._http2.encode_goaway(str(header.get("remark")))
        request, call = opaque.request, opaque.call
        if code and code not in request.outcomes:
            refusal = MESSAGES[opaque.rpc.response]() if request.refusal is None else request.refusal
            refusal.status.CopyFrom(status_of(code, str(header.get("remark") or "")))
            answer = [refusal]
        elif not call.open and request.unread is not None:
            request.unread(dict(header), body, code)
            return b""
        else:
            answer = request.answer(dict(header), body, code)
        try:
            self._http2.send(call, [each.SerializeToString() for each in answer], end=not opaque.rpc.is_stream)
        except ProtocolError as error:
            self.error = error
            return self._http2.encode_goaway(str(error))
        return self._http2.take()
