"""Rows become the messages that a producer would have made of them, or are refused by column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from model.errors import ConfigError, MessageIllegal
from model.limits import MAX_BODY_BYTES
from model.message import MAX_DELAY_MS, Message, encode_payload, tag_hash
from pipeline.sink import rows as rows_module
from pipeline.sink.rows import RowEncoder, by_topic, check_sink_schema

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}
_PROPERTIES = pa.map_(pa.string(), pa.string())


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def check(schema: str, topic: str | None = "t", *, needs_queue_id: bool = False) -> None:
    columns = [column.split(" ") for column in schema.split(", ")]
    fields = [StructField(name, _TYPES[kind], nullable=name != "body") for name, kind in columns]
    check_sink_schema(StructType(fields), topic=topic, needs_queue_id=needs_queue_id)


WORDS = ["", "k", "red", "ä", "k1 k2", "a\u2003b", " ", "x" * 31, "x" * 32, "y" * 256]
ROW = st.tuples(
    st.one_of(st.binary(min_size=1, max_size=3), st.sampled_from([b"x" * 255, b"x" * 256, b"x" * 65_536])),
    st.none() | st.sampled_from(WORDS),
    st.none() | st.sampled_from(["", "red", "ä", "blue", "t" * 40]),
    st.none() | st.dictionaries(st.sampled_from(WORDS), st.sampled_from(WORDS), max_size=3),
)


@given(st.lists(ROW, min_size=1, max_size=12), st.sampled_from([0, 7, 1_700_000_000_000]), st.integers(0, 2))
def test_payloads_are_those_of_a_producer(rows: list[Any], born_ms: int, first: int) -> None:
    bodies, keys, tags, properties = (list(column) for column in zip(*rows, strict=True))
    pairs = [None if each is None else list(each.items()) for each in properties]
    whole = batch(
        body=pa.array(bodies, pa.binary()),
        key=pa.array(keys, pa.string()),
        tag=pa.array(tags, pa.string()),
        properties=pa.array(pairs, _PROPERTIES),
    )
    found = RowEncoder("p").encode("topic", whole.slice(first), born_ms)
    expected = [
        encode_payload(Message("topic", body, (key or "").split(), tag or "", each or {}), born_ms, f"p{number:08x}")
        for number, (body, key, tag, each) in enumerate(rows[first:], 1)
    ]
    assert found.payloads.to_pylist() == expected
    assert found.keys is None or found.keys == [(key or "").encode() for key in keys[first:]]
    assert found.tag_hashes.tolist() == [tag_hash(tag) if tag else 0 for tag in tags[first:]]


def test_rows_are_divided_by_the_topics_that_they_name() -> None:
    encoder = RowEncoder("p")
    rows = batch(topic=pa.array(["a", "b", "a"]), body=pa.array([b"x", b"y", b"z"]), queue_id=pa.array([3, None, None]))
    parts = {topic: encoder.encode(topic, part, 7) for topic, part in by_topic(rows, None)}
    assert {topic: (part.bodies.to_pylist(), part.queue_ids) for topic, part in parts.items()} == {
        "a": ([b"x", b"z"], [3, None]),
        "b": ([b"y"], None),
    }
    assert parts["b"].payloads.to_pylist() == [encode_payload(Message("b", b"y"), 7, "p00000003")]


def test_a_batch_whose_columns_would_be_too_large_is_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_MAX_PIECE_BYTES", 200)
    rows = batch(body=pa.array([b"x" * 60] * 7))
    pieces = [part.num_rows for _, part in by_topic(rows, "t")]
    assert sum(pieces) == 7
    assert max(pieces) <= 3


def test_the_option_goes_before_the_column_and_text_becomes_its_bytes() -> None:
    encoder = RowEncoder("p")
    for number, kind in enumerate((pa.string(), pa.large_string(), pa.binary(), pa.large_binary())):
        rows = batch(body=pa.array(["ä"], pa.string()).cast(kind), topic=pa.array([None], pa.string()))
        ((topic, part),) = by_topic(rows, "t")
        found = encoder.encode(topic, part, 7).payloads.to_pylist()
        assert found == [encode_payload(Message("t", "ä".encode()), 7, f"p{number + 1:08x}")]


def test_no_rows_are_not_messages() -> None:
    assert RowEncoder("p").encode("t", batch(body=pa.array([], pa.binary())), 7).payloads.to_pylist() == []


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"body": pa.array([b"x", None])}, "column body is null in 1 row of 2"),
        ({"body": pa.array([b"x", b""])}, "column body has 0 bytes in a row"),
        ({"body": pa.array([b"x" * (MAX_BODY_BYTES + 1)])}, f"column body has {MAX_BODY_BYTES + 1} bytes"),
        ({"body": pa.array([b"x"]), "tag": pa.array(["a||b"])}, r"column tag has '\|\|'"),
        ({"body": pa.array([b"x"]), "key": pa.array(["k " * 65])}, "column key has 65 keys"),
        ({"body": pa.array([b"x"]), "delay": pa.array([-1])}, "a row has a delay of -1 ms"),
        ({"body": pa.array([b"x"]), "delay": pa.array([MAX_DELAY_MS + 1])}, "40 days"),
        (
            {
                "body": pa.array([b"x"]),
                "delay": pa.array([1]),
                "deliver_at": pa.array([1], pa.timestamp("us", tz="UTC")),
            },
            "columns delay and deliver_at both have a value",
        ),
        (
            {"body": pa.array([b"x"]), "properties": pa.array([[("p", None)]], _PROPERTIES)},
            "column properties has a null",
        ),
        (
            {"body": pa.array([b"x"]), "properties": pa.array([[(str(n), "") for n in range(129)]], _PROPERTIES)},
            "column properties has 129 properties",
        ),
        (
            {"body": pa.array([b"x" * MAX_BODY_BYTES]), "properties": pa.array([[("p", "q" * 70_000)]], _PROPERTIES)},
            "a row is a message of .* bytes, more than",
        ),
    ],
)
def test_a_row_that_is_not_a_message_is_refused_by_its_column(columns: dict[str, Any], why: str) -> None:
    with pytest.raises(MessageIllegal, match=why):
        RowEncoder("p").encode("t", batch(**columns), 7)


def test_a_delay_is_in_milliseconds_or_the_time_until_a_moment() -> None:
    at = pa.array([None, None, 10_000_000, 2_000_000], pa.timestamp("us", tz="UTC"))
    delays = pa.array([None, 3, None, None], pa.int32())
    bodies = pa.array([b"x"] * 4)
    rows = RowEncoder("p").encode("t", batch(body=bodies, delay=delays, deliver_at=at), 7_000)
    assert rows.delays_ms == [0, 3, 3_000, 0], "what is over is delivered now"
    assert RowEncoder("p").encode("t", batch(body=bodies), 7).delays_ms is None


def test_what_only_brokers_set_is_null_in_the_rows_of_a_table() -> None:
    table = {name: pa.array([None], pa.string()) for name in ("broker", "msg_id")}
    assert len(RowEncoder("p").encode("t", batch(body=pa.array([b"x"]), **table), 7).payloads) == 1
    with pytest.raises(MessageIllegal, match="column msg_id has a value in a row, but only brokers set it"):
        RowEncoder("p").encode("t", batch(body=pa.array([b"x"]), msg_id=pa.array(["i"])), 7)


def test_without_option_topic_the_column_must_not_be_null() -> None:
    with pytest.raises(MessageIllegal, match="column topic is null in 1 row of 1"):
        list(by_topic(batch(body=pa.array([b"x"]), topic=pa.array([None], pa.string())), None))


@pytest.mark.parametrize(
    "schema",
    [
        "body string",
        "body binary, key string, tag string, queue_id bigint",
        "queue_id int, properties map<string,string>, body binary",
    ],
)
def test_columns_that_can_be_sent_pass(schema: str) -> None:
    check(schema)
    check(f"topic string, {schema}", topic=None)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("key string", "needs a column body"),
        ("body string, offset bigint", "has no column 'offset': select the columns to send"),
        ("key string, value string", "has no column 'value': that is a column of Kafka; use body"),
        ("body string, headers string", "has no column 'headers': that is a column of Kafka; use properties"),
        ("body bigint", "column 'body' is bigint, and the rlab sink needs binary or string: cast it"),
        ("body string, queue_id string", "needs int or bigint"),
        ("body string, properties map<string,int>", "needs map<string,string>"),
    ],
)
def test_columns_that_cannot_be_sent_are_refused_by_name(schema: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check(schema)


def test_someone_has_to_say_topic_and_queue() -> None:
    with pytest.raises(ConfigError, match="set option topic, or add a column topic"):
        check("body string", topic=None)
    with pytest.raises(ConfigError, match="needs a column queue_id"):
        check("body string", needs_queue_id=True)
