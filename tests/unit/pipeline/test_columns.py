from __future__ import annotations

import gc
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from model.errors import ConfigError
from model.message import Message
from model.message_queue import MessageQueue
from model.record import RecordCorrupt
from pipeline import columns
from pipeline.columns import SCHEMA, ColumnSettings, arrow_batches, check_schema, rows
from tests.unit.pipeline.fake_cluster import record

QUEUE = MessageQueue("t", "broker-a", 3)

messages = st.builds(
    Message,
    topic=st.just("t"),
    body=st.binary(min_size=1, max_size=40),
    keys=st.lists(st.text(max_size=5), max_size=3),
    tags=st.sampled_from(["", "red", "blue"]),
    properties=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)


def settings(
    schema: StructType = SCHEMA, tags: frozenset[str] | None = None, *, body: bool = True, properties: bool = True
) -> ColumnSettings:
    return ColumnSettings(schema=schema, tags=tags, include_body=body, include_properties=properties)


def bodies_of(found: list[Message], per_pull: int = 3) -> list[bytes]:
    stored = [record(QUEUE, offset, message) for offset, message in enumerate(found)]
    return [b"".join(stored[start : start + per_pull]) for start in range(0, len(stored), per_pull)]


def as_rows(batches: list[pa.RecordBatch]) -> list[tuple[object, ...]]:
    def plain(name: str, value: object) -> object:
        return dict(value) if name == "properties" and isinstance(value, list) else value

    return [tuple(plain(name, value) for name, value in row.items()) for batch in batches for row in batch.to_pylist()]


@given(
    st.lists(messages, max_size=20),
    st.integers(0, 25),
    st.none() | st.just(frozenset({"red"})),
    st.booleans(),
    st.booleans(),
)
def test_columns_hold_what_rows_hold(
    found: list[Message], end: int, tags: frozenset[str] | None, body: bool, properties: bool
) -> None:
    wanted = settings(tags=tags, body=body, properties=properties)
    batches = list(arrow_batches(QUEUE, end, bodies_of(found), wanted))
    expected = list(rows(QUEUE, end, bodies_of(found), wanted))
    assert as_rows(batches) == expected
    assert [row[3] for row in expected] == [
        offset for offset, message in enumerate(found) if offset < end and (tags is None or message.tags in tags)
    ]


def test_a_message_becomes_a_row_with_nulls_for_what_it_does_not_have() -> None:
    plain, full = Message("t", b"x"), Message("t", b"y", ["k1", "k2"], "red", {"p": "q"})
    first, second = rows(QUEUE, 2, bodies_of([plain, full]), settings())
    born, stored = datetime.fromtimestamp(0.001, UTC), datetime.fromtimestamp(1, UTC)
    assert first[:8] == ("t", "broker-a", 3, 0, None, None, b"x", "id-0")
    assert second == ("t", "broker-a", 3, 1, "k1 k2", "red", b"y", "id-1", born, stored, 3, {"p": "q"})


@pytest.mark.parametrize("schema", [SCHEMA, StructType([SCHEMA["body"], SCHEMA["offset"]])])
def test_batches_have_exactly_the_schema_that_spark_compares_them_with(schema: StructType) -> None:
    (batch,) = arrow_batches(QUEUE, 9, bodies_of([Message("t", b"x")] * 2), settings(schema))
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_columns_in_another_order_are_rows_in_that_order() -> None:
    backwards = StructType(list(reversed(SCHEMA.fields)))
    found = bodies_of([Message("t", b"x")])
    assert next(iter(rows(QUEUE, 1, found, settings(backwards))))[::-1] == next(iter(rows(QUEUE, 1, found, settings())))


def test_batches_are_cut_at_their_limit_of_rows_and_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bodies_of([Message("t", b"x" * 100)] * 30)
    monkeypatch.setattr(columns, "MAX_BATCH_ROWS", 9)
    assert [batch.num_rows for batch in arrow_batches(QUEUE, 30, found, settings())] == [9, 9, 9, 3]
    monkeypatch.setattr(columns, "MAX_BATCH_ROWS", 1_000)
    monkeypatch.setattr(columns, "MAX_BATCH_BYTES", len(found[0]) * 4)
    assert [batch.num_rows for batch in arrow_batches(QUEUE, 30, found, settings())] == [12, 12, 6]


def test_a_pull_without_a_wanted_message_gives_no_batch() -> None:
    found = bodies_of([Message("t", b"x", tags="blue")] * 5)
    assert list(arrow_batches(QUEUE, 5, found, settings(tags=frozenset({"red"})))) == []
    assert list(arrow_batches(QUEUE, 0, found, settings())) == []
    assert list(arrow_batches(QUEUE, 5, [], settings())) == []


@pytest.mark.parametrize(
    "damage", [lambda body: body[:-1], lambda body: body + b"\x01", lambda body: b"\x00" + body[1:] + b"\xc0"]
)
def test_bytes_that_are_not_whole_records_are_refused(damage) -> None:  # type: ignore[no-untyped-def]
    (body,) = bodies_of([Message("t", b"x" * 20)] * 2)
    with pytest.raises(RecordCorrupt, match="t@broker-a:3"):
        list(arrow_batches(QUEUE, 9, [damage(body)], settings()))


def test_a_schema_with_a_column_that_is_not_there_is_refused() -> None:
    assert check_schema(StructType([SCHEMA["body"]])).names == ["body"]
    with pytest.raises(ConfigError, match="no column value string: known are topic"):
        check_schema(StructType().add("value", "string"))
    with pytest.raises(ConfigError, match="no column body string: it is binary"):
        check_schema(StructType().add("body", "string"))


def test_decoding_leaves_no_cycles_behind() -> None:
    # The collector is off while a range is read: cycles would stay until its end.
    found = bodies_of([Message("t", b"x")] * 30)
    list(arrow_batches(QUEUE, 30, found, settings()))
    gc.collect()
    for _ in arrow_batches(QUEUE, 30, found, settings()):
        pass
    assert gc.collect() == 0
