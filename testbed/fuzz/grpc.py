"""The frames of `rlab fuzz --grpc`: calls of RocketMQ 5's clients over HTTP/2, made from a seed. Pure.

A batch has 64 calls, and needs nothing of the batches before it: headers are encoded without HPACK's dynamic table,
and the stream id of a call follows from the number of the batch. Most calls have a message with some fields of odd
values; others have odd headers, no message, two messages, a wrong length, or garbage in the place of a message. Some
are reset by their sender.

Broken frames end the connection: garbage, frames of a wrong length or order, and floods of frames that do no work.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hpack import Decoder as HeaderDecoder
from hpack import Encoder as HeaderEncoder
from hpack import HPACKError
from hpack import NeverIndexedHeaderTuple as Header

from model.errors import ProtocolError
from model.response_code import ResponseCode
from rocketmq.edge import ServerFacts
from rocketmq.grpc.dialect import broker_grpc, name_server_grpc
from rocketmq.grpc.http2.frame_guard import PREFACE
from rocketmq.grpc.proto import MESSAGES
from testbed.fuzz.frames import Frames, FuzzAnswer, FuzzFrame

if TYPE_CHECKING:
    from random import Random

_DATA, _HEADERS, _PRIORITY, _RST_STREAM, _SETTINGS, _PUSH, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = range(10)
_END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x4, 0x8
_HEAD_BYTES = 9
_SERVICE = "/apache.rocketmq.v2.MessagingService/"
_INTERNAL = b"see the server's log"
_TEXTS = ("orders", "fuzz", "%RETRY%fuzz", "%DLQ%fuzz", "SYS_TRACE", "a b", "", "x" * 300, "\r\0", "ü", "*", "a||b")
_NUMBERS = (0, 1, 2, 3, 4, 5, 7, 32, -1, 10_000, 2**31 - 1, -(2**31))
_LONG = (2**53, 2**63 - 1, -(2**63), 10**12)
_BODIES = (b"", b"body", b"\xff\xfe", b"x" * 9_000, bytes(300))
_PATHS = (_SERVICE, _SERVICE + "Nothing", "/grpc.health.v1.Health/Check", "", "/" + "x" * 500)
_SIGNED = "MQv2-HMAC-SHA1 Credential=a, SignedHeaders=x-mq-date-time, Signature=0g"
_POLL_TIMEOUT_FIELD, _MAX_POLL_MS = "long_polling_timeout", 20
_WINDOW_BYTES = 65_535
"""What may be sent of a call before the server has opened its window: all of it, because a batch does not wait."""
_MAX_ITEMS = 3
_MAX_DEPTH = 4


def encode_http2_frame(frame_type: int, payload: bytes = b"", stream_id: int = 0, flags: int = 0) -> bytes:
    """One frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes((frame_type, flags)) + stream_id.to_bytes(4) + payload


class GrpcAnswers:
    """Decodes what a server sends: the end of each call, and the reason with which it closes the connection."""

    def __init__(self) -> None:
        self.error: ProtocolError | None = None
        self._buffer = b""
        self._headers = HeaderDecoder()
        self._failed: dict[int, str] = {}

    def feed(self, data: bytes) -> list[FuzzAnswer]:
        """See `FuzzDecoder`."""
        stream, frame_at = self._buffer + data, 0
        answers: list[FuzzAnswer] = []
        while self.error is None and len(stream) - frame_at >= _HEAD_BYTES:
            payload_at = frame_at + _HEAD_BYTES
            end = payload_at + int.from_bytes(stream[frame_at : frame_at + 3])
            if len(stream) < end:
                break
            stream_id = int.from_bytes(stream[frame_at + 5 : payload_at])
            self._frame(stream[frame_at + 3], stream[frame_at + 4], stream_id, stream[payload_at:end], answers)
            frame_at = end
        self._buffer = stream[frame_at:]
        return answers

    def _frame(self, frame_type: int, flags: int, stream_id: int, payload: bytes, answers: list[FuzzAnswer]) -> None:
        if frame_type == _DATA and _INTERNAL in payload:
            self._failed[stream_id] = _INTERNAL.decode()
        elif frame_type == _GOAWAY:
            answers.append(FuzzAnswer(0, ResponseCode.PROTOCOL_ERROR, payload[8:].decode(errors="replace")))
        elif frame_type == _PING and not flags:
            answers.append(FuzzAnswer(0, 0, "", encode_http2_frame(_PING, payload, flags=1)))
        elif frame_type == _HEADERS:
            try:
                headers = {str(name): str(value) for name, value in self._headers.decode(payload)}
            except HPACKError as error:
                self.error = ProtocolError(f"headers of the server cannot be read: {error}")
                return
            if flags & _END_STREAM:
                failure = self._failed.pop(stream_id, "")
                code = ResponseCode.SYSTEM_ERROR if failure else int(headers.get("grpc-status", "-1"))
                answers.append(FuzzAnswer(stream_id, code, failure or headers.get("grpc-message", "")))


class GrpcFrames(Frames):
    """Numbered batches of calls; equal seeds give equal batches."""

    opening = (
        PREFACE
        + encode_http2_frame(_SETTINGS, struct.pack(">HI", 4, 2**31 - 1))
        + encode_http2_frame(_WINDOW_UPDATE, (2**31 - 1 - 65_535).to_bytes(4))
    )

    def __init__(self, rng: Random, seed: int, kind: str = "") -> None:
        super().__init__(rng, seed, kind)
        dialect = name_server_grpc(ServerFacts()) if kind == "namesrv" else broker_grpc(ServerFacts())
        self._rpcs = list(dialect.rpcs.items())

    def decoder(self) -> GrpcAnswers:
        """See `Frames.decoder`."""
        return GrpcAnswers()

    def answer_of(self, frame: FuzzAnswer) -> FuzzAnswer:
        """See `Frames.answer_of`."""
        return frame

    # --- calls -------------------------------------------------------------------------------------------------------

    def _request_with(self, opaque: int) -> FuzzFrame:
        rng = self._rng
        stream_id = 2 * (opaque % 2**30) - 1  # a client's streams have odd ids; the first opaque is 1
        name, rpc = rng.choice(self._rpcs)
        message = self._message(MESSAGES[rpc.request], 0)
        data = message.SerializeToString()
        path, chance = _SERVICE + name, rng.random()
        if chance < 0.03:
            path = rng.choice(_PATHS)
        elif chance < 0.1:
            data = rng.choice((rng.randbytes(rng.randrange(40)), data[: len(data) // 2], data * 2))
        text = f"call {stream_id} {path} {' '.join(str(message).split())[:300]}"
        head = self._headers(stream_id, path)
        body = self._length_prefixed(data)
        if len(body) > _WINDOW_BYTES:
            body = self._length_prefixed(b"")  # more would break the flow control, and so end the connection
        if rng.random() < 0.04:
            reset = encode_http2_frame(_RST_STREAM, rng.choice(_NUMBERS).to_bytes(4, signed=True), stream_id)
            return FuzzFrame(head + _data_frames(stream_id, body, end=False) + reset, None, text)
        return FuzzFrame(head + _data_frames(stream_id, body, end=True), stream_id, text)

    def _headers(self, stream_id: int, path: str) -> bytes:
        rng = self._rng
        headers = {
            **{":method": "POST", ":scheme": "http", ":path": path or "/", ":authority": "fuzz"},
            **{"content-type": "application/grpc", "te": "trailers", "x-mq-client-id": "fuzz-member"},
            "grpc-timeout": rng.choice(("220m", "205m", "", "x", "9" * 20, "1n", "-1S")),
            "authorization": rng.choice(("", _SIGNED)),
        }
        if rng.random() < 0.05:
            headers["x-mq-client-id"] = rng.choice(("", "ü", "a b", "x" * 3_000))
        huffman = rng.random() < 0.5
        packed = b"".join(_packed_header(name, value, huffman=huffman) for name, value in headers.items())
        return encode_http2_frame(_HEADERS, packed, stream_id, _END_HEADERS)

    def _length_prefixed(self, data: bytes) -> bytes:
        """The length-prefixed message; in 6 of 100 calls a malformed one."""
        rng, whole = self._rng, b"\0" + len(data).to_bytes(4) + data
        chance = rng.random()
        if chance > 0.06:
            return whole
        wrong_length = b"\0\xff\xff\xff\xff" + data
        return rng.choice((b"", whole * 2, whole[:-1], b"\x01" + whole[1:], wrong_length, whole + b"\0"))

    def _message(self, kind: Any, depth: int) -> Any:
        """A random message of this type; about one field in five is left out."""
        rng, message = self._rng, kind()
        for field in kind.DESCRIPTOR.fields:
            if field.name != _POLL_TIMEOUT_FIELD and (rng.random() < 0.2 or depth > _MAX_DEPTH):
                continue
            values = [self._value(field, depth) for _ in range(rng.randrange(_MAX_ITEMS) if field.is_repeated else 1)]
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                getattr(message, field.name).update({rng.choice(_TEXTS): rng.choice(_TEXTS) for _ in values})
            elif field.is_repeated:
                getattr(message, field.name).extend(values)
            elif field.message_type is not None:
                getattr(message, field.name).CopyFrom(values[0])
            else:
                setattr(message, field.name, values[0])
        return message

    def _value(self, field: Any, depth: int) -> Any:
        rng = self._rng
        if field.name == _POLL_TIMEOUT_FIELD:
            return MESSAGES["Duration"](nanos=rng.randrange(_MAX_POLL_MS) * 1_000_000)
        if field.name in ("topic", "group", "name") and rng.random() < 0.8 and field.message_type is not None:
            return MESSAGES["Resource"](name="orders" if field.name == "topic" else "fuzz")
        if field.message_type is not None:
            is_pair = field.message_type.GetOptions().map_entry
            return None if is_pair else self._message(MESSAGES[field.message_type.name], depth + 1)
        if field.type == field.TYPE_STRING:
            return rng.choice(_TEXTS)
        if field.type == field.TYPE_BYTES:
            return rng.choice(_BODIES)
        if field.type == field.TYPE_BOOL:
            return rng.random() < 0.5
        return rng.choice((*_NUMBERS, *_LONG) if field.type == field.TYPE_INT64 else _NUMBERS)

    # --- broken frames -----------------------------------------------------------------------------------------------

    def _broken(self) -> FuzzFrame:
        makers = (self._garbage, self._odd_frame, self._flood, self._resets, self._long_headers, self._unfinished)
        make: Callable[[], bytes] = self._rng.choice(makers)
        return FuzzFrame(make(), None, make.__name__.strip("_"))

    def _odd_frame(self) -> bytes:
        rng = self._rng
        payload = rng.randbytes(rng.choice((0, 1, 4, 5, 6, 8, 40)))
        return encode_http2_frame(rng.randrange(12), payload, rng.choice((0, 1, 2, 3, 2**31 - 1)), rng.randrange(256))

    def _flood(self) -> bytes:
        frame_type, payload = self._rng.choice(
            # 77 is an unknown frame type
            ((_PING, bytes(8)), (_SETTINGS, b""), (_PRIORITY, bytes(5)), (_WINDOW_UPDATE, b"\0\0\0\1"), (77, b""))
        )
        # PRIORITY on stream 0 would be an error at once. All frames together are more than `MAX_HTTP2_SPARE_FRAMES`.
        return encode_http2_frame(frame_type, payload, 1 if frame_type == _PRIORITY else 0) * 5_000

    def _resets(self) -> bytes:
        first = 2**31 - 1_001  # 500 of the last stream ids, above those of all calls: more than `MAX_HTTP2_RESETS`
        return b"".join(
            self._headers(stream_id, _SERVICE + "SendMessage") + encode_http2_frame(_RST_STREAM, bytes(4), stream_id)
            for stream_id in range(first, first + 1_000, 2)
        )

    def _long_headers(self) -> bytes:
        stream_id = 2**31 - 1
        # In all more than `MAX_HTTP2_HEADER_BYTES`, and never ended.
        return (
            encode_http2_frame(_HEADERS, bytes(10), stream_id)
            + encode_http2_frame(_CONTINUATION, bytes(9_000), stream_id) * 4
        )

    def _unfinished(self) -> bytes:
        stream_id = 2**31 - 1
        return self._headers(stream_id, _SERVICE + "SendMessage") + encode_http2_frame(
            _DATA, b"\0\0\0\1\0half", stream_id
        )


@lru_cache(maxsize=1_024)
def _packed_header(name: str, value: str, *, huffman: bool) -> bytes:
    """One header, which refers to no other one: the same few headers are sent again and again."""
    return HeaderEncoder().encode([Header(name, value)], huffman=huffman)


def _data_frames(stream_id: int, body: bytes, *, end: bool) -> bytes:
    """The body as DATA frames."""
    size = 16_384
    pieces = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    frames = [encode_http2_frame(_DATA, piece, stream_id) for piece in pieces[:-1]]
    return b"".join((*frames, encode_http2_frame(_DATA, pieces[-1], stream_id, _END_STREAM if end else 0)))
