"""Encodes and decodes frames: bytes in, commands out. Pure.

A frame is a 4-byte big-endian length and one msgpack array `[version, flags, code, opaque, header, body]`:

    00 00 00 0e                                 length 14
    96                                          array of 6
       01  00  22  07                           version 1, request, code 34 HEART_BEAT, opaque 7
       81 a5 63 61 75 73 65 a0                  header {"cause": ""}
       c0                                       body nil

Invariant: any bytes, whole or cut anywhere, either parse or give exactly one `ProtocolError`, after which the decoder
    accepts no more bytes. A declared length is checked before a byte of the frame is buffered, so a peer cannot make us
    allocate memory for bytes that it only announces.

The encoder and decoder are behind `Codec`: a server may speak other dialects on the same port, which `FirstBytes` finds
out by the first bytes of a connection; then it is replaced, so that later messages cost nothing more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgpack

from model.errors import ProtocolError
from model.limits import MAX_FRAME_BYTES, MAX_HEADER_FIELDS, MAX_HEADER_ITEMS
from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command, short_text

VERSION = 1
LENGTH_BYTES = 4
_VERSIONS = (VERSION,)
_FLAGS = (REQUEST, RESPONSE, ONE_WAY)
_new_tuple = tuple.__new__
_LARGE_FRAME_BYTES = 64 * 1024
_FIELDS = 6
_BIN_32 = b"\xc6"
_MAX_HEAD_BYTES = 4 * 1024
"""Bytes in which the head of a large frame is looked for; one with a longer head is decoded in one piece."""
_length_at = struct.Struct(">I").unpack_from
_pack = msgpack.Packer(autoreset=True).pack


class FrameTooLong(ValueError):
    """The command does not fit a frame; nothing was sent."""

    def __init__(self, length: int) -> None:
        super().__init__(f"a frame of {length} bytes is longer than the {MAX_FRAME_BYTES} allowed")


class Decoder(Protocol):
    """Turns a byte stream into commands. One per connection."""

    @property
    def error(self) -> ProtocolError | None:
        """The error that broke the stream, or None."""
        ...

    @property
    def partial_frame_bytes(self) -> int:
        """Length that the frame at the end of the stream has announced; 0 if the stream ends between two frames."""
        ...

    def feed(self, data: bytes) -> list[Command]:
        """Decode the next bytes of the stream.

        Returns the commands that are complete now. Check `error` afterwards: when it is set, the stream broke after the
        last of them and the connection has to be closed.
        """
        ...

    def at_frame_boundary(self) -> bool:
        """Whether the stream may end here; a peer that closes inside a frame is broken."""
        ...


class Codec(Protocol):
    """One way to put commands on the wire."""

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """Return one whole frame.

        Raises:
            FrameTooLong: only if the caller did not check the body before.
        """
        ...

    def decoder(self) -> Decoder:
        """Return a decoder for one new connection."""
        ...


class Peer(Protocol):
    """A connection, as its codec uses it."""

    peer: str
    number: int
    local_host: str
    local_port: int

    def send_frame(self, frame: bytes) -> None:
        """Send an encoded frame."""

    def handle_soon(self, command: Command) -> None:
        """Handle a command of the codec itself, in the next iteration."""

    def use(self, codec: Codec) -> Decoder:
        """Encode and decode with this codec from now on; returns its decoder."""
        ...


class Dialect(Protocol):
    """Another protocol for the same commands, which a server accepts beside its own."""

    def matches(self, first: bytes) -> bool | None:
        """Whether a stream with these first bytes has this dialect; None while more bytes are needed."""
        ...

    def codec(self, peer: Peer) -> Codec:
        """Return the codec of one connection."""
        ...

    def with_check(self, check: Callable[[Any, str, str, tuple[bytes, ...]], None]) -> Dialect:
        """Return the dialect for a server with access control: `check` refuses a request that is not signed.

        It is called with the connection, the name of the user, the signature, and the texts that may have been signed.
        """
        ...


class FirstBytes:
    """The decoder of a connection whose dialect is not known yet."""

    __slots__ = ("_dialects", "_first_bytes", "_own", "_peer", "error", "partial_frame_bytes")

    def __init__(self, dialects: Sequence[Dialect], own_codec: Codec, peer: Peer) -> None:
        self.error: ProtocolError | None = None
        self.partial_frame_bytes = 0
        self._dialects = dialects
        self._own = own_codec
        self._peer = peer
        self._first_bytes = b""

    def feed(self, data: bytes) -> list[Command]:
        """Choose the codec of the connection as soon as the bytes decide it, and let it decode them."""
        self._first_bytes += data
        codec = self._own
        for dialect in self._dialects:
            if (is_match := dialect.matches(self._first_bytes)) is None:
                self.partial_frame_bytes = LENGTH_BYTES
                return []
            codec = dialect.codec(self._peer) if is_match else codec
        return self._peer.use(codec).feed(self._first_bytes)

    def at_frame_boundary(self) -> bool:
        """See `Decoder.at_frame_boundary`."""
        return not self._first_bytes


class FrameUnpacker:
    """One msgpack unpacker for many frames, which takes half the time of a new one for each.

    The decoders of a codec share it, because it takes 40 KiB and is empty between two frames. It is replaced after a
    frame that failed. Large frames bypass it, because it never frees the memory of the largest frame.
    """

    __slots__ = ("_consumed", "_unpacker")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start with an empty unpacker, after a frame that left bytes behind."""
        self._consumed = 0
        self._unpacker = msgpack.Unpacker(
            read_size=1024,
            max_buffer_size=_LARGE_FRAME_BYTES,
            max_array_len=MAX_HEADER_ITEMS,
            max_map_len=MAX_HEADER_ITEMS,
            strict_map_key=True,
        )

    def unpack(self, frame: memoryview, length: int) -> Any:
        """Unpack one frame of at most 64 KiB.

        Raises:
            ValueError, TypeError, OverflowError, msgpack.UnpackException: the frame is not one msgpack value; call
                `reset` next.
        """
        self._unpacker.feed(frame)
        fields = self._unpacker.unpack()
        self._consumed += length
        if self._unpacker.tell() != self._consumed:
            raise ValueError("there are bytes after the array")
        return fields


class LargeFrame:
    """The pieces of a frame of more than 64 KiB, whose body is copied once, when all of it has arrived."""

    __slots__ = ("_length", "_missing", "_pieces")

    def __init__(self, length: int, first: bytes) -> None:
        self._length = length
        self._missing = length - len(first)
        self._pieces = [first]

    def take(self, data: bytes) -> bytes | None:
        """Take the next bytes of the stream; returns those that follow the frame, or None if it is not whole yet."""
        missing = self._missing
        if len(data) < missing:
            self._pieces.append(data)
            self._missing -= len(data)
            return None
        self._pieces.append(data[:missing])
        return data[missing:]

    def decode(self) -> Command:
        """Decode the frame, which is whole. Raises as `decode_frame` does."""
        first, *others = self._pieces
        unpacker = msgpack.Unpacker(max_array_len=MAX_HEADER_ITEMS, max_map_len=MAX_HEADER_ITEMS, strict_map_key=True)
        unpacker.feed(memoryview(first)[:_MAX_HEAD_BYTES])
        try:
            if unpacker.read_array_header() == _FIELDS:
                head = [unpacker.unpack() for _ in range(_FIELDS - 1)]
                start = unpacker.tell() + 1 + LENGTH_BYTES
                if first[start - 1 - LENGTH_BYTES : start] == _BIN_32 + (self._length - start).to_bytes(LENGTH_BYTES):
                    return _command_of((*head, b"".join((memoryview(first)[start:], *others))))
        except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
            pass  # the head is longer than the first piece, or there is an error in the frame, which is found below
        return decode_frame(b"".join(self._pieces))


class MsgpackDecoder:
    """See the module header for the format."""

    __slots__ = ("_buffer", "_large", "_large_bytes", "_max_frame_bytes", "_unpacker", "error", "partial_frame_bytes")

    def __init__(
        self,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        unpacker: FrameUnpacker | None = None,
        large_bytes: int = _LARGE_FRAME_BYTES,
    ) -> None:
        self.error: ProtocolError | None = None
        self.partial_frame_bytes = 0
        self._buffer = b""
        self._large: LargeFrame | None = None
        self._max_frame_bytes = max_frame_bytes
        self._large_bytes = large_bytes
        self._unpacker = unpacker or FrameUnpacker()

    def feed(self, data: bytes) -> list[Command]:
        """See `Decoder.feed`."""
        if self.error is not None:
            return []
        commands: list[Command] = []
        large = self._large
        if large is not None:
            remaining = large.take(data)
            if remaining is None:
                return commands
            data, self._large = remaining, None
        stream = self._buffer + data if self._buffer else data  # of at most 64 KiB
        position = 0
        try:
            if large is not None:
                commands.append(large.decode())
            position = self._decode(stream, commands)
        except ProtocolError as error:
            self.error = error
        except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
            self.error = _not_a_frame(error)
            self._unpacker.reset()
        self._buffer = stream[position:] if position else stream
        return commands

    def _decode(self, stream: bytes, commands: list[Command]) -> int:
        """Decode every whole frame of the stream; return the position of the first one that is not whole."""
        position, end = 0, len(stream)
        view, unpack = memoryview(stream), self._unpacker.unpack
        partial_frame_bytes = LENGTH_BYTES
        while end - position >= LENGTH_BYTES:
            (length,) = _length_at(stream, position)
            if length > self._max_frame_bytes:
                raise ProtocolError(
                    f"a frame of {length} bytes was announced, more than the {self._max_frame_bytes} allowed"
                    + (": these are not frames of this protocol" if length > 2**28 else "")
                )
            start = position + LENGTH_BYTES
            if end - start < length:
                partial_frame_bytes = length
                if length > self._large_bytes:
                    self._large = LargeFrame(length, stream[start:])
                    self.partial_frame_bytes = length
                    return end
                break
            position = start + length
            if length > _LARGE_FRAME_BYTES:
                commands.append(decode_frame(view[start:position]))
                continue
            commands.append(_command_of(unpack(view[start:position], length)))
        self.partial_frame_bytes = partial_frame_bytes if position < end else 0
        return position

    def at_frame_boundary(self) -> bool:
        """See `Decoder.at_frame_boundary`."""
        return not self._buffer and self._large is None


def decode_frame(frame: memoryview | bytes) -> Command:
    """Decode one frame without its length.

    Raises:
        ProtocolError: the bytes are not a frame of this version.
    """
    try:
        return _command_of(
            msgpack.unpackb(frame, max_array_len=MAX_HEADER_ITEMS, max_map_len=MAX_HEADER_ITEMS, strict_map_key=True)
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise _not_a_frame(error) from error


def _command_of(fields: Any) -> Command:
    version, flags, code, opaque, header, body = fields
    # One expression for the good case, which is every frame of a well-behaved peer; `_explain` finds the error in other
    # frames. The look-ups accept True and 1.0 as 1, which is harmless.
    if (
        version in _VERSIONS
        and flags in _FLAGS
        and type(code) is int
        and type(opaque) is int
        and opaque >= 0
        and type(header) is dict
        and len(header) <= MAX_HEADER_FIELDS
        and (body is None or type(body) is bytes)
    ):
        # The constructor of a named tuple is Python code and costs more than all these checks.
        return _new_tuple(Command, (flags, code, opaque, header, body))
    raise _explain(version, flags, code, opaque, header)


def _not_a_frame(error: Exception) -> ProtocolError:
    return ProtocolError(
        "a frame must be the msgpack array [version, flags, code, opaque, header, body] "
        f"({type(error).__name__}: {error})"
    )


def _explain(version: object, flags: object, code: object, opaque: object, header: object) -> ProtocolError:
    if version not in _VERSIONS:
        return ProtocolError(f"frame version {short_text(version)} is not supported: this side has version {VERSION}")
    if flags not in _FLAGS:
        return ProtocolError(f"unknown frame flags {short_text(flags)}: known are 0 request, 1 response, 2 one-way")
    if type(code) is not int or type(opaque) is not int or opaque < 0:
        return ProtocolError(f"code and opaque must be whole numbers, got {short_text(code)} and {short_text(opaque)}")
    if type(header) is dict and len(header) > MAX_HEADER_FIELDS:
        return ProtocolError(f"a header of {len(header)} fields, more than the {MAX_HEADER_FIELDS} allowed")
    return ProtocolError("a frame's header must be a map and its body bytes or nil")


class MsgpackCodec:
    """The framing of this project. One codec serves the connections of one thread."""

    __slots__ = ("_max_frame_bytes", "_unpacker")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes  # of a decoded frame
        self._unpacker = FrameUnpacker()

    def encode(self, flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
        """See `Codec.encode`."""
        frame: bytes = _pack((VERSION, flags, code, opaque, header, body))
        length = len(frame)
        if length > MAX_FRAME_BYTES:
            raise FrameTooLong(length)
        return length.to_bytes(LENGTH_BYTES, "big") + frame

    def decoder(self) -> MsgpackDecoder:
        """See `Codec.decoder`."""
        return MsgpackDecoder(self._max_frame_bytes, self._unpacker)


def encode_head(flags: int, code: int, opaque: int, header: Mapping[str, Any], body_bytes: int) -> bytes:
    """Return a frame up to its body, which the caller sends next: so a large body is not copied.

    Raises:
        FrameTooLong: the body does not fit.
    """
    fields = b"".join(map(_pack, (VERSION, flags, code, opaque, header)))
    head = b"\x96" + fields + _BIN_32 + body_bytes.to_bytes(4, "big")  # an array of 6, the last of which is bin 32
    length = len(head) + body_bytes
    if length > MAX_FRAME_BYTES:
        raise FrameTooLong(length)
    return length.to_bytes(LENGTH_BYTES, "big") + head


CODEC: Codec = MsgpackCodec()
