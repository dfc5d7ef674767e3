"""The frame format, byte by byte, and each way to break it; `tests/property/test_codec_fuzz.py` tries any bytes."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from model.errors import ProtocolError
from model.limits import MAX_FRAME_BYTES, MAX_HEADER_FIELDS, MAX_HEADER_ITEMS
from remoting.codec import CODEC, LENGTH_BYTES, MsgpackDecoder, decode_frame, encode_head
from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command

HEART_BEAT = bytes.fromhex("0000000e 96 01 00 22 07 81 a5 6361757365 a0 c0")
"""The example of the module header."""
NO_FRAME = "must be the msgpack array"


def frame_of(*fields: object) -> bytes:
    return msgpack.packb(fields)


def error_of(stream: bytes) -> str:
    decoder = CODEC.decoder()
    assert decoder.feed(stream) == []
    assert decoder.error is not None
    return str(decoder.error)


def test_a_frame_is_laid_out_as_documented() -> None:
    assert CODEC.encode(REQUEST, 34, 7, {"cause": ""}, None) == HEART_BEAT
    assert CODEC.decoder().feed(HEART_BEAT) == [Command(REQUEST, 34, 7, {"cause": ""}, None)]


@pytest.mark.parametrize("flags", [REQUEST, RESPONSE, ONE_WAY])
def test_each_kind_of_frame_comes_back_as_it_was_sent(flags: int) -> None:
    command = Command(flags, 11, 2**31 - 1, {"n": -1, "list": [1, "a"], "on": True}, b"\x00\xff")
    assert CODEC.decoder().feed(CODEC.encode(*command)) == [command]


def test_frames_are_complete_at_their_last_byte_and_not_before() -> None:
    decoder = CODEC.decoder()
    assert decoder.at_frame_boundary()
    for i in range(len(HEART_BEAT) - 1):
        assert decoder.feed(HEART_BEAT[i : i + 1]) == []
        assert not decoder.at_frame_boundary()
    assert len(decoder.feed(HEART_BEAT[-1:])) == 1
    assert decoder.at_frame_boundary()


def test_a_decoder_says_what_length_the_unfinished_frame_has_announced() -> None:
    frame, decoder = CODEC.encode(REQUEST, 10, 1, {}, bytes(100_000)), CODEC.decoder()
    lengths = []
    for part in (frame[:3], frame[3:50], frame[50:] + frame[:1], frame[1:10], frame[10:]):
        decoder.feed(part)
        lengths.append(decoder.partial_frame_bytes)
    assert lengths == [LENGTH_BYTES, len(frame) - LENGTH_BYTES, LENGTH_BYTES, len(frame) - LENGTH_BYTES, 0]


def test_a_frame_that_arrives_in_many_pieces_does_not_take_the_next_one_with_it() -> None:
    big = CODEC.encode(REQUEST, 10, 1, {}, b"x" * 100_000)
    stream = big + HEART_BEAT + big
    decoder = CODEC.decoder()
    commands = [command for i in range(0, len(stream), 999) for command in decoder.feed(stream[i : i + 999])]
    assert [command.code for command in commands] == [10, 34, 10]


def test_the_body_of_a_large_frame_that_comes_in_pieces_is_whole_and_the_next_frame_follows() -> None:
    body = bytes(range(256)) * 1_000
    frame = encode_head(ONE_WAY, 60, 0, {"n": 7}, len(body)) + body
    stream = frame + HEART_BEAT + frame
    for size in (3, 40, 60_000, 100_000, len(stream)):
        decoder = CODEC.decoder()
        got = [each for start in range(0, len(stream), size) for each in decoder.feed(stream[start : start + size])]
        large = Command(ONE_WAY, 60, 0, {"n": 7}, body)
        assert got == [large, Command(REQUEST, 34, 7, {"cause": ""}, None), large]
        assert (decoder.at_frame_boundary(), decoder.partial_frame_bytes, decoder.error) == (True, 0, None)


def test_a_large_frame_that_is_damaged_is_refused_with_the_reason() -> None:
    frame = bytearray(encode_head(ONE_WAY, 60, 0, {"n": 7}, 100_000) + bytes(100_000))
    frame[LENGTH_BYTES + 1] = 2  # the version
    decoder = CODEC.decoder()
    assert decoder.feed(bytes(frame[:70_000])) == decoder.feed(bytes(frame[70_000:])) == []
    assert "frame version 2 is not supported" in str(decoder.error)


def test_a_length_at_the_limit_is_waited_for_and_one_past_it_is_refused_before_any_more_arrives() -> None:
    decoder = CODEC.decoder()
    assert decoder.feed(MAX_FRAME_BYTES.to_bytes(4, "big")) == []
    assert decoder.error is None
    assert "16777217 bytes was announced" in error_of((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))


def test_a_length_of_another_protocol_is_said_to_be_one() -> None:
    assert "not frames of this protocol" in error_of(b"GET / HTTP/1.1\r\n")


def test_commands_before_the_broken_frame_are_handed_out_and_nothing_after_it() -> None:
    decoder = CODEC.decoder()
    assert len(decoder.feed(HEART_BEAT + b"\x00\x00\x00\x01\x90" + HEART_BEAT)) == 1
    error = decoder.error
    assert error is not None
    assert decoder.feed(HEART_BEAT) == []
    assert decoder.error is error


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", NO_FRAME),
        (b"\xc1", NO_FRAME),
        (frame_of(1, 0, 1, 1, {}), NO_FRAME),
        (frame_of(1, 0, 1, 1, {}, None, None), NO_FRAME),
        (frame_of(1, 0, 1, 1, {}, None) + b"\x00", NO_FRAME),
        (msgpack.packb(1), NO_FRAME),
        (msgpack.packb({"version": 1}), NO_FRAME),
        (msgpack.packb({str(i): i for i in range(6)}), "version '0' is not supported"),
        (msgpack.packb(b"\x01\x00\x01\x01\x01\x01"), "header must be a map"),
        (frame_of(2, 0, 1, 1, {}, None), "version 2 is not supported"),
        (frame_of("1", 0, 1, 1, {}, None), "version '1' is not supported"),
        (frame_of(1, 3, 1, 1, {}, None), "unknown frame flags 3"),
        (frame_of(1, -1, 1, 1, {}, None), "unknown frame flags -1"),
        (frame_of(1, [0], 1, 1, {}, None), "unknown frame flags a list"),
        (frame_of(1, 0, "10", 1, {}, None), "whole numbers, got '10' and 1"),
        (frame_of(1, 0, 10, 1.0, {}, None), "whole numbers, got 10 and 1.0"),
        (frame_of(1, 0, 10, -1, {}, None), "whole numbers, got 10 and -1"),
        (frame_of(1, 0, 10, 1, [], None), "header must be a map"),
        (frame_of(1, 0, 10, 1, None, None), "header must be a map"),
        (frame_of(1, 0, 10, 1, {}, "text"), "body bytes or nil"),
        (frame_of(1, 0, 10, 1, {5: 5}, None), NO_FRAME),
        (b"\x96\x01\x00\x0a\x01\x81\xa2\xff\xff\xc0\xc0", NO_FRAME),  # a header key that is not UTF-8
    ],
)
def test_what_is_not_a_frame_is_refused_with_the_reason(payload: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        decode_frame(payload)
    assert why in error_of(len(payload).to_bytes(4, "big") + payload)


@pytest.mark.parametrize("depth", [10, 1_000, 100_000])
def test_nesting_is_refused_and_never_recursed_into(depth: int) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(b"\x96\x01" + b"\x91" * depth + b"\x01" + b"\x01\x01\x80\xc0")


def test_an_error_is_short_whatever_was_sent() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_frame(frame_of("x" * 1_000_000, 0, 1, 1, {}, None))
    assert len(str(caught.value)) < 300


def test_a_header_has_as_many_fields_as_the_limit_and_not_one_more() -> None:
    header = {str(i): i for i in range(MAX_HEADER_FIELDS)}
    assert decode_frame(frame_of(1, 0, 1, 1, header, None)).header == header
    with pytest.raises(ProtocolError, match="65 fields"):
        decode_frame(frame_of(1, 0, 1, 1, {**header, "one more": 1}, None))


@pytest.mark.parametrize("make", [lambda n: list(range(n)), lambda n: {str(i): i for i in range(n)}])
def test_a_value_of_a_header_has_as_many_items_as_the_limit_and_not_one_more(make: Any) -> None:
    assert len(decode_frame(frame_of(1, 0, 1, 1, {"v": make(MAX_HEADER_ITEMS)}, None)).header["v"]) == MAX_HEADER_ITEMS
    with pytest.raises(ProtocolError, match=NO_FRAME):
        decode_frame(frame_of(1, 0, 1, 1, {"v": make(MAX_HEADER_ITEMS + 1)}, None))


def test_a_frame_over_the_limit_cannot_be_encoded_and_the_encoder_works_on() -> None:
    fitting = b"x" * (MAX_FRAME_BYTES - 11)
    assert len(CODEC.encode(REQUEST, 10, 1, {}, fitting)) - 4 == MAX_FRAME_BYTES
    with pytest.raises(ValueError, match="longer than"):
        CODEC.encode(REQUEST, 10, 1, {}, fitting + b"x")
    with pytest.raises(TypeError):
        CODEC.encode(REQUEST, 10, 1, {"no": object()}, None)
    assert CODEC.encode(REQUEST, 34, 7, {"cause": ""}, None) == HEART_BEAT


def test_decoders_do_not_share_their_state() -> None:
    first, second = MsgpackDecoder(), MsgpackDecoder()
    first.feed(HEART_BEAT[:5])
    assert len(second.feed(HEART_BEAT)) == 1
