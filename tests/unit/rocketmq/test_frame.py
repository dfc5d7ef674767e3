"""Frames as stock clients write them, and each way to break one; `tests/property/test_rocketmq_frames.py` tries any."""

from __future__ import annotations

import json
import struct

import pytest

from model.limits import MAX_FRAME_BYTES, MAX_ROCKETMQ_FIELDS, MAX_ROCKETMQ_HEADER_BYTES
from rocketmq.frame import Frame, FrameDecoder, encode_frame, is_first_of_rocketmq

JAVA_HEADER = (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON",'
    b'"version":463}'
)
BINARY = bytes.fromhex("00000025 01000021 0069 00 01cf 00000007 00000000 00000000 0000000c 0005 746f706963 00000001 54")
"""What RocketMQ's own classes write for a question for the route of T."""


def framed(header: bytes, form: int = 0, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), form << 24 | len(header)) + header + body


def error_of(stream: bytes) -> str:
    decoder = FrameDecoder()
    assert decoder.feed(stream) == []
    assert decoder.error is not None
    assert decoder.feed(BINARY) == []
    return str(decoder.error)


def test_a_question_of_a_java_client_reads_the_same_in_both_forms() -> None:
    [text] = FrameDecoder().feed(framed(JAVA_HEADER))
    [binary] = FrameDecoder().feed(BINARY)
    assert text == Frame(105, 0, 7, {"topic": "T"}, version=463)
    assert binary == text._replace(binary=True)
    assert encode_frame(binary) == BINARY


def test_numbers_booleans_and_nulls_of_other_clients_are_read_as_texts() -> None:
    header = {"code": "310", "extFields": {"d": 4, "k": False, "i": None, "b": "T"}, "opaque": -1, "remark": None}
    [frame] = FrameDecoder().feed(framed(json.dumps(header).encode()))
    assert frame == Frame(310, 0, -1, {"d": "4", "k": "false", "b": "T"}, version=0)


def test_a_header_without_fields_is_read_and_always_written_with_some() -> None:
    [frame] = FrameDecoder().feed(framed(b'{"code":106,"extFields":null,"opaque":1}', body=b"x"))
    assert (frame.fields, frame.body) == ({}, b"x")
    assert b'"extFields":{}' in encode_frame(frame)


def test_a_frame_is_complete_at_its_last_byte_and_not_before() -> None:
    decoder = FrameDecoder()
    for n in range(len(BINARY) - 1):
        assert decoder.feed(BINARY[n : n + 1]) == []
        assert decoder.partial_frame_bytes
        assert not decoder.at_frame_boundary()
    assert len(decoder.feed(BINARY[-1:])) == 1
    assert (decoder.partial_frame_bytes, decoder.at_frame_boundary()) == (0, True)


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (struct.pack(">II", MAX_FRAME_BYTES, 10), "more than the"),
        (struct.pack(">II", 100, 2 << 24 | 10), "form 2"),
        (struct.pack(">II", 100, 97), "in a frame of 100"),
        (struct.pack(">II", 11 * 2**20, 10 * 2**20), f"more than the {MAX_ROCKETMQ_HEADER_BYTES}"),
        (framed(b"[" * 50_000), "RecursionError"),
        (framed(b'{"code":1,"extFields":{"a":{}}}'), "a text, a number or a boolean"),
        (framed(b'{"code":1,"extFields":[]}'), "must be an object"),
        (framed(b"[]"), "must be an object"),
        (framed(b"{}"), "KeyError"),
        (framed(b'{"code":99999999999}'), "32 bits"),
        (framed(b'{"code":' + b"9" * 10_000 + b"}"), "malformed"),
        (framed(b'{"code":true}'), "whole number"),
        (framed(b"\xff"), "malformed"),
        (framed(rb'{"code":1,"extFields":{"topic":"\ud800"}}'), "surrogates not allowed"),
        (framed(b'{"code":1,"extFields":{"topic":"\xed\xa0\x80"}}'), "malformed"),
        (framed(b"", form=1), "malformed"),
        (framed(BINARY[8:] + b"x", form=1), "bytes are left"),
        (framed(BINARY[8:-5] + b"\x7f" + BINARY[-4:], form=1), "a length of"),
        (framed(b'{"code":1,"extFields":%s}' % json.dumps(dict.fromkeys(map(str, range(300)), "")).encode()), "fields"),
    ],
)
def test_what_is_not_a_frame_gives_one_clear_refusal(stream: bytes, text: str) -> None:
    assert text in error_of(stream)


def test_as_many_fields_as_allowed_are_read() -> None:
    fields = {str(n): "" for n in range(MAX_ROCKETMQ_FIELDS)}
    [frame] = FrameDecoder().feed(framed(json.dumps({"code": 1, "extFields": fields}).encode()))
    assert frame.fields == fields


def test_a_frame_beyond_the_limit_is_not_written() -> None:
    with pytest.raises(ValueError, match="longer than"):
        encode_frame(Frame(0, 1, 1, {}, bytes(MAX_FRAME_BYTES)))


def test_the_fifth_byte_reports_the_protocols_apart() -> None:
    ours = bytes.fromhex("0000000e 96 01 00 22 07 81 a5 6361757365 a0 c0")
    assert is_first_of_rocketmq(BINARY[:4]) is None
    assert [is_first_of_rocketmq(first[:5]) for first in (BINARY, framed(JAVA_HEADER), ours, b"GET /x")] == [
        *(True, True, False, False)
    ]
