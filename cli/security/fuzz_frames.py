"""The frames of `rlab fuzz`, made from the schemas of all requests and from a seed. Pure.

Most frames are requests that are right but for something: a field of another type, out of its bounds, missing, too long
or nested, a body that is not what it should be. They get through the first checks, and meet the code behind. Others are
no frames at all: cut, too long, garbage, or of RocketMQ's protocol.

    frame = Frames(Random(7)).next()
    frame.data, frame.opaque       -> bytes, the number that the answer has, or None if it may have none
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from remoting.codec import CODEC, VERSION
from remoting.wire.field import Field, RequestSchema
from remoting.wire.schema import SCHEMA, bounds_of

if TYPE_CHECKING:
    from random import Random

_NAMES = ("orders", "fuzz", "%RETRY%fuzz", "%DLQ%fuzz", "SYS_TRACE", "TBW102", "a b", "", "x" * 300, "<b>\n\r\0", "ü")
_NUMBERS = (0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63), 2**64 - 1)
_MAX_HELD_MS = 20
_DEEP = 600


class FuzzFrame(NamedTuple):
    """One frame; `opaque` is None if there may be no answer, and the connection may be closed for it."""

    data: bytes
    opaque: int | None
    told: str


class FuzzAnswer(NamedTuple):
    """What a server answered; with a `reply`, what it asked or told by itself, and what is to be sent back."""

    opaque: int
    code: int
    remark: str
    reply: bytes | None = None


class Frames:
    """An endless row of frames; equal seeds give equal rows."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._codes = sorted(SCHEMA)
        self._opaque = 0

    def next(self) -> FuzzFrame:
        """The next frame."""
        self._opaque += 1
        if self._rng.random() < 0.02:  # each of them costs a connection
            make: Callable[[], bytes] = self._rng.choice(
                (self._garbage, self._cut, self._too_long, self._odd, self._rocketmq)
            )
            return FuzzFrame(make(), None, make.__name__.strip("_"))
        code = self._rng.choice(self._codes)
        schema = SCHEMA[code]
        fields = [VERSION, 0, int(code), self._opaque, self._header(schema), self._body(schema)]
        return FuzzFrame(_framed(msgpack.packb(fields)), self._opaque, f"{code.name} {self._shown(fields[4])}")

    def reader(self) -> Callable[[bytes], list[FuzzAnswer]]:
        """Read the answers of one connection, piece by piece."""
        decoder = CODEC.decoder()
        return lambda data: [
            FuzzAnswer(answer.opaque, answer.code, str(answer.header.get("remark", "")))
            for answer in decoder.feed(data)
        ]

    # --- requests ----------------------------------------------------------------------------------------------------

    def _header(self, schema: RequestSchema) -> dict[str, Any]:
        rng = self._rng
        wrong = rng.randrange(len(schema.fields) + 2)  # at most one is, mostly
        header = {}
        for at, field in enumerate(schema.fields):
            if at == wrong:
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
            low, high = bounds_of(field) or (-(2**63), 2**64 - 1)
            near = (low, high, low + 1, high - 1, *_NUMBERS)
            return min(high, max(low, rng.choice(near)))
        if kind is bool:
            return rng.random() < 0.5
        if kind is bytes:
            return rng.randbytes(rng.randrange(40))
        return rng.choice(_NAMES[:4]) if rng.random() < 0.7 else rng.choice(_NAMES)

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

    def _body(self, schema: RequestSchema) -> bytes | None:
        rng = self._rng
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
            packed: bytes = msgpack.packb(self._anything(3))
            return packed
        columns = schema.columns
        rows = [[self._column(column) for column in columns] for _ in range(rng.randrange(4))]
        packed = msgpack.packb([row[0] for row in rows] if isinstance(schema.rows, Field) else rows)
        return packed

    def _column(self, column: Field) -> Any:
        return self._anything(1) if self._rng.random() < 0.1 else self._right(column)

    @staticmethod
    def _shown(header: object) -> str:
        return repr(header)[:300]

    # --- what is no request ------------------------------------------------------------------------------------------

    def _garbage(self) -> bytes:
        return self._rng.randbytes(self._rng.randrange(1, 2_000))

    def _cut(self) -> bytes:
        whole = self._request()
        return whole[: self._rng.randrange(1, len(whole))]

    def _too_long(self) -> bytes:
        return self._rng.choice((2**24 + 1, 2**31, 2**32 - 1)).to_bytes(4, "big") + self._rng.randbytes(20)

    def _odd(self) -> bytes:
        """A frame whose array is another one, or nested deep."""
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
