"""GrpcEdge: the codec of one connection of RocketMQ 5 clients.

Like `rocketmq/edge.py` it translates calls to this project's commands, and the answers back. While a call is
outstanding, the opaque number of its command is a `GrpcQuestion`: an int that carries the call and the translator of
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
from rocketmq.edge import Facts
from rocketmq.grpc import words
from rocketmq.grpc.http2 import INTERNAL, UNIMPLEMENTED, CallEvent, GrpcCall, Http2
from rocketmq.grpc.signing import check_signature
from rocketmq.grpc.status import GrpcRefused, status, status_of
from rocketmq.grpc.words import WORDS
from rocketmq.signing import Check


class Asked(NamedTuple):
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
class GrpcCaller:
    """The clients of one connection, as translators need them; `groups` is by client id."""

    facts: Facts
    peer: Peer
    picked_queues: int = 0
    groups: dict[str, Subscriptions] = field(default_factory=dict)

    def subscribed(self, call: GrpcCall, group: str, topics: Mapping[str, Expression]) -> None:
        """Remember what the client of a call reads, for its heartbeats; of too many clients the oldest is forgotten."""
        client_id = client_id_of(call)
        of_client = self.groups.setdefault(client_id, {})
        of_client.setdefault(group, {}).update(topics)
        while len(self.groups) > MAX_GRPC_CLIENTS:
            del self.groups[next(iter(self.groups))]

    def command(self, code: RequestCode, header: dict[str, Any], body: bytes | None = None) -> Command:
        """A request of the edge itself; its answer is dropped."""
        return Command(REQUEST, code, _OWN_OPAQUE, header, body)

    def ask(self, code: RequestCode, header: dict[str, Any], body: bytes | None = None) -> None:
        """Send a request of the edge itself; its answer is dropped."""
        self.peer.handle_soon(self.command(code, header, body))

    @property
    def address(self) -> str:
        """The address of this server as its client sees it."""
        return f"{self.peer.local_host}:{self.peer.local_port}"


Translator = Callable[[GrpcCaller, GrpcCall, Any], "Asked | list[Any]"]
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

    `elsewhere` is the end of the error message for an unknown RPC.
    """

    facts: Facts
    rpcs: Mapping[str, Rpc]
    elsewhere: str
    check: Check | None = None  # with access control: checks that each call is signed

    def checked_by(self, check: Check) -> GrpcDialect:
        """The same for a server with access control."""
        return replace(self, check=check)

    def codec(self, peer: Peer) -> GrpcEdge:
        """See `remoting.codec.Dialect`; `rocketmq/grpc/door.py` recognises the protocol, and calls this."""
        return GrpcEdge(self, peer)


def client_id_of(call: GrpcCall) -> str:
    """The id of the client of a call."""
    return call.metadata["x-mq-client-id"]


class GrpcQuestion(int):
    """The opaque number of an outstanding request, with its call and the translator of its answer."""

    call: GrpcCall
    rpc: Rpc
    asked: Asked


class GrpcEdge:
    """The codec and decoder of one connection; see the module header."""

    def __init__(self, dialect: GrpcDialect, peer: Peer) -> None:
        self.error: ProtocolError | None = None
        self._dialect = dialect
        self._peer = peer
        self._caller = GrpcCaller(dialect.facts, peer)
        self._http2 = Http2()
        self._opaque = 0

    # --- decoding ----------------------------------------------------------------------------------------------------

    def decoder(self) -> GrpcEdge:
        """See `remoting.codec.Codec`."""
        return self

    @property
    def under_way(self) -> int:
        """See `remoting.codec.Decoder`."""
        return self._http2.under_way

    def at_frame_boundary(self) -> bool:
        """See `remoting.codec.Decoder`."""
        return not self._http2.under_way

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

    def _on_call_event(self, kind: CallEvent, call: GrpcCall) -> Command | None:
        if kind is CallEvent.CANCELLED:
            question = call.opaque
            if isinstance(question, GrpcQuestion) and question.asked.cancel is not None:
                return question.asked.cancel(int(question))
            return None
        rpc = self._dialect.rpcs.get(call.method)
        if rpc is None:
            text = f"{call.method[:200]} is not served here: {self._dialect.elsewhere}"
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
            message = WORDS[rpc.request].FromString(call.message)
        except DecodeError as error:
            self._http2.fail(call, INTERNAL, f"the message is no {rpc.request}: {error}")
            return None
        try:
            if self._dialect.check is not None:
                check_signature(self._dialect.check, self._peer, call)
            if not call.metadata.get("x-mq-client-id"):
                raise GrpcRefused(words.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing or empty")
            asked = rpc.translate(self._caller, call, message)
        except GrpcRefused as error:
            asked = [WORDS[rpc.response](status=status(error.code, str(error)))]
        except RlabError as error:
            asked = [WORDS[rpc.response](status=status_of(error.code or ResponseCode.SYSTEM_ERROR, str(error)))]
        if not isinstance(asked, Asked):
            self._http2.send(call, [each.SerializeToString() for each in asked], end=not rpc.is_stream)
            return None
        self._opaque += 1
        opaque = GrpcQuestion(self._opaque)
        opaque.call, opaque.rpc, opaque.asked = call, rpc, asked
        call.opaque = opaque
        return Command(REQUEST, asked.code, opaque, asked.header, asked.body)

    # --- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `remoting.codec.Codec`. A command without a form in this protocol becomes zero bytes."""
        if flags != RESPONSE:
            return b""
        if isinstance(opaque, OwnOpaque):
            return b""
        if not isinstance(opaque, GrpcQuestion):
            # About the connection: the reason why it is closed.
            return self._http2.goodbye(str(header.get("remark")))
        asked, call = opaque.asked, opaque.call
        if code and code not in asked.outcomes:
            refused = WORDS[opaque.rpc.response]() if asked.refusal is None else asked.refusal
            refused.status.CopyFrom(status_of(code, str(header.get("remark") or "")))
            answer = [refused]
        elif not call.open and asked.unread is not None:
            asked.unread(dict(header), body, code)
            return b""
        else:
            answer = asked.answer(dict(header), body, code)
        try:
            self._http2.send(call, [each.SerializeToString() for each in answer], end=not opaque.rpc.is_stream)
        except ProtocolError as error:
            self.error = error
            return self._http2.goodbye(str(error))
        return self._http2.take()
