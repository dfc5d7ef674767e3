"""Any frame of RocketMQ's comes back as it was, in both forms; any bytes parse or give exactly one protocol error."""

from __future__ import annotations

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from model.errors import ProtocolError
from rocketmq.frame import LANGUAGES, Frame, FrameDecoder, encode_frame
from rocketmq.message import parse_properties, properties_text

INT16, INT32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
FRAMES = st.builds(
    Frame,
    INT16,
    INT32,
    INT32,
    st.dictionaries(TEXT, TEXT, max_size=4),
    st.none() | st.binary(min_size=1, max_size=40),
    st.none() | TEXT,
    st.sampled_from(LANGUAGES),
    INT16,
    st.booleans(),
)
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=6)
NEAR = st.builds(
    lambda length, form, header, rest: struct.pack(">II", length, form << 24 | header) + rest,
    st.integers(0, 60),
    st.integers(0, 2),
    st.integers(0, 60),
    st.binary(max_size=50) | st.sampled_from([b'{"code":1}', b'{"code":[]}', b'{"code":1,"extFields":{"a":[[[1]]]}}']),
)
STREAMS = st.lists(FRAMES.map(encode_frame) | NEAR | st.binary(max_size=9), max_size=4).map(b"".join)


def outcome(parts: list[bytes]) -> tuple[list[Frame], str | None]:
    decoder, frames = FrameDecoder(), []
    for part in parts:
        frames += decoder.feed(part)
    assert decoder.error is None or type(decoder.error) is ProtocolError
    return frames, None if decoder.error is None else str(decoder.error)


@given(st.lists(FRAMES, max_size=3))
def test_frames_come_back_as_they_were_sent(frames: list[Frame]) -> None:
    assert outcome([b"".join(map(encode_frame, frames))]) == (frames, None)


@given(STREAMS, st.sets(st.integers(0, 200)))
def test_a_stream_means_the_same_wherever_it_is_cut(stream: bytes, cuts: set[int]) -> None:
    ends = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    assert outcome([stream[start:stop] for start, stop in pairwise(ends)]) == outcome([stream])


@given(st.dictionaries(WORDS, WORDS, max_size=6), st.booleans())
def test_properties_come_back_with_or_without_the_last_separator(properties: dict[str, str], is_cut: bool) -> None:
    text = properties_text(properties)
    assert parse_properties(text[:-1] if is_cut else text) == properties
