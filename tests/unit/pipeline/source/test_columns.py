from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from model.errors import ConfigError
from model.message import Message
from model.message_queue import MessageQueue
from model.record import RecordCorrupt, encode_record
from pipeline.source import columns
from pipeline.source.columns import SCHEMA, arrow_batches, check_schema
from pipeline.source.options import SourceOptions, parse_options
from pipeline.source.queue_reader import MessagesLost, PulledRecords
from tests.unit.pipeline.fake_cluster import record
from tests.unit.pipeline.source.row_decoder import rows

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
    tags: frozenset[str] | None = None, *, body: bool = True, properties: bool = True, fails: bool = True
) -> SourceOptions:
    options = parse_options({"nameServer": "n:1", "subscribe": "t"}, streaming=False)
    return replace(options, tags=tags, include_body=body, include_properties=properties, fail_on_data_loss=fails)


def pulls_of(found: list[Message], per_pull: int = 3) -> list[PulledRecords]:
    return pulled([record(QUEUE, offset, message) for offset, message in enumerate(found)], per_pull)


def pulled(stored: list[bytes], per_pull: int = 100) -> list[PulledRecords]:
    starts = range(0, len(stored), per_pull)
    pieces = [stored[start : start + per_pull] for start in starts]
    return [
        PulledRecords(b"".join(piece), start, start + len(piece)) for start, piece in zip(starts, pieces, strict=True)
    ]


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
    batches = list(arrow_batches(QUEUE, end, pulls_of(found), wanted))
    expected = list(rows(QUEUE, end, pulls_of(found), wanted))
    assert as_rows(batches) == expected
    assert [row[3] for row in expected] == [
        offset for offset, message in enumerate(found) if offset < end and (tags is None or message.tags in tags)
    ]


@pytest.mark.parametrize("schema", [SCHEMA, StructType([SCHEMA["body"], SCHEMA["offset"]])])
def test_batches_have_exactly_the_schema_that_spark_compares_them_with(schema: StructType) -> None:
    (batch,) = arrow_batches(QUEUE, 9, pulls_of([Message("t", b"x")] * 2), settings(), schema)
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_batches_are_cut_at_their_limit_of_rows_and_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pulls_of([Message("t", b"x" * 100)] * 30)
    monkeypatch.setattr(columns, "MAX_BATCH_ROWS", 9)
    assert [batch.num_rows for batch in arrow_batches(QUEUE, 30, found, settings())] == [9, 9, 9, 3]
    monkeypatch.setattr(columns, "MAX_BATCH_ROWS", 1_000)
    monkeypatch.setattr(columns, "MAX_BATCH_BYTES", len(found[0].body) * 4)
    assert [batch.num_rows for batch in arrow_batches(QUEUE, 30, found, settings())] == [12, 12, 6]


def test_a_pull_without_a_wanted_message_gives_no_batch() -> None:
    found = pulls_of([Message("t", b"x", tags="blue")] * 5)
    assert list(arrow_batches(QUEUE, 5, found, settings(tags=frozenset({"red"})))) == []
    assert list(arrow_batches(QUEUE, 0, found, settings())) == []
    assert list(arrow_batches(QUEUE, 5, [], settings())) == []


@pytest.mark.parametrize(
    "damage", [lambda body: body[:-1], lambda body: body + b"\x01", lambda body: b"\x00" + body[1:] + b"\xc0"]
)
def test_bytes_that_are_not_whole_records_are_refused(damage) -> None:  # type: ignore[no-untyped-def]
    (whole,) = pulls_of([Message("t", b"x" * 20)] * 2)
    with pytest.raises(RecordCorrupt, match="t@broker-a:3"):
        list(arrow_batches(QUEUE, 9, [whole._replace(body=damage(whole.body))], settings()))


def of_payload(offset: int, payload: bytes) -> bytes:
    return encode_record(1, QUEUE.queue_id, offset, offset * 1000, 0, 0, 3, payload)


def with_fields(**wrong: object) -> bytes:
    fields = {"topic": "t", "body": b"b", "tags": "", "keys": [], "properties": {}, "born_ms": 1, "message_id": "i"}
    return bytes(msgpack.packb(list({**fields, **wrong}.values())))


NO_MESSAGES = {
    "two fields": msgpack.packb([1, 2]),
    "a number": msgpack.packb(7),
    "text": b"hello",
    "seven letters": msgpack.packb("letters"),
    "nothing": b"",
    "half": with_fields()[:-3],
    "more": with_fields() + b"\x00",
    "body is text": with_fields(body="b"),
    "tag is a number": with_fields(tags=3),
    "tag is a map": with_fields(tags={}),
    "no tag": with_fields(tags=None),
    "key is a number": with_fields(keys=[3]),
    "properties are a list": with_fields(properties=[]),
    "time is text": with_fields(born_ms="1"),
    "time is missing": with_fields(born_ms=None),
    "time is a date": with_fields(born_ms="2026-01-01T00:00:00"),
    "time has a fraction": with_fields(born_ms=1.5),
    "id is bytes": with_fields(message_id=b"i"),
}
READS = {"columns": lambda *given: as_rows(list(arrow_batches(*given))), "rows": lambda *given: list(rows(*given))}


def check_bytes(row: tuple[object, ...], offset: int, payload: bytes) -> None:
    """Check the row of a record that is no message: its place, its bytes, and null for the rest."""
    stored = datetime.fromtimestamp(offset, UTC)
    assert row == ("t", "broker-a", 3, offset, None, None, payload, None, None, stored, 3, None)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("payload", NO_MESSAGES.values(), ids=NO_MESSAGES)
@pytest.mark.parametrize("places", [[0], [3, 4, 8], list(range(10))], ids=str)
def test_records_that_are_not_messages_become_rows_of_their_bytes_and_are_reported(
    read: Callable[..., list[tuple[object, ...]]],
    payload: bytes,
    places: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = [of_payload(n, payload if n in places else with_fields()) for n in range(10)]
    found = read(QUEUE, 10, pulled(stored, 5), settings())
    whole = read(QUEUE, 10, pulled([of_payload(n, with_fields()) for n in range(10)]), settings())
    assert [row for row in found if row[3] not in places] == [row for row in whole if row[3] not in places]
    for place in places:
        check_bytes(found[place], place, payload)
    reported = [entry.getMessage() for entry in caplog.records]
    assert [f"offset {place} is not a message" in text for place, text in zip(places, reported, strict=True)] == [
        True
    ] * len(places)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_consumers_take_but_no_column_holds_is_a_row_of_bytes_as_well(
    read: Callable[..., list[tuple[object, ...]]],
) -> None:
    wrong = with_fields(keys=["a", 3])
    odd, whole = read(QUEUE, 2, pulled([of_payload(0, wrong), of_payload(1, with_fields())]), settings())
    check_bytes(odd, 0, wrong)
    assert whole[7] == "i"


NO_DATES = (-(2**63), -(10**18), -62_135_596_800_001, 253_402_300_800_000, 10**15, 10**18, 2**63 - 1, 2**63, 2**64 - 1)
FIRST_AND_LAST = (
    (-62_135_596_800_000, datetime(1, 1, 1, tzinfo=UTC)),
    (253_402_300_799_999, datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("properties", [True, False])
def test_a_message_with_a_time_that_no_date_has_is_whole_but_for_that_time(
    read: Callable[..., list[tuple[object, ...]]], properties: bool, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = settings(properties=properties)
    for wrong in NO_DATES:
        stored = [of_payload(0, with_fields(born_ms=wrong)), of_payload(1, with_fields())]
        assert [row[6:9] for row in read(QUEUE, 2, pulled(stored), wanted)] == [
            (b"b", "i", None),
            (b"b", "i", datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)),
        ], wrong
    for born_ms, date in FIRST_AND_LAST:
        [row] = read(QUEUE, 2, pulled([of_payload(0, with_fields(born_ms=born_ms))]), wanted)
        assert row[8] == date
    assert not caplog.records


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("payload", [with_fields(), b"no message"], ids=["message", "bytes"])
def test_a_time_of_a_broker_that_no_date_has_is_null_as_well(
    read: Callable[..., list[tuple[object, ...]]], payload: bytes
) -> None:
    for wrong in (253_402_300_800_000, 2**63, 2**64 - 1):
        [row] = read(QUEUE, 1, pulled([encode_record(1, QUEUE.queue_id, 0, wrong, 0, 0, 3, payload)]), settings())
        assert (row[3], row[9]) == (0, None), wrong


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_log_says_what_is_wrong_with_a_payload_and_not_where_it_failed_here(
    read: Callable[..., list[tuple[object, ...]]], caplog: pytest.LogCaptureFixture
) -> None:
    stored = [of_payload(0, b"\xc1"), of_payload(1, msgpack.packb(7)), of_payload(2, with_fields(keys=["a", 3]))]
    read(QUEUE, 3, pulled(stored), settings())
    nothing, number, key = (entry.getMessage() for entry in caplog.records)
    assert "NoneType" not in nothing
    assert "its fields are not the fields of a message" in number
    assert "int found" in key


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_bytes_of_what_is_not_a_message_are_left_out_like_bodies(
    read: Callable[..., list[tuple[object, ...]]],
) -> None:
    (row,) = read(QUEUE, 2, pulled([of_payload(0, b"hello")]), settings(body=False))
    assert (row[3], row[6]) == (0, None)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_record_behind_the_end_may_be_anything(read: Callable[..., list[tuple[object, ...]]]) -> None:
    for payload in NO_MESSAGES.values():
        pulls = pulled([of_payload(0, with_fields()), of_payload(1, payload)])
        assert len(read(QUEUE, 1, pulls, settings())) == 1


def test_a_record_that_is_not_a_message_does_not_hide_one_of_a_wanted_tag() -> None:
    for payload in NO_MESSAGES.values():
        pulls = pulled([of_payload(0, payload), of_payload(1, with_fields(tags="red"))])
        wanted = settings(tags=frozenset({"red"}))
        assert [row[3] for row in as_rows(list(arrow_batches(QUEUE, 2, pulls, wanted)))] == [1]
        assert [row[3] for row in rows(QUEUE, 2, pulls, wanted)] == [1]


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("left", [[], [0, 1, 2, 4], [1, 2, 3, 4], [0, 1, 2, 3]], ids=str)
def test_records_that_a_broker_left_out_end_a_read_or_are_reported(
    read: Callable[..., list[tuple[object, ...]]], left: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    body = b"".join(of_payload(n, with_fields()) for n in left)
    with pytest.raises(MessagesLost, match=rf"{5 - len(left)} of the messages from offset 0 to before 5 are damaged"):
        read(QUEUE, 9, [PulledRecords(body, 0, 5)], settings())
    assert [row[3] for row in read(QUEUE, 9, [PulledRecords(body, 0, 5)], settings(fails=False))] == left
    assert "are damaged: skipping them" in caplog.text
    # With tags nobody can say what is missing and what was not wanted.
    assert read(QUEUE, 9, [PulledRecords(body, 0, 5)], settings(tags=frozenset({"red"}))) == []


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_is_damaged_behind_the_end_is_not_a_loss_and_what_is_not_a_message_is_reported_once(
    read: Callable[..., list[tuple[object, ...]]], caplog: pytest.LogCaptureFixture
) -> None:
    whole = b"".join(of_payload(n, with_fields()) for n in range(3))
    assert len(read(QUEUE, 3, [PulledRecords(whole, 0, 5)], settings())) == 3
    assert len(read(QUEUE, 9, [PulledRecords(whole + of_payload(3, b"hello"), 0, 4)], settings())) == 4
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not a message" in caplog.text


def test_a_schema_with_a_column_that_is_not_there_is_refused() -> None:
    assert check_schema(StructType([SCHEMA["body"]])).names == ["body"]
    with pytest.raises(ConfigError, match="no column text string: known are topic"):
        check_schema(StructType().add("text", "string"))
    with pytest.raises(ConfigError, match="no column value binary: that is a column of Kafka; use body"):
        check_schema(StructType().add("value", "binary"))
    with pytest.raises(ConfigError, match="no column body string: it is binary"):
        check_schema(StructType().add("body", "string"))


def test_decoding_leaves_no_cycles_behind() -> None:
    # The collector is off while a range is read: cycles would stay until its end.
    found = pulls_of([Message("t", b"x")] * 30)
    list(arrow_batches(QUEUE, 30, found, settings()))
    while gc.collect():  # what earlier tests left may take several rounds
        pass
    for _ in arrow_batches(QUEUE, 30, found, settings()):
        pass
    assert gc.collect() == 0


def test_columns_without_properties_are_made_without_pandas() -> None:
    code = """
import sys
from model.message import Message
from tests.unit.pipeline.source.test_columns import QUEUE, arrow_batches, pulls_of, settings
pulls = pulls_of([Message("t", b"x", tags="red", keys=["k"])] * 3)
print([batch.num_rows for batch in arrow_batches(QUEUE, 9, pulls, settings(properties=False))], "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[3] False\n"
