"""Frames of RocketMQ's remoting protocol: bytes in, frames out, with JSON or binary headers. Pure.

RocketMQ: RemotingCommand, RocketMQSerializable. A frame, all numbers big-endian:

    00 00 00 7f      length of the rest
    00               form of the header: 0 JSON, 1 binary
    00 00 7b         length of the header
    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"version":463}
    ...              the body, up to the end

Clients write JSON headers in different ways: Java writes every value of `extFields` as text, C++ and Node.js write
numbers and booleans, some write nulls. `Frame.fields` has only texts. An answer has the form of its request, with text
values only, because the Go client refuses a frame with other values.

Invariant: any bytes, whole or cut anywhere, either parse or give exactly one `ProtocolError`; every length is checked
    before the announced bytes are buffered.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from model.errors import ProtocolError
from model.limits import MAX_FRAME_BYTES, MAX_ROCKETMQ_FIELDS, MAX_ROCKETMQ_HEADER_BYTES
from remoting.codec import FrameTooLong
from remoting.command import short_text

RESPONSE_BIT = 1
ONE_WAY_BIT = 2
OUR_VERSION = 401
"""RocketMQ 4.9.4: from this version on, clients may expect routes in standard JSON."""

LANGUAGES = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST"),
    "NODE_JS",
)
_START = struct.Struct(">II")
_FIXED = struct.Struct(">hbhiii")
_MARK_BYTES = 5
_MAX_FIRST_BYTE = 0x10
_INT32 = 2**31


class Frame(NamedTuple):
    """One frame; `fields` are the header fields of its command (RocketMQ: extFields)."""

    code: int
    flag: int
    opaque: int
    fields: dict[str, str]
    body: bytes | None = None
    remark: str | None = None
    language: str = "JAVA"
    version: int = OUR_VERSION
    binary: bool = False  # the form of the header


def is_first_of_rocketmq(first: bytes) -> bool | None:
    """Whether a stream with these first bytes is RocketMQ's; None while more bytes are needed.

    The fifth byte decides: it is 0 or 1 in RocketMQ's frames, and the start of a msgpack array in our own. The first
    four bytes are the length, which is at least the length of the header field: a stream of zero bytes is garbage in
    both.
    """
    if len(first) < _MARK_BYTES:
        return None
    return first[0] < _MAX_FIRST_BYTE and first[4] in (0, 1) and int.from_bytes(first[:4]) >= 4


class FrameDecoder:
    """Splits a stream into frames. One per connection."""

    __slots__ = ("_buffer", "error", "partial_frame_bytes")

    def __init__(self) -> None:
        self.error: ProtocolError | None = None
        self.partial_frame_bytes = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Decode the next bytes of the stream; see `remoting.codec.Decoder`."""
        if self.error is not None:
            return []
        self._buffer += data
        frames: list[Frame] = []
        try:
            position = self._decode(frames)
        except ProtocolError as error:
            self.error = error
            self._buffer.clear()
            return frames
        del self._buffer[:position]
        return frames

    def _decode(self, frames: list[Frame]) -> int:
        buffer, position, end = self._buffer, 0, len(self._buffer)
        self.partial_frame_bytes = 0
        while position < end:
            self.partial_frame_bytes = 4
            if end - position < _START.size:
                return position
            length, mark = _START.unpack_from(buffer, position)
            header_length = mark & 0xFFFFFF
            _check_lengths(length, mark >> 24, header_length)
            start = position + _START.size
            if end - position - 4 < length:
                self.partial_frame_bytes = length
                return position
            position += 4 + length
            body = bytes(buffer[start + header_length : position]) or None
            frames.append(decode_header(bytes(buffer[start : start + header_length]), body, binary=mark >> 24 == 1))
            self.partial_frame_bytes = 0
        return position

    def at_frame_boundary(self) -> bool:
        """Whether the stream may end here."""
        return not self._buffer


def _check_lengths(length: int, form: int, header_length: int) -> None:
    if length + 4 > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {length} bytes was announced, more than the {MAX_FRAME_BYTES} allowed")
    if form not in (0, 1):
        raise ProtocolError(f"headers of the form {form} are not known: 0 is JSON, 1 is binary")
    if header_length > length - 4:
        raise ProtocolError(f"a header of {header_length} bytes was announced in a frame of {length}")
    if header_length > MAX_ROCKETMQ_HEADER_BYTES:
        raise ProtocolError(
            f"a header of {header_length} bytes was announced, more than the {MAX_ROCKETMQ_HEADER_BYTES} allowed"
        )


def decode_header(header: bytes, body: bytes | None, *, binary: bool) -> Frame:
    """Decode one header.

    Raises:
        ProtocolError: it is malformed.
    """
    try:
        frame = _decode_binary(header, body) if binary else _decode_json(header, body)
    except (ValueError, TypeError, LookupError, struct.error, RecursionError) as error:
        raise ProtocolError(f"the header is malformed ({type(error).__name__}: {str(error)[:200]})") from error
    if len(frame.fields) > MAX_ROCKETMQ_FIELDS:
        raise ProtocolError(f"a header of {len(frame.fields)} fields, more than the {MAX_ROCKETMQ_FIELDS} allowed")
    return frame


def _decode_json(header: bytes, body: bytes | None) -> Frame:
    fields = read_json(header)
    if type(fields) is not dict:
        raise ValueError(f"a header must be an object, got {short_text(fields)}")
    extra: Any = fields.get("extFields")
    if extra is None:
        extra = {}
    if type(extra) is not dict:
        raise ValueError(f"extFields must be an object, got {short_text(extra)}")
    remark, language = fields.get("remark"), fields.get("language")
    return Frame(
        code=_int32(fields["code"]),
        flag=_int32(fields.get("flag") or 0),
        opaque=_int32(fields.get("opaque") or 0),
        fields={name: _text(value) for name, value in extra.items() if value is not None},
        body=body,
        remark=None if remark is None else _text(remark),
        language=LANGUAGES[0] if language is None else _text(language),
        version=_int32(fields.get("version") or 0),
    )


def read_json(text: bytes) -> Any:
    """Read JSON, and refuse half a surrogate pair in any text, because no answer could repeat it in UTF-8.

    Raises:
        ValueError: the text is not JSON, or has such a half.
        RecursionError: it is nested too deep.
    """
    decoded = text.decode()
    value: Any = json.loads(decoded)
    if "\\u" in decoded:
        _json(value).encode()
    return value


def _text(value: object) -> str:
    """The text of a header field; C++ and Node.js write numbers and booleans as such."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) in (int, float):
        return str(value)
    raise ValueError(f"a header field must be a text, a number or a boolean, got {short_text(value)}")


def _int32(value: object) -> int:
    """A number of 32 bits, which may be written as text."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise ValueError(f"a whole number is expected, got {short_text(value)}")
    number = int(value)
    if not -_INT32 <= number < _INT32:
        raise ValueError(f"a number of 32 bits is expected, got {short_text(value)}")
    return number


def _decode_binary(header: bytes, body: bytes | None) -> Frame:
    code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
    position = _FIXED.size
    remark, position = _take(header, position, remark_length)
    (length,) = struct.unpack_from(">i", header, position)
    extra, position = _take(header, position + 4, length)
    if position != len(header):
        raise ValueError(f"{len(header) - position} bytes are left behind the fields")
    fields: dict[str, str] = {}
    position = 0
    while position < len(extra):
        (length,) = struct.unpack_from(">h", extra, position)
        name, position = _take(extra, position + 2, length)
        (length,) = struct.unpack_from(">i", extra, position)
        value, position = _take(extra, position + 4, length)
        if value:  # Java writes no nulls, and reads an empty value as null
            fields[name.decode()] = value.decode()
    language_name = LANGUAGES[language] if 0 <= language < len(LANGUAGES) else "OTHER"
    return Frame(code, flag, opaque, fields, body, remark.decode() or None, language_name, version, binary=True)


def _take(data: bytes, position: int, length: int) -> tuple[bytes, int]:
    if not 0 <= length <= len(data) - position:
        raise ValueError(f"a length of {length} is announced where {len(data) - position} bytes are left")
    return data[position : position + length], position + length


def encode_frame(frame: Frame) -> bytes:
    """Encode one frame.

    Raises:
        FrameTooLong: it would be longer than the limit.
    """
    header = _encode_binary(frame) if frame.binary else _encode_json(frame)
    body = frame.body or b""
    length = 4 + len(header) + len(body)
    if length + 4 > MAX_FRAME_BYTES:
        raise FrameTooLong(length)
    return _START.pack(length, frame.binary << 24 | len(header)) + header + body


def _encode_json(frame: Frame) -> bytes:
    # extFields are always present: Java reads them without a check.
    header: dict[str, object] = {"code": frame.code, "extFields": frame.fields}
    header |= {"flag": frame.flag, "language": frame.language, "opaque": frame.opaque}
    if frame.remark is not None:
        header["remark"] = frame.remark
    header |= {"serializeTypeCurrentRPC": "JSON", "version": frame.version}
    return _json(header).encode()


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def _encode_binary(frame: Frame) -> bytes:
    remark = (frame.remark or "").encode()
    extra = _encode_fields(frame.fields)
    language = LANGUAGES.index(frame.language) if frame.language in LANGUAGES else LANGUAGES.index("OTHER")
    code = (frame.code + 0x8000) % 0x1_0000 - 0x8000  # Java truncates it to 16 bits, too
    fixed = _FIXED.pack(code, language, frame.version, frame.opaque, frame.flag, len(remark))
    return b"".join((fixed, remark, struct.pack(">i", len(extra)), extra))


def _encode_fields(fields: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for name, value in fields.items():
        key, text = name.encode(), value.encode()
        if text:
            parts += (struct.pack(">h", len(key)), key, struct.pack(">i", len(text)), text)
    return b"".join(parts)


class FrameReader:
    """The part of a decoder that both edges share: the error and the incomplete frame."""

    def __init__(self) -> None:
        self._frames = FrameDecoder()

    @property
    def error(self) -> ProtocolError | None:
        """See `remoting.codec.Decoder`."""
        return self._frames.error

    @property
    def partial_frame_bytes(self) -> int:
        """See `remoting.codec.Decoder`."""
        return self._frames.partial_frame_bytes

    def at_frame_boundary(self) -> bool:
        """See `remoting.codec.Decoder`."""
        return self._frames.at_frame_boundary()
