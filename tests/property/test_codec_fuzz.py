"""Any bytes, whole or byte by byte or cut anywhere, parse or give exactly one protocol error, and always the same.

The twin reads a stream the obvious way, all of it at once; the decoder must not be told apart from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgpack
from hypothesis import example, given
from hypothesis import strategies as st

from model.errors import ProtocolError
from remoting.codec import CODEC, MsgpackDecoder, decode_frame, encode_head
from remoting.command import Command

MAX_FRAME_BYTES = 200
"""Small, so that random lengths fall on both sides of it."""

NUMBERS = st.integers(-(2**63), 2**64 - 1)
SCALARS = st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(max_size=8) | st.binary(max_size=8)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
HEADERS = st.dictionaries(st.text(max_size=8), VALUES, max_size=4)
COMMANDS = st.builds(
    Command, st.integers(0, 2), NUMBERS, st.integers(0, 2**31 - 1), HEADERS, st.none() | st.binary(max_size=60)
)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def in_parts(flags: int, code: int, opaque: int, header: Mapping[str, Any], body: bytes | None) -> bytes:
    """A frame whose body is sent apart, as those of the stream to replicas are."""
    return encode_head(flags, code, opaque, header, len(body or b"")) + (body or b"")


# Frames that are right but for one of the six fields, or for their number.
NEAR_FRAMES = st.builds(
    lambda fields: framed(msgpack.packb(fields)),
    st.tuples(
        st.just(1) | SCALARS,
        st.integers(0, 3) | VALUES,
        NUMBERS | VALUES,
        NUMBERS | VALUES,
        HEADERS | VALUES | st.dictionaries(SCALARS.filter(lambda key: key is not None), SCALARS, max_size=2),
        VALUES,
    )
    | st.lists(VALUES, max_size=7),
)
FRAMES = COMMANDS.map(lambda command: CODEC.encode(*command)) | COMMANDS.map(lambda command: in_parts(*command))
STREAMS = st.lists(FRAMES | NEAR_FRAMES | st.binary(max_size=30).map(framed) | st.binary(max_size=6), max_size=5).map(
    b"".join
)

Outcome = tuple[list[Command], str | None]


def twin(stream: bytes) -> Outcome:
    """What a stream means, read without any regard to how it arrives."""
    commands: list[Command] = []
    while len(stream) >= 4:
        length = int.from_bytes(stream[:4], "big")
        if length > MAX_FRAME_BYTES:
            return commands, "length"
        if len(stream) < 4 + length:
            break
        try:
            commands.append(decode_frame(stream[4 : 4 + length]))
        except ProtocolError:
            return commands, "frame"
        stream = stream[4 + length :]
    return commands, None if not stream else "partial"


def fed(pieces: list[bytes], large_bytes: int = MAX_FRAME_BYTES) -> Outcome:
    """What the decoder makes of the pieces; checks on the way that an error is final."""
    decoder = MsgpackDecoder(MAX_FRAME_BYTES, large_bytes=large_bytes)
    commands: list[Command] = []
    for piece in pieces:
        failed = decoder.error
        got = decoder.feed(piece)
        assert failed is None or (got == [] and decoder.error is failed)
        commands += got
    if decoder.error is not None:
        return commands, "length" if "announced" in str(decoder.error) else "frame"
    return commands, None if decoder.at_frame_boundary() else "partial"


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """The stream in pieces, some of them empty."""
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


@given(st.binary(max_size=300) | STREAMS, st.lists(st.integers(0, 10_000), max_size=6))
@example(b"", [])
@example(b"\x00\x00\x00\x00", [2])
@example(b"\xff\xff\xff\xff", [1, 2, 3])
@example(CODEC.encode(0, 34, 7, {}, None) + b"\xff", [1])
def test_any_bytes_give_the_same_commands_and_at_most_one_error_however_they_are_cut(
    stream: bytes, places: list[int]
) -> None:
    expected = twin(stream)
    assert fed([stream]) == expected
    assert fed([stream[i : i + 1] for i in range(len(stream))]) == expected
    assert fed(cut(stream, places)) == expected


@given(st.binary(max_size=300) | STREAMS, st.lists(st.integers(0, 10_000), max_size=6))
def test_large_frames_whose_body_is_copied_once_give_the_same(stream: bytes, places: list[int]) -> None:
    expected = twin(stream)
    assert fed([stream[i : i + 1] for i in range(len(stream))], large_bytes=12) == expected
    assert fed(cut(stream, places), large_bytes=12) == expected


@given(st.lists(COMMANDS, max_size=5), st.lists(st.integers(0, 10_000), max_size=6))
def test_what_is_encoded_is_decoded(commands: list[Command], places: list[int]) -> None:
    stream = b"".join(CODEC.encode(*command) for command in commands)
    decoder = CODEC.decoder()
    decoded = [command for piece in cut(stream, places) for command in decoder.feed(piece)]
    assert decoded == commands
    assert decoder.error is None
    assert decoder.at_frame_boundary()


@given(COMMANDS, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_damaged_frame_parses_or_gives_one_protocol_error_and_nothing_else(
    command: Command, damage: list[tuple[int, int]]
) -> None:
    frame = bytearray(CODEC.encode(*command))
    for place, byte in damage:
        frame[place % len(frame)] = byte
    assert fed([bytes(frame)]) == twin(bytes(frame))
