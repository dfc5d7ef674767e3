"""The frames of the stream on the wire, and their checksum."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.durability.changes import PUT, RowChange
from model.replica_limits import MAX_SET_NUMBER
from remoting.codec import CODEC
from remoting.command import Command
from remoting.wire.schema import check_header
from replica.stream.frames import (
    FrameDamaged,
    LogFrame,
    TableFrame,
    decode_changes,
    decode_frame_of,
    encode_changes,
)

positions = st.integers(0, MAX_SET_NUMBER)
flushes = st.integers(-1, MAX_SET_NUMBER)
log_frames = st.builds(
    LogFrame,
    epoch=st.integers(1, MAX_SET_NUMBER),
    number=st.integers(1, MAX_SET_NUMBER),
    n=flushes,
    position=positions,
    base=flushes,
    log=st.binary(max_size=30),
    changes=st.binary(max_size=30),
    committed=flushes,
    committed_position=positions,
    min_position=positions,
    master_position=positions,
)
table_frames = st.builds(
    TableFrame,
    epoch=st.integers(1, MAX_SET_NUMBER),
    number=st.integers(1, MAX_SET_NUMBER),
    n=positions,
    part=positions,
    is_last=st.booleans(),
    chunk=st.binary(max_size=30),
)


def received(frame: LogFrame | TableFrame) -> Command:
    encoded, _ = frame.encode()
    [command] = CODEC.decoder().feed(b"".join(encoded))
    check_header(command)
    return command


@settings(max_examples=100)
@given(st.one_of(log_frames, table_frames))
def test_a_frame_comes_as_it_was_sent(frame: LogFrame | TableFrame) -> None:
    assert decode_frame_of(received(frame)) == (frame, frame.encode()[1])


def other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case _:
            return value + b"x"


@settings(max_examples=100)
@given(st.one_of(log_frames, table_frames), st.data())
def test_a_frame_with_another_value_in_any_field_is_refused(frame: LogFrame | TableFrame, data: st.DataObject) -> None:
    command = received(frame)
    name = data.draw(st.sampled_from([field.name for field in fields(frame)]))
    changed = received(replace(frame, **{name: other(getattr(frame, name))}))
    with pytest.raises(FrameDamaged, match="has the checksum"):
        decode_frame_of(changed._replace(header={**changed.header, "crc": command.header["crc"]}))


def test_a_frame_that_announces_more_log_than_it_has_is_refused() -> None:
    frame = LogFrame(
        epoch=1,
        number=4,
        n=0,
        position=0,
        base=0,
        log=b"abc",
        changes=b"",
        committed=0,
        committed_position=0,
        min_position=0,
        master_position=0,
    )
    command = received(frame)
    with pytest.raises(FrameDamaged, match="frame 4 announces 4 bytes of log and has 3"):
        decode_frame_of(command._replace(header={**command.header, "log_bytes": 4}))


def test_the_changes_of_several_flushes_are_joined_and_read_in_their_order() -> None:
    first = [RowChange("offsets", PUT, ("g", "t", 0, 42)), RowChange("journal", PUT, (b"\x00", None, 1.5))]
    second = [RowChange("offsets", PUT, ("g", "t", 0, 43))]
    joined = encode_changes(first) + encode_changes([]) + encode_changes(second)
    assert decode_changes([joined, encode_changes(first)]) == [*first, *second, *first]


@pytest.mark.parametrize("damaged", [b"\xc1", b"\x01", b"\x91\x01", b"\x91\x93\x01", b""])
def test_changes_that_cannot_be_read_are_refused(damaged: bytes) -> None:
    with pytest.raises(FrameDamaged, match="changes of a frame cannot be read"):
        decode_changes([len(damaged).to_bytes(4, "big") + damaged])
