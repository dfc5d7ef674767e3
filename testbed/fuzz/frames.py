"""The frames of `rlab fuzz`, made from the schemas of all requests and from a seed. Pure.

Most frames are requests with one error: a field of another type, out of its bounds, missing, too long or nested, or a
wrong body. They pass the first checks and reach the code behind them. Other frames are broken: cut, too long, garbage,
or of RocketMQ's protocol. A batch has at most one broken frame; it comes last, and ends the connection.

    whole, broken = Frames(Random(), seed=7).batch(0)
    whole[0].data, whole[0].opaque    -> bytes, the number of its answer
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgpack

from model.errors import ProtocolError
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, HeartbeatData, MessageModel
from model.message import Message, encode_payload
from model.response_code import ResponseCode
from model.subscription import SubscriptionData
from remoting.codec import CODEC, VERSION
from remoting.command import ONE_WAY, RESPONSE
from remoting.request_code import RequestCode
from remoting.wire.field import Field, RequestSchema
from remoting.wire.schema import SCHEMA, field_bounds

if TYPE_CHECKING:
    from random import Random

BATCH_FRAMES = 64
"""Requests of a batch: they are sent at once, and their answers may come in any order."""
_BROKEN_RATIO = 0.6
"""Part of the batches that have a broken frame, for which the server may close the connection."""
_SERVED_RATIO = 0.95
_RECEIVERS = {"broker": ("broker", "any server"), "namesrv": ("name server", "any server")}
"""Kind of a server -> the receivers, as the schemas name them, of the requests that it serves."""
_NAMES = ("orders", "fuzz", "%RETRY%fuzz", "%DLQ%fuzz", "SYS_TRACE", "TBW102", "a b", "", "x" * 300, "<b>\n\r\0", "ü")
_NUMBERS = (0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63), 2**64 - 1)
_COMMON = 4
_MAX_HELD_MS = 20
_DEEP = 600


class FuzzFrame(NamedTuple):
    """One frame; `opaque` is None for a broken frame, which may have no answer, or end the connection."""

    data: bytes
    opaque: int | None
    text: str  # for the report


class FuzzAnswer(NamedTuple):
    """An answer of a server; with a `reply`, a request or notification of the server, and the data to send back."""

    opaque: int
    code: int
    remark: str
    reply: bytes | None = None


class FuzzDecoder(Protocol):
    """Decodes the bytes of a connection into frames, until the first error."""

    @property
    def error(self) -> ProtocolError | None:
        """The error that ended the decoding; None if there was no error."""
        ...

    def feed(self, data: bytes, /) -> Sequence[Any]:
        """Return the frames that are complete."""
        ...


class Frames:
    """Numbered batches of frames; equal seeds give equal batches. Each batch can be made without the batches before it.

    Args:
        rng: is seeded again for each batch.
        seed: decides every frame, together with the kind.
        kind: kind of the server: most requests are of the codes that this kind serves. "" for no preference.

    Attributes:
        opening: the first bytes of each connection.
    """

    opening = b""

    def __init__(self, rng: Random, seed: int, kind: str = "") -> None:
        self._seed = seed
        self._rng = rng
        served = _RECEIVERS.get(kind, ())
        self._codes = sorted(SCHEMA)
        self._served = [code for code in self._codes if SCHEMA[code].receiver in served] or self._codes

    def batch(self, number: int) -> tuple[list[FuzzFrame], FuzzFrame | None]:
        """The requests of a batch, and in some batches a broken frame, to be sent once they are answered."""
        self._rng.seed(f"{self._seed}/{number}")
        first = number * BATCH_FRAMES + 1
        whole = [self._request_with(opaque & 2**31 - 1) for opaque in range(first, first + BATCH_FRAMES)]
        return whole, self._broken() if self._rng.random() < _BROKEN_RATIO else None

    def decoder(self) -> FuzzDecoder:
        """A decoder for the frames of a server."""
        return CODEC.decoder()

    def answer_of(self, frame: Any) -> FuzzAnswer:
        """The answer, or the request of the server, in a decoded frame."""
        if frame.flags == RESPONSE:
            return FuzzAnswer(frame.opaque, frame.code, str(frame.header.get("remark", "")))
        refusal = CODEC.encode(RESPONSE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, frame.opaque, {}, None)
        return FuzzAnswer(0, 0, "", b"" if frame.flags == ONE_WAY else refusal)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _request_with(self, opaque: int) -> FuzzFrame:
        code = self._rng.choice(self._served if self._rng.random() < _SERVED_RATIO else self._codes)
        schema = SCHEMA[code]
        header = self._header(schema)
        data = _framed(msgpack.packb([VERSION, 0, int(code), opaque, header, self._body(code)]))
        return FuzzFrame(data, opaque, f"{code.name} {self._shown(header)}")

    def _header(self, schema: RequestSchema) -> dict[str, Any]:
        rng = self._rng
        wrong = rng.randrange(len(schema.fields) + 2)  # the field with an error; past the end for none
        header = {}
        for index, field in enumerate(schema.fields):
            if index == wrong:
                if rng.random() < 0.8:
                    header[field.name] = self._anything(2)
            elif field.required or rng.random() < 0.4:
                header[field.name] = self._right(field)
        if rng.random() < 0.02:
            header[rng.choice(_NAMES)] = self._anything(2)
        return header

    def _right(self, field: Field) -> Any:
        rng = self._rng
        if field.name == "suspend_ms":
            return rng.randint(0, _MAX_HELD_MS)
        if field.type is list:
            return [self._scalar(field.items or int, field) for _ in range(rng.randrange(4))]
        return self._scalar(field.type, field)

    def _scalar(self, kind: type[object], field: Field) -> Any:
        rng = self._rng
        if kind is int:
            low, high = field_bounds(field) or (-(2**63), 2**64 - 1)
            near = (low, high, low + 1, high - 1, *_NUMBERS)
            return min(high, max(low, rng.choice(near)))
        if kind is bool:
            return rng.random() < 0.5
        if kind is bytes:
            return self._payload() if rng.random() < 0.7 else rng.randbytes(rng.randrange(40))
        return rng.choice(_NAMES[:_COMMON]) if rng.random() < 0.7 else rng.choice(_NAMES)

    def _anything(self, depth: int) -> Any:
        rng = self._rng
        kind = rng.randrange(8 if depth else 6)
        if kind == 0:
            return rng.choice(_NUMBERS)
        if kind == 1:
            return rng.choice(_NAMES)
        if kind == 2:
            return rng.choice((None, True, False, float("nan"), float("inf"), -0.0, 1e308))
        if kind == 3:
            return rng.randbytes(rng.choice((0, 1, 100)))
        if kind == 4:
            return "y" * rng.choice((1, 1_000, 70_000))
        if kind == 5:
            return rng.getrandbits(60)
        inner = [self._anything(depth - 1) for _ in range(rng.randrange(4))]
        return inner if kind == 6 else {str(n): each for n, each in enumerate(inner)}

    def _body(self, code: RequestCode) -> bytes | None:
        rng, schema = self._rng, SCHEMA[code]
        chance = rng.random()
        if chance < 0.1:
            return rng.randbytes(rng.randrange(60))
        if chance < 0.15:
            return b"\x91" * _DEEP + b"\xc0"  # arrays in arrays
        if chance < 0.2:
            return b"\xdd\xff\xff\xff\xff"  # an array that claims four thousand million items
        if chance < 0.3:
            return None
        if not schema.rows:
            return self._document(code)
        columns = schema.columns
        rows = [[self._column(column) for column in columns] for _ in range(rng.randrange(4))]
        packed = msgpack.packb([row[0] for row in rows] if isinstance(schema.rows, Field) else rows)
        return packed

    def _document(self, code: RequestCode) -> bytes:
        """The body of a request whose body is not a table, mostly with an error at one place."""
        rng = self._rng
        document: Any
        if code == RequestCode.SEND_MESSAGE:
            return self._payload()
        if code == RequestCode.HEART_BEAT:
            document = self._heartbeat()
        elif code == RequestCode.SINK_STAGE:
            document = [[rng.choice(_NAMES[:_COMMON]), rng.choice((0, 1, 2)), 0, self._payload()] for _ in range(3)]
        else:
            document = self._anything(3)
        if isinstance(document, dict | list) and document and rng.random() < 0.6:
            self._spoil(document)
        packed: bytes = msgpack.packb(document)
        return packed

    def _payload(self) -> bytes:
        rng = self._rng
        message = Message(rng.choice(_NAMES), rng.randbytes(20), (rng.choice(_NAMES),), rng.choice(_NAMES))
        return encode_payload(message, rng.choice(_NUMBERS), rng.choice(_NAMES))

    def _heartbeat(self) -> dict[str, Any]:
        rng, names = self._rng, _NAMES[:_COMMON]
        topics = sorted(rng.sample(names, rng.randint(0, 3)))
        member = ConsumerData(
            group=rng.choice(names),
            consume_type=rng.choice(list(ConsumeType)),
            model=rng.choice(list(MessageModel)),
            consume_from=rng.choice(list(ConsumeFrom)),
            strategy=rng.choice(("AVG", "AVG", "broker", "")),
            subscriptions=tuple(SubscriptionData(topic, rng.choice(("*", "a || b", "")), 1) for topic in topics),
            session_timeout_s=rng.choice((0.1, 1.0, 30.0)),
            rejoin_within_s=rng.choice((0.0, 1.0)),
            leaseless=rng.random() < 0.2,
            ordered=rng.random() < 0.2,
        )
        return HeartbeatData(
            client_id=rng.choice(names),
            consumers=(member,),
            producer_groups=("fuzz",),
            run_id=rng.choice(("", *names)),
            checkers=("fuzz",),
        ).to_wire()

    def _spoil(self, document: Any) -> None:
        """Replace the value at one place of a document."""
        rng, part = self._rng, document
        while True:
            key = rng.choice(sorted(part)) if isinstance(part, dict) else rng.randrange(len(part))
            if isinstance(part[key], dict | list) and part[key] and rng.random() < 0.8:
                part = part[key]
                continue
            part[key] = self._spoilt()
            return

    def _spoilt(self) -> Any:
        return self._anything(2)

    def _column(self, column: Field) -> Any:
        return self._anything(1) if self._rng.random() < 0.1 else self._right(column)

    @staticmethod
    def _shown(header: object) -> str:
        return repr(header)[:300]

    # --- broken frames -----------------------------------------------------------------------------------------------

    def _broken(self) -> FuzzFrame:
        makers = (self._garbage, self._cut, self._too_long, self._odd, self._rocketmq)
        make: Callable[[], bytes] = self._rng.choice(makers)
        return FuzzFrame(make(), None, make.__name__.strip("_"))

    def _garbage(self) -> bytes:
        return self._rng.randbytes(self._rng.randrange(1, 2_000))

    def _cut(self) -> bytes:
        whole = self._request()
        return whole[: self._rng.randrange(1, len(whole))]

    def _too_long(self) -> bytes:
        return self._rng.choice((2**24 + 1, 2**31, 2**32 - 1)).to_bytes(4, "big") + self._rng.randbytes(20)

    def _odd(self) -> bytes:
        """A frame with another array than a command has, or with deeply nested arrays."""
        if self._rng.random() < 0.3:
            return _framed(b"\x91" * (_DEEP * 100) + b"\xc0")
        return _framed(msgpack.packb([self._anything(3) for _ in range(self._rng.randrange(8))]))

    def _rocketmq(self) -> bytes:
        rng = self._rng
        fields = {
            rng.choice(("topic", "queueId", "consumerGroup", "offset", "a", "b")): str(self._anything(0))[:200]
            for _ in range(6)
        }
        header: Any = {"code": int(rng.choice(self._codes)), "opaque": 1, "flag": 0, "extFields": fields}
        if rng.random() < 0.3:
            header[rng.choice(("code", "flag", "extFields", "version"))] = (
                self._anything(1) if rng.random() < 0.5 else "x"
            )
        text = json.dumps(header, default=str).encode()
        if rng.random() < 0.2:
            text = b"[" * 100_000
        return (4 + len(text)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text

    def _request(self) -> bytes:
        code = self._rng.choice(self._codes)
        return _framed(msgpack.packb([VERSION, 0, int(code), 1, self._header(SCHEMA[code]), None]))


def _framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload
