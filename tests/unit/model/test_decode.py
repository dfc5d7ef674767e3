from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.decode import Undecodable, decode_messages, decode_or_keep
from model.message import Message, MessageExt, encode_payload
from model.message_queue import MessageQueue
from model.record import HEADER_BYTES, RecordCorrupt, encode_record, iter_records

QUEUE = MessageQueue("t", "b", 3)

messages = st.builds(
    Message,
    topic=st.text(max_size=5),
    body=st.binary(min_size=1, max_size=300),
    keys=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    tags=st.text(max_size=5),
    properties=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)


def record(payload: bytes, *, offset: int = 7, times: int = 0, length_off_by: int = 0) -> bytes:
    whole = encode_record(1, QUEUE.queue_id, offset, 1_700_000_000_000 + offset, 0, 0, times, payload)
    return (len(whole) + length_off_by).to_bytes(4, "big") + whole[4:]


def payload_of(body: bytes) -> bytes:
    return encode_payload(Message("t", body), 5, "id")


def decoded_one_by_one(body: bytes) -> list[MessageExt]:
    """The naive twin: slices every payload out and decodes it by itself."""
    decoded = []
    for stored in iter_records(body):
        payload: Any = msgpack.unpackb(stored.payload, use_list=False)
        decoded.append(MessageExt(QUEUE, stored.queue_offset, stored.stored_ms, stored.times_delivered, *payload))
    return decoded


@given(st.lists(st.tuples(messages, st.integers(0, 65_535)), max_size=6))
def test_a_body_decodes_to_what_the_producers_encoded_and_the_broker_stored(sent: list[tuple[Message, int]]) -> None:
    body = b"".join(
        record(encode_payload(message, 5, f"id-{n}"), offset=n, times=times) for n, (message, times) in enumerate(sent)
    )
    got = decode_messages(QUEUE, body)
    assert got == decoded_one_by_one(body)
    assert [type(message) for message in got] == [MessageExt] * len(sent)
    assert [(m.offset, m.times_delivered, m.topic, m.body, m.tags, m.keys, m.properties) for m in got] == [
        (n, times, m.topic, m.body, m.tags, m.keys, m.properties) for n, (m, times) in enumerate(sent)
    ]


def test_a_body_that_ends_inside_a_record_is_refused_wherever_it_ends() -> None:
    first, second = record(payload_of(b"x"), offset=1), record(payload_of(b"y"), offset=2)
    for end in range(1, len(first + second)):
        if end != len(first):
            with pytest.raises(RecordCorrupt, match="t@b:3"):
                decode_messages(QUEUE, (first + second)[:end])
    assert [message.offset for message in decode_messages(QUEUE, first)] == [1]


WHOLE: list[Any] = ["t", b"x", "", [], {}, 5, "id"]
WRONG: list[Any] = [{}, 7, [], [{}], "", "now", None]
NOT_MESSAGES = [
    pytest.param(msgpack.packb(["t", b"x", "", [], {}, 5]), id="a field is missing"),
    pytest.param(msgpack.packb(["t", b"x", "", [], {}, 5, "id", 0]), id="a field too many"),
    pytest.param(msgpack.packb(7), id="no array"),
    pytest.param(msgpack.packb({"t": 1}), id="a map"),
    pytest.param(b"\xc1", id="not msgpack"),
    pytest.param(b"", id="nothing"),
    pytest.param(payload_of(b"x") + b"\x00", id="bytes behind it"),
    pytest.param(payload_of(b"x")[:-1], id="an end that is missing"),
    *[
        pytest.param(msgpack.packb([*WHOLE[:n], wrong, *WHOLE[n + 1 :]]), id=f"field {n} is {wrong!r}")
        for n, wrong in enumerate(WRONG)
    ],
    # What is missing of its seven fields it takes from the record behind it, header and all.
    pytest.param(b"\x97" + payload_of(b"x")[1:8] + b"\xc4" + bytes([HEADER_BYTES]), id="one that goes on in the next"),
]


@pytest.mark.parametrize("payload", NOT_MESSAGES)
def test_a_payload_that_is_not_a_message_is_left_out_and_its_neighbours_are_not(payload: bytes) -> None:
    before, behind = record(payload_of(b"a"), offset=6, times=2), record(payload_of(b"b"), offset=8)
    bad = record(payload, offset=7)
    for body in (bad, before + bad, bad + behind, before + bad + bad + behind):
        undecodable: list[Undecodable] = []
        good = before * (body.startswith(before)) + behind * body.endswith(behind)
        assert decode_messages(QUEUE, body, undecodable) == decode_messages(QUEUE, good)
        assert {(each.queue, each.offset) for each in undecodable} == {(QUEUE, 7)}
        kept = decode_or_keep(QUEUE, body)
        assert [message for message, reason in kept if not reason] == decode_messages(QUEUE, good)
        for message, reason in kept:
            if reason:
                assert (message.offset, message.body, message.message_id) == (7, payload, "")
        assert all(each.reason for each in undecodable)


@pytest.mark.parametrize("payload", NOT_MESSAGES)
def test_who_does_not_ask_for_what_is_left_out_is_refused_all(payload: bytes) -> None:
    for behind in (b"", record(payload_of(b"y"), offset=8)):
        with pytest.raises(RecordCorrupt, match="t@b:3"):
            decode_messages(QUEUE, record(payload) + behind)


def test_a_payload_cannot_bring_a_record_of_its_own_making() -> None:
    """Two in a row: the body of the first swallows the header of the second, which goes on with a header of its own."""
    rest = b"".join(map(msgpack.packb, ["", [], {}, 5, "id"]))
    # It claims the length that the record around it has, so that the sum of all lengths does not give it away.
    forged = record(payload_of(b"forged"), offset=2**60, length_off_by=HEADER_BYTES + len(rest))
    first = record(b"\x97" + msgpack.packb("t") + b"\xc4" + bytes([HEADER_BYTES]), offset=7)
    second, third = record(rest + forged, offset=8), record(payload_of(b"y"), offset=9)
    undecodable: list[Undecodable] = []
    assert decode_messages(QUEUE, first + second + third, undecodable) == decode_messages(QUEUE, third)
    assert [(each.offset, each.position) for each in undecodable] == [(7, 0), (8, 1)]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(record(payload_of(b"x"), length_off_by=1), id="a length that reaches into the next record"),
        pytest.param(record(payload_of(b"x"), length_off_by=-1), id="a length that ends inside the payload"),
        pytest.param(record(b"", length_off_by=-HEADER_BYTES), id="a length of nothing"),
        pytest.param(record(b"\xc1" * 9)[:-1] + b"\xc0", id="bytes that are not those that were stored"),
    ],
)
def test_a_record_that_was_damaged_is_never_passed_over(broken: bytes) -> None:
    for behind in (b"", record(payload_of(b"y"), offset=8)):
        undecodable: list[Undecodable] = []
        with pytest.raises(RecordCorrupt, match="t@b:3"):
            decode_messages(QUEUE, record(b"\xc1") + broken + behind, undecodable)
        assert undecodable == []
