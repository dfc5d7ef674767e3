"""Edge: one connection of a RocketMQ client; handlers get the commands of this project.

An edge is the codec of one connection. It decodes RocketMQ's frames, has each request translated to a command of this
project, and translates the answer back. It knows the client's id and subscriptions from that client's heartbeats. Our
own clients send them in each request.

A request passes as a `RequestOpaque`: the opaque number of the command keeps the frame and the translator of the
answer. So an edge has no table of outstanding requests, and a request that is never answered leaves nothing behind. The
edge itself answers codes that no handler serves, and questions about the client only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from model.errors import RlabError
from model.limits import MAX_REMARK_CHARS
from model.response_code import ResponseCode
from model.subscription import Expression
from model.topic_route import MessageType
from remoting.codec import Peer
from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command
from remoting.request_code import RequestCode
from rocketmq.fields import FieldError, Fields, header_text
from rocketmq.frame import ONE_WAY_BIT, RESPONSE_BIT, Frame, FrameReader, encode_frame, is_first_of_rocketmq
from rocketmq.message import Host
from rocketmq.signing import Check, check_signature

logger = logging.getLogger(__name__)

_OWN_CODES = 90_000
"""Response codes from this number on are this project's: RocketMQ's clients do not know them."""
_FIRST_NOTIFICATION = 2**30
"""First opaque of notifications: if a client answers one, it is not mistaken for the answer of a request."""
_FLUSH_SLAVE_TIMEOUT = 12
_LIKE_OURS: dict[int, int] = {
    ResponseCode.STORAGE_FULL: ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NOT_MASTER: ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NOT_ENOUGH_REPLICAS: ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.REPLICATION_TIMEOUT: _FLUSH_SLAVE_TIMEOUT,
}
"""Our codes that have a RocketMQ code of similar meaning: 14 makes its clients try another broker."""


class StockAnswer(NamedTuple):
    """An answer to a client: header fields, body, response code and remark."""

    fields: Mapping[str, object] = {}
    body: bytes | None = None
    code: int = 0
    remark: str | None = None


AnswerTranslator = Callable[[dict[str, Any], bytes | None, int], StockAnswer]
"""Translates the answer of a handler: header, body, code. It gets no refusals, except those in `outcomes`."""


class TranslatedRequest(NamedTuple):
    """A request of this project and the translator of its answer; `outcomes` are error codes that count as answers."""

    code: RequestCode
    header: dict[str, Any]
    body: bytes | None
    answer: AnswerTranslator
    outcomes: tuple[int, ...] = ()


def empty_answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    """An answer without a result."""
    return StockAnswer()


class ServerFacts:
    """The facts about the server that translators need; for a name server there are none."""

    def now_ms(self) -> int:
        """The wall clock in milliseconds."""
        return 0

    def topic_id(self, topic: str) -> int:
        """Topic id of a topic; 0 if it is not known."""
        return 0

    def topic_of(self, topic_id: int) -> str | None:
        """The topic with a topic id, or None."""
        return None

    def broker_name(self) -> str:
        """Name of the broker; empty for a name server."""
        return ""

    def write_queues(self, topic: str) -> int:
        """Number of write queues of a topic; 0 if it is not known."""
        return 0

    def message_type(self, topic: str) -> MessageType:
        """Type of the messages that a topic takes; MIXED if it is not known."""
        return MessageType.MIXED


@dataclass(slots=True)
class GroupSubscription:
    """One group of the client: its topics with their expressions and versions."""

    topics: dict[str, tuple[Expression, int]]
    is_clustering: bool


@dataclass(slots=True)
class Caller:
    """The client of one connection; `groups` is from its last heartbeat."""

    facts: ServerFacts
    peer: Peer
    client_id: str = ""
    language: str = ""
    groups: dict[str, GroupSubscription] = field(default_factory=dict)
    generated_ids: int = 0
    picked_queues: int = 0

    @property
    def store(self) -> Host:
        """The address of this server as its client sees it."""
        return Host.of(self.peer.local_host, self.peer.local_port)

    @property
    def address(self) -> str:
        """The local address as text."""
        return f"{self.peer.local_host}:{self.peer.local_port}"

    @property
    def id_or_peer(self) -> str:
        """The client's id; its address before the first heartbeat."""
        return self.client_id or f"rocketmq@{self.peer.peer}"


Translator = Callable[[Caller, Fields, bytes, Frame], "TranslatedRequest | StockAnswer"]
Notifier = Callable[[Caller, Mapping[str, Any], bytes | None], "tuple[int, Mapping[str, object], bytes | None] | None"]


@dataclass(frozen=True, slots=True)
class RocketmqDialect:
    """RocketMQ's protocol for one server: translators of requests, and of the server's own notifications, by code."""

    facts: ServerFacts
    translators: Mapping[int, Translator]
    notifiers: Mapping[int, Notifier]
    check: Check | None = None  # with access control: checks that each request is signed

    def with_check(self, check: Check) -> RocketmqDialect:
        """See `remoting.codec.Dialect`."""
        return replace(self, check=check)

    def matches(self, first: bytes) -> bool | None:
        """See `remoting.codec.Dialect`."""
        return is_first_of_rocketmq(first)

    def codec(self, peer: Peer) -> Edge:
        """See `remoting.codec.Dialect`."""
        return Edge(self, peer)


class RequestOpaque(int):
    """The opaque number of an outstanding request, with its frame and the translator of its answer."""

    frame: Frame
    asked: TranslatedRequest


class Edge(FrameReader):
    """The codec and decoder of one connection; see the module header."""

    def __init__(self, dialect: RocketmqDialect, peer: Peer) -> None:
        self._dialect = dialect
        self._peer = peer
        self._caller = Caller(dialect.facts, peer)
        super().__init__()
        self._opaque = 0
        self._binary = False
        self._own_opaque = _FIRST_NOTIFICATION

    # --- decoding ----------------------------------------------------------------------------------------------------

    def decoder(self) -> Edge:
        """See `remoting.codec.Codec`."""
        return self

    def feed(self, data: bytes) -> list[Command]:
        """See `remoting.codec.Decoder`."""
        return [command for frame in self._frames.feed(data) if (command := self._translate(frame)) is not None]

    def _translate(self, frame: Frame) -> Command | None:
        self._binary = frame.binary
        if frame.flag & RESPONSE_BIT:
            return Command(RESPONSE, frame.code, frame.opaque, {"remark": frame.remark or ""}, frame.body)
        translator = self._dialect.translators.get(frame.code)
        try:
            if self._dialect.check is not None:
                check_signature(self._dialect.check, self._peer, frame)
            if translator is None:
                remark = f" request type {frame.code} not supported"
                result: TranslatedRequest | StockAnswer = StockAnswer(
                    code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark
                )
            else:
                result = translator(self._caller, Fields(frame.fields), frame.body or b"", frame)
        except RlabError as error:
            result = StockAnswer(code=error.code or ResponseCode.SYSTEM_ERROR, remark=str(error))
        except FieldError as error:
            result = StockAnswer(code=ResponseCode.SYSTEM_ERROR, remark=f"request {frame.code}: {error}")
        if isinstance(result, StockAnswer):
            if not frame.flag & ONE_WAY_BIT:
                self._peer.send_frame(_answer(frame, result))
            return None
        self._opaque += 1
        opaque = RequestOpaque(self._opaque)
        opaque.frame, opaque.asked = frame, result
        flags = ONE_WAY if frame.flag & ONE_WAY_BIT else REQUEST
        return Command(flags, result.code, opaque, result.header, result.body)

    # --- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `remoting.codec.Codec`. A command without a RocketMQ form becomes zero bytes."""
        if flags != RESPONSE:
            return self._encode_pushed(flags, code, opaque, header, body)
        if not isinstance(opaque, RequestOpaque):
            # About the connection: the reason why it is closed.
            refused = Frame(ResponseCode.SYSTEM_ERROR, RESPONSE_BIT, 0, {}, None, str(header.get("remark")))
            return encode_frame(refused._replace(binary=self._binary))
        translated = opaque.asked
        if code and code not in translated.outcomes:
            return _answer(opaque.frame, StockAnswer(code=code, remark=str(header.get("remark") or "")))
        return _answer(opaque.frame, translated.answer(dict(header), body, code))

    def _encode_pushed(
        self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None
    ) -> bytes:
        """Encode a command that the server starts: a notification, or a request whose answer its session expects."""
        notifier = self._dialect.notifiers.get(code)
        pushed = None if notifier is None else notifier(self._caller, header, body)
        if pushed is None:
            return b""
        flag = 0
        if flags == ONE_WAY:
            flag = ONE_WAY_BIT
            opaque = self._own_opaque = self._own_opaque + 1
        fields = {name: header_text(value) for name, value in pushed[1].items()}
        return encode_frame(Frame(pushed[0], flag, opaque, fields, pushed[2], binary=self._binary))


def _answer(frame: Frame, outcome: StockAnswer) -> bytes:
    code = _LIKE_OURS.get(outcome.code, outcome.code)
    if code >= _OWN_CODES:
        code = ResponseCode.SYSTEM_ERROR
    fields = {name: header_text(value) for name, value in outcome.fields.items()}
    remark = None if outcome.remark is None else outcome.remark[:MAX_REMARK_CHARS]
    return encode_frame(Frame(code, RESPONSE_BIT, frame.opaque, fields, outcome.body, remark, binary=frame.binary))
