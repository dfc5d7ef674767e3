"""Messages of the usual form are found in their bytes, and become the same columns as when each is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from model.message import Message, encode_payload, tag_hash
from model.message_queue import MessageQueue
from model.record import encode_record
from pipeline.source import columns
from pipeline.source.columns import SCHEMA, arrow_batches
from pipeline.source.located import record_starts
from pipeline.source.options import SourceOptions, parse_options
from pipeline.source.queue_reader import PulledRecords

QUEUE = MessageQueue("orders", "a", 1)
BORN_MS = 1_700_000_000_000
OPTIONS = parse_options({"nameServer": "n:1", "subscribe": "orders"}, streaming=False)


def stored(messages: Sequence[Message], first: int = 0) -> bytes:
    return b"".join(
        encode_record(
            3, 1, offset, offset * 1000, tag_hash(one.tags), 0, 0, encode_payload(one, BORN_MS + offset, f"id-{offset}")
        )
        for offset, one in enumerate(messages, first)
    )


def table(pulls: Sequence[PulledRecords], end: int, options: SourceOptions = OPTIONS) -> pa.Table:
    batches = list(arrow_batches(QUEUE, end, pulls, options))
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, to_arrow_schema(SCHEMA, timezone="UTC"))


def decoded(pulls: Sequence[PulledRecords], end: int, options: SourceOptions = OPTIONS) -> pa.Table:
    """The same by decoding each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_usual_batch", lambda *_: None)
        return table(pulls, end, options)


messages = st.builds(
    Message,
    st.sampled_from(["orders", "o" * 40]),
    st.binary(min_size=1, max_size=70) | st.sampled_from([b"x" * 255, b"y" * 256, b"z" * 65_536]),
    st.lists(st.sampled_from(["k", "key" * 12, "ü", "k" * 300]), max_size=2)
    | st.lists(st.sampled_from(["k", "k1", "ü", " "]), max_size=17),
    st.sampled_from(["", "red", "r" * 31, "r" * 32, "grün"]),
    st.sampled_from(
        [{}, {}, {"p": "q"}, {"p": "", "ü": "ü"}, {"ü": "x" * 300, "": ""}, {str(n): "v" * n for n in range(15, 31)}]
    ),
)


@settings(max_examples=150)
@given(
    st.lists(st.lists(messages, min_size=1, max_size=6), min_size=1, max_size=3),
    st.integers(1, 20),
    st.none() | st.sets(st.sampled_from(["", "red", "grün", "r" * 32, "other"]), min_size=1).map(frozenset),
    st.booleans(),
)
def test_what_is_found_is_what_is_decoded(
    parts: list[list[Message]], end: int, tags: frozenset[str] | None, properties: bool
) -> None:
    options = replace(OPTIONS, tags=tags, include_properties=properties)
    pulls, first = [], 0
    for part in parts:
        pulls.append(PulledRecords(stored(part, first), first, first + len(part)))
        first += len(part)
    assert table(pulls, end, options) == decoded(pulls, end, options)


def test_messages_of_the_usual_form_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise AssertionError("it is decoded")

    monkeypatch.setattr(columns, "add_records", fail)
    some = [Message("orders", b"x" * size, ["k1"] * (size % 2), "red" * (size % 3)) for size in (1, 200, 300, 70_000)]
    some += [Message("orders", b"x", ["ü"], "grün"), Message("orders", b"y", properties={"p": "q", "trace": "t" * 300})]
    some += [Message("orders", b"x", ["k1", "ü", "k3"], "red")]
    found = table([PulledRecords(stored(some), 0, 7)], 7)
    assert found.num_rows == 7
    assert found["key"].to_pylist()[-1] == "k1 ü k3"
    of_tag = table([PulledRecords(stored(some), 0, 7)], 7, replace(OPTIONS, tags=frozenset({"grün"})))
    assert of_tag["offset"].to_pylist() == [4]
    whole = table([PulledRecords(stored(some), 0, 7)], 7, replace(OPTIONS, include_properties=True))
    assert whole["properties"].to_pylist()[4:] == [[], [("p", "q"), ("trace", "t" * 300)], []]
    kept = table([PulledRecords(stored(some[5:], 5), 0, 7)], 7, replace(OPTIONS, sql="a = 1"))
    assert kept["offset"].to_pylist() == [5, 6], "the broker has left out the others"


@given(st.binary(max_size=120))
def test_bytes_that_are_not_whole_records_have_no_beginnings(body: bytes) -> None:
    starts = record_starts(body)
    assert starts is None or len(body) == sum(int.from_bytes(body[at : at + 4], "big") for at in starts)


@given(st.lists(st.tuples(st.integers(7, 60), st.integers(0, 255)), max_size=3), st.sampled_from([{}, {"p": "qü"}]))
def test_no_payload_is_taken_for_a_message_that_it_is_not(
    changes: list[tuple[int, int]], properties: dict[str, str]
) -> None:
    payload = bytearray(encode_payload(Message("orders", b"body", ["key"], "tag", properties), BORN_MS, "id-1"))
    for at, byte in changes:
        payload[at % (len(payload) - 8) + 8] = byte  # behind the topic, which is in no column
    records = [encode_record(3, 1, offset, 7, 0, 0, 0, bytes(payload)) for offset in range(2)]
    pulls = [PulledRecords(stored([Message("orders", b"x")]), 0, 1), PulledRecords(b"".join(records[1:]), 1, 2)]
    assert table(pulls, 2) == decoded(pulls, 2)


def test_a_property_that_a_message_has_twice_is_the_last_one() -> None:
    one = stored([Message("orders", b"x", properties={"p": "1", "q": "2"})])
    twice = one.replace(b"\xa1q", b"\xa1p")
    options = replace(OPTIONS, include_properties=True)
    assert table([PulledRecords(twice, 0, 1)], 1, options)["properties"].to_pylist() == [[("p", "2")]]
