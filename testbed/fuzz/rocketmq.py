"""The frames of `rlab fuzz --rocketmq`: requests of RocketMQ's clients and tool, made from a seed. Pure.

The dialect has no schemas: each translator reads the fields that it needs by their names. So a request has all fields
that any translator reads, most of them as a client writes them, and the body for its code, with or without an error.
Other frames have no answer: frames with wrong lengths, with a deep header or one that is not JSON, answers, and one-way
requests.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rocketmq.dialects import broker_dialect, name_server_dialect
from rocketmq.edge import ServerFacts
from rocketmq.frame import ONE_WAY_BIT, RESPONSE_BIT, Frame, FrameDecoder, encode_frame
from testbed.fuzz.frames import Frames, FuzzAnswer, FuzzFrame

if TYPE_CHECKING:
    from random import Random

_TEXTS = ("orders", "fuzz", "%RETRY%fuzz", "%DLQ%fuzz", "SYS_TRACE", "TBW102", "a b", "", "x" * 300, "\r\0")
_COMMON = 3
_MEMBER = "fuzz-member"
_TOPICS = ("topic", "b", "key", "msgId", "transactionId")
_GROUPS = ("consumerGroup", "group", "producerGroup", "a", "groupName", "srcGroup")
_NUMBERS = (
    *("queueId", "e", "queueOffset", "offset", "commitOffset", "maxMsgNums", "maxNum", "sysFlag", "f", "flag", "h"),
    *("bornTimestamp", "g", "reconsumeTimes", "j", "maxReconsumeTimes", "l", "delayLevel", "timestamp", "perm"),
    *("readQueueNums", "writeQueueNums", "invisibleTime", "initMode", "tranStateTableOffset", "commitOrRollback"),
    *("beginTimestamp", "endTimestamp", "subVersion", "popShareQueueNum"),
)
_FLAGS = ("isForce", "order", "jstackEnable", "fromTransactionCheck", "_UNIQUE_KEY_QUERY", "isOrder", "unitMode")
_HELD = ("suspendTimeoutMillis", "pollTime")
_MAX_HELD_MS = 20
_SMALL = (0, 0, 0, 1, 1, 2, 3, 4, 6, 7, -1)
_LARGE = (12, 0x101, 0x301, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63), 2**64)
_ODD = (None, True, float("nan"), float("inf"), 1e308, "0x10", " 7 ", "1e3", "٣", "9" * 5_000, "y" * 8_000)
"""Values for a field of a valid frame, beside names and numbers: any JSON value except lists and objects."""
_PROPERTIES = (
    *("", "KEYS\x01k\x02TAGS\x01t\x02", "DELAY\x012\x02", "DELAY\x0199\x02", "TIMER_DELAY_MS\x0120\x02"),
    *("TRAN_MSG\x01true\x02PGROUP\x01fuzz\x02", "UNIQ_KEY\x01U\x02", "a", "\x02\x01", "TIMER_DELIVER_MS\x01x\x02"),
    *("RETRY_TOPIC\x01orders\x02RECONSUME_TIME\x01-1", "a\x01" + "v" * 40_000),
)
_QUEUE = {"topic": "orders", "brokerName": "broker-a", "queueId": 0}
_SUBSCRIPTION = {"topic": "orders", "subString": "a || b", "subVersion": 1, "expressionType": "TAG", "codeSet": [97]}
_CONSUMER = {
    **{"groupName": "fuzz", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"},
    **{"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [_SUBSCRIPTION], "unitMode": False},
}
_LOCKS = {"consumerGroup": "fuzz", "clientId": _MEMBER, "mqSet": [_QUEUE]}
_SETTINGS = {"groupName": "fuzz", "consumeEnable": True, "consumeBroadcastEnable": True, "retryQueueNums": 1}
_DOCUMENTS: dict[int, dict[str, Any]] = {
    34: {"clientID": _MEMBER, "consumerDataSet": [_CONSUMER], "producerDataSet": [{"groupName": "fuzz"}]},
    41: _LOCKS,
    42: _LOCKS,
    46: {"clientId": _MEMBER, "group": "fuzz", "subscriptionData": _SUBSCRIPTION},
    200: {**_SETTINGS, "retryMaxTimes": 3, "brokerId": 0},
    400: {
        **{"topic": "orders", "consumerGroup": "fuzz", "clientId": _MEMBER, "strategyName": "AVG"},
        **{"messageModel": "CLUSTERING"},
    },
    401: {"topic": "orders", "consumerGroup": "fuzz", "mode": "POP", "popShareQueueNum": 0},
}
"""Request code -> the JSON body of its requests."""


class RocketmqFrames(Frames):
    """Numbered batches of RocketMQ's frames; equal seeds give equal batches."""

    def __init__(self, rng: Random, seed: int, kind: str = "") -> None:
        super().__init__(rng, seed, kind)
        dialects = {"namesrv": name_server_dialect(), "broker": broker_dialect(ServerFacts())}
        served = [dialects[kind]] if kind in dialects else dialects.values()
        known_codes = {code for dialect in served for code in dialect.translators}
        self._compressed = (zlib.compress(b"body"), zlib.compress(bytes(5_000_000)))
        self._known = (*sorted(known_codes), 0, 3, 999)

    def decoder(self) -> FrameDecoder:
        """See `Frames.decoder`."""
        return FrameDecoder()

    def answer_of(self, frame: Frame) -> FuzzAnswer:
        """See `Frames.answer_of`."""
        if frame.flag & RESPONSE_BIT:
            return FuzzAnswer(frame.opaque, frame.code, frame.remark or "")
        refusal = Frame(1, RESPONSE_BIT, frame.opaque, {}, remark="not here")
        return FuzzAnswer(0, 0, "", b"" if frame.flag & ONE_WAY_BIT else encode_frame(refusal))

    def _request_with(self, opaque: int) -> FuzzFrame:
        rng = self._rng
        code = rng.choice(self._known)
        body = self._body_of(code)
        if rng.random() < 0.5:
            fields = {name: _text(value) for name, value in self._fields().items()}
            frame = Frame(code, 0, opaque, fields, body, binary=True)
            return FuzzFrame(encode_frame(frame), opaque, f"{code} {fields!r}"[:300])
        written_code = rng.choice((code, str(code)))
        header: dict[str, Any] = {"code": written_code, "flag": 0, "opaque": opaque, "extFields": self._fields()}
        header |= {"language": rng.choice(("JAVA", "CPP", "GO", "OTHER", 7)), "version": rng.choice((0, 401, 493))}
        return FuzzFrame(_framed(header, body), opaque, f"{code} {header['extFields']!r}"[:300])

    def _fields(self) -> dict[str, Any]:
        rng = self._rng
        topic, group = (
            name_drawn if rng.random() < 0.7 else rng.choice(_TEXTS[:_COMMON]) for name_drawn in ("orders", "fuzz")
        )
        fields: dict[str, Any] = {
            "brokerName": "broker-a",
            **dict.fromkeys(_TOPICS, topic),
            **dict.fromkeys(_GROUPS, group),
        }
        fields |= {name: str(rng.choice(_SMALL)) for name in _NUMBERS}
        fields |= {name: rng.choice(("true", "false", "1", 0)) for name in _FLAGS}
        fields |= {name: str(rng.randint(0, _MAX_HELD_MS)) for name in _HELD}
        fields |= {"i": rng.choice(_PROPERTIES), "properties": rng.choice(_PROPERTIES), "batch": "false", "m": "false"}
        fields |= {"clientId": _MEMBER, "clientID": _MEMBER, "subscription": "a || b", "exp": "*", "expType": "TAG"}
        fields["extraInfo"] = rng.choice(("1 2 3 0 0 broker-a 0 0", "-1", "x y"))
        for name in rng.sample(sorted(fields), 4):
            if rng.random() < 0.3:
                del fields[name]
            elif name not in _HELD:
                fields[name] = rng.choice((*_LARGE, *_TEXTS, *_ODD))
        return fields

    def _body_of(self, code: int) -> bytes | None:
        rng = self._rng
        chance = rng.random()
        if chance < 0.05:
            return b"[" * 50_000
        if chance < 0.15:
            return rng.randbytes(rng.randrange(60))
        if chance < 0.2:
            return rng.choice(self._compressed)
        if code in _DOCUMENTS:
            document = json.loads(json.dumps(_DOCUMENTS[code]))
            if rng.random() < 0.7:
                self._spoil(document)
            return _json(document)
        if code == 320:
            lengths = (rng.choice((0, 5, 24, 2**31)), rng.choice((0, 1, 2**31 - 1)))
            return struct.pack(">IIIII", lengths[0] + 20, 0, 0, 0, lengths[1]) + b"x\0\0"
        return b"body" if chance < 0.8 else None

    def _spoilt(self) -> Any:
        return "\ud800" if self._rng.random() < 0.05 else self._anything(2)

    # --- broken frames -----------------------------------------------------------------------------------------------

    def _broken(self) -> FuzzFrame:
        makers = (self._garbage, self._lying, self._bad_header, self._unasked, self._one_way)
        make: Callable[[], bytes] = self._rng.choice(makers)
        return FuzzFrame(make(), None, make.__name__.strip("_"))

    def _lying(self) -> bytes:
        length, header = self._rng.choice(((2, 1), (2**24, 10), (2**27, 0), (30, 2**24 - 1), (8, 5), (4, 0)))
        return struct.pack(">II", length, self._rng.randrange(3) << 24 | header) + self._rng.randbytes(40)

    def _bad_header(self) -> bytes:
        half = {"extFields": {"topic": "\ud800"}}
        wrong = (
            half
            if self._rng.random() < 0.2
            else {self._rng.choice(("code", "opaque", "flag", "extFields", "version", "remark")): self._anything(2)}
        )
        long = {"remark": "x" * 200_000}
        right = {"code": 10, "opaque": 1}
        text = self._rng.choice((b"[" * 60_000, b"{}", b"\xff", _json(right | long), _json(right | wrong)))
        return struct.pack(">II", 4 + len(text), self._rng.randrange(2) << 24 | len(text)) + text

    def _unasked(self) -> bytes:
        """An answer without a request."""
        return _framed(
            {"code": self._rng.choice(_LARGE), "flag": RESPONSE_BIT, "opaque": self._rng.choice(_SMALL)}, b"x"
        )

    def _one_way(self) -> bytes:
        code = self._rng.choice(self._known)
        header = {"code": code, "flag": ONE_WAY_BIT, "opaque": 1, "extFields": self._fields()}
        return _framed(header, self._body_of(code))


def _json(value: object) -> bytes:
    return json.dumps(value, default=str).encode()


def _text(value: object) -> str:
    return str(value).encode(errors="replace").decode()


def _framed(header: dict[str, Any], body: bytes | None) -> bytes:
    text = _json(header)
    return struct.pack(">II", 4 + len(text) + len(body or b""), len(text)) + text + (body or b"")
