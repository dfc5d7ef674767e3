"""Rows become the messages that a producer would have made of them, or are refused by column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
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
from pipeline.sink.rows import RowEncoder, check_sink_schema

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


def test_payloads_are_those_of_a_producer() -> None:
    rows = RowEncoder(None, "p").encode(
        batch(
            topic=pa.array(["a", "b"]),
            key=pa.array(["k1 k2", None]),
            tag=pa.array(["red", None]),
            body=pa.array([b"x", b"y"]),
            properties=pa.array([[("p", "q")], None], _PROPERTIES),
            queue_id=pa.array([3, None]),
        ),
        born_ms=7,
    )
    assert list(rows.payloads) == [
        encode_payload(Message("a", b"x", ["k1", "k2"], "red", {"p": "q"}), 7, "p00000001"),
        encode_payload(Message("b", b"y"), 7, "p00000002"),
    ]
    assert (rows.topics, rows.keys, rows.queue_ids) == (["a", "b"], ["k1 k2", ""], [3, None])
    assert rows.tag_hashes == [tag_hash("red"), 0]


def test_the_option_goes_before_the_column_and_text_becomes_its_bytes() -> None:
    encoder = RowEncoder("t", "p")
    for number, kind in enumerate((pa.string(), pa.large_string(), pa.binary(), pa.large_binary())):
        rows = encoder.encode(
            batch(body=pa.array(["ä"], pa.string()).cast(kind), topic=pa.array([None], pa.string())), 7
        )
        assert list(rows.payloads) == [encode_payload(Message("t", "ä".encode()), 7, f"p{number + 1:08x}")]
        assert rows.topics == ["t"]


def test_no_rows_are_not_messages() -> None:
    assert RowEncoder("t", "p").encode(batch(body=pa.array([], pa.binary())), 7).payloads == []


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"body": pa.array([b"x", None])}, "column body is null in 1 rows of 2"),
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
        RowEncoder("t", "p").encode(batch(**columns), 7)


def test_a_delay_is_in_milliseconds_or_the_time_until_a_moment() -> None:
    at = pa.array([None, None, 10_000_000, 2_000_000], pa.timestamp("us", tz="UTC"))
    delays = pa.array([None, 3, None, None], pa.int32())
    bodies = pa.array([b"x"] * 4)
    rows = RowEncoder("t", "p").encode(batch(body=bodies, delay=delays, deliver_at=at), 7_000)
    assert rows.delays_ms == [0, 3, 3_000, 0], "what is over is delivered now"
    assert RowEncoder("t", "p").encode(batch(body=bodies), 7).delays_ms == [0] * 4


def test_what_only_brokers_set_is_null_in_the_rows_of_a_table() -> None:
    table = {name: pa.array([None], pa.string()) for name in ("broker", "msg_id")}
    assert len(RowEncoder("t", "p").encode(batch(body=pa.array([b"x"]), **table), 7).payloads) == 1
    with pytest.raises(MessageIllegal, match="column msg_id has a value in a row, but only brokers set it"):
        RowEncoder("t", "p").encode(batch(body=pa.array([b"x"]), msg_id=pa.array(["i"])), 7)


def test_without_option_topic_the_column_must_not_be_null() -> None:
    with pytest.raises(MessageIllegal, match="column topic is null in 1 rows of 1"):
        RowEncoder(None, "p").encode(batch(body=pa.array([b"x"]), topic=pa.array([None], pa.string())), 7)


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
