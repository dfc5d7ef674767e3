"""Decodes pulled records to Arrow columns: the hot path of every read.

If all messages of a batch have the usual form, `located.py` finds their fields without decoding. Otherwise columns are
built from whole lists: one msgpack unpacker reads a pull's body and returns, per record, its binary header as bytes and
its payload as a tuple; numpy decodes the headers of many records in one step, and `zip(*payloads)` converts the
payloads to columns. Rows, one tuple per message, would take twice as long.

A broker does not decode payloads, so any client can store a record that is not a message. Such a record becomes a row
with its queue and offset, its bytes as `body`, and null in the other columns, so no data is lost silently and the read
continues. There is no search for such records in advance: the step that decodes thousands at once fails, and only then
they are searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from model.decode import decode_or_keep
from model.errors import ConfigError
from model.message_queue import MessageQueue
from model.record import iter_records
from pipeline.arrow_arrays import as_numpy, binaries, numbers, repeat_text, texts
from pipeline.given_options import column_hint
from pipeline.source.located import (
    LocatedFields,
    gather_field,
    gather_text,
    joined_pulls,
    locate_fields,
    read_headers,
    record_starts,
)
from pipeline.source.options import SourceOptions
from pipeline.source.queue_reader import PulledRecords
from pipeline.source.records import HEADER_FIELDS, OFFSET_AT, Records, add_records, report_no_message

MAX_BATCH_ROWS = 8_192
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Limits of one Arrow batch; each batch costs Spark about a millisecond."""

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("broker", StringType()),
        StructField("queue_id", IntegerType()),
        StructField("offset", LongType()),
        StructField("key", StringType()),
        StructField("tag", StringType()),
        StructField("body", BinaryType()),
        StructField("msg_id", StringType()),
        StructField("born_ts", TimestampType()),
        StructField("store_ts", TimestampType()),
        StructField("reconsume_times", IntegerType()),
        StructField("properties", MapType(StringType(), StringType())),
    ]
)
"""Columns of the source. Every column may be null, so that a schema as text, `body binary`, is a part of it."""

_TOPIC, _BODY, _TAGS, _KEYS, _PROPERTIES, _BORN_MS, _MESSAGE_ID = range(7)
_PAYLOAD_FIELDS = 7
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, the range of Python's dates. A producer's clock may be wrong: a time outside becomes null."""
UNFIT = (ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException)
"""Errors of Python, numpy and Arrow for a payload without the fields of a message."""


def check_schema(schema: StructType) -> StructType:
    """Return a schema if it consists of columns of the source.

    Raises:
        ConfigError: a column has another name or type; the text names it.
    """
    types = {field.name: field.dataType for field in SCHEMA}
    for field in schema:
        if types.get(field.name) != field.dataType:
            own_type, all_known = types.get(field.name), f"known are {', '.join(types)}"
            why = (
                f"it is {own_type.simpleString()}"
                if own_type is not None
                else column_hint(field.name, types, all_known)
            )
            raise ConfigError(f"the rlab source has no column {field.name} {field.dataType.simpleString()}: {why}")
    return schema


# --- columns ---------------------------------------------------------------------------------------------------------


def arrow_batches(
    queue: MessageQueue, end: int, pulls: Iterable[PulledRecords], options: SourceOptions, schema: StructType = SCHEMA
) -> Iterator[pa.RecordBatch]:
    """Decode pulls of a queue, in order, to Arrow batches of a few thousand rows, without messages from `end` on.

    Raises:
        RecordCorrupt: a body is not whole records.
        MessagesLost: a record is damaged, and `fail_on_data_loss` is set.
    """
    # Spark compares the first batch with exactly this schema: order, nullability, zone, width, map types.
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    waiting: list[PulledRecords] = []
    starts: list[Any] = []
    for pulled in pulls:
        waiting.append(pulled)
        starts.append(record_starts(pulled.body))
        rows = sum(len(begins) for begins in starts if begins is not None)
        if rows >= MAX_BATCH_ROWS or sum(len(each.body) for each in waiting) >= MAX_BATCH_BYTES:
            yield from _batch_of(queue, end, waiting, starts, options, arrow_schema)
            waiting, starts = [], []
    yield from _batch_of(queue, end, waiting, starts, options, arrow_schema)


def _batch_of(
    queue: MessageQueue,
    end: int,
    pulls: list[PulledRecords],
    starts: list[Any],
    options: SourceOptions,
    schema: pa.Schema,
) -> list[pa.RecordBatch]:
    """Return one batch of some pulls, or none if no record is wanted."""
    usual = _usual_batch(queue, end, pulls, starts, options, schema)
    if usual is not None:
        return usual
    records = Records([], [], [])
    for pulled in pulls:
        add_records(queue, end, pulled, records, options)
    return _batch(queue, end, records, options, schema)


def _usual_batch(
    queue: MessageQueue,
    end: int,
    pulls: list[PulledRecords],
    starts: list[Any],
    options: SourceOptions,
    schema: pa.Schema,
) -> list[pa.RecordBatch] | None:
    """Return the same from messages of the usual form; None if one has another form, or a pull lacks a record."""
    if not pulls:
        return []
    if any(begins is None for begins in starts):
        return None
    lacks = any(len(begins) < pulled.end - pulled.start for pulled, begins in zip(pulls, starts, strict=True))
    if lacks and not options.is_filtered:
        return None
    data, begins = joined_pulls([pulled.body for pulled in pulls], starts)
    headers = read_headers(data, begins, HEADER_FIELDS)
    n_wanted = int(np.searchsorted(headers["offset"].astype(np.int64), end))
    if not n_wanted:
        return []
    located = locate_fields(data, begins[:n_wanted], headers[:n_wanted])
    if located is not None and options.tags is not None:
        located = _with_tags(located, options.tags)
    if located is None:
        return None
    if not len(located.headers):
        return []
    makers = _makers(queue, located.headers, (), options, optional=False) | _located_makers(located, options)
    arrays = [makers[field.name]() for field in schema]
    return None if any(array is None for array in arrays) else [pa.RecordBatch.from_arrays(arrays, schema=schema)]


def _with_tags(located: LocatedFields, tags: frozenset[str]) -> LocatedFields | None:
    """Return the messages of these tags; None if a tag is not UTF-8. Brokers compare only the hashes of tags."""
    of_messages = gather_text(located.data, located.tag, is_nullable=False)
    if of_messages is None:
        return None
    is_wanted = as_numpy(pc.is_in(of_messages, value_set=texts(sorted(tags))))
    return located if is_wanted.all() else located.only(is_wanted)


def _located_makers(located: LocatedFields, options: SourceOptions) -> dict[str, Callable[[], pa.Array | None]]:
    """Like `_makers`, for the columns of a payload; a maker returns None if it finds text that is not UTF-8."""
    n = len(located.headers)
    return {
        "key": lambda: gather_text(located.keys_data, located.key, is_nullable=True),
        "tag": lambda: gather_text(located.data, located.tag, is_nullable=True),
        "body": lambda: gather_field(located.data, located.body) if options.include_body else pa.nulls(n, pa.binary()),
        "msg_id": lambda: gather_text(located.data, located.message_id, is_nullable=False),
        "born_ts": lambda: _timestamps(located.born_ms),
        "properties": lambda: _located_properties(located, options),
    }


def _located_properties(located: LocatedFields, options: SourceOptions) -> pa.Array | None:
    """Return the maps of the properties; None if a message has a property twice, of which a map has the last."""
    kind, counts = pa.map_(pa.string(), pa.string()), located.properties.counts
    if not options.include_properties:
        return pa.nulls(len(counts), kind)
    if not counts.any():
        names = values = texts(())
    else:
        names, values = (
            gather_text(located.data, field, is_nullable=False)
            for field in (located.properties.names, located.properties.values)
        )
    if names is None or values is None:
        return None
    if counts.max(initial=0) > 1:
        owners = np.repeat(np.arange(len(counts)), counts).tolist()
        if len(set(zip(owners, names.to_pylist(), strict=True))) < len(owners):
            return None
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    return pa.MapArray.from_arrays(numbers(bounds, pa.int32()), names, values)


def _batch(
    queue: MessageQueue, end: int, records: Records, options: SourceOptions, schema: pa.Schema
) -> list[pa.RecordBatch]:
    try:
        return _build(queue, end, records, options, schema)
    except UNFIT:
        stored = [
            (record.payload, reason)
            for body in records.bodies
            for record, (_, reason) in zip(iter_records(body), decode_or_keep(queue, body), strict=True)
        ]
        _replace_unfit(queue, end, records, stored, options, schema)
        return _build(queue, end, records, options, schema, optional=True)


def _replace_unfit(
    queue: MessageQueue,
    end: int,
    records: Records,
    stored: list[tuple[bytes, str]],
    options: SourceOptions,
    schema: pa.Schema,
) -> None:
    """Replace the payloads that are not messages, found by bisection, by fields with only their bytes.

    `stored` has the payloads as they were stored, and the fault of each, from `decode_or_keep`.
    """
    parts = [(0, len(stored))]
    while parts:
        first, stop = parts.pop()
        try:
            _build(queue, end, Records(records.headers[first:stop], records.payloads[first:stop], []), options, schema)
        except UNFIT as error:
            if stop - first > 1:
                half = (first + stop) // 2
                parts += [(half, stop), (first, half)]
                continue
            payload, reason = stored[first]
            records.payloads[first] = (queue.topic, payload, "", (), None, None, None)
            offset = int.from_bytes(records.headers[first][OFFSET_AT : OFFSET_AT + 8], "big")
            if offset < end:
                report_no_message(queue, offset, reason or error, options)


def _build(
    queue: MessageQueue,
    end: int,
    records: Records,
    options: SourceOptions,
    schema: pa.Schema,
    *,
    optional: bool = False,
) -> list[pa.RecordBatch]:
    """Return one batch, or none if no record is wanted; raises an error of `UNFIT` if a payload is not a message.

    With `optional`, the fields of a message may be None.
    """
    if not records.headers:
        return []
    if options.tags is not None or records.numbers()["offset"][-1] >= end:
        records = _only(records, end, options.tags)
        if not records.headers:
            return []
    headers, columns = records.numbers(), list(zip(*records.payloads, strict=True))
    if len(columns) != _PAYLOAD_FIELDS:
        raise ValueError(f"they are {len(columns)} instead of {_PAYLOAD_FIELDS}")
    makers = _makers(queue, headers, columns, options, optional=optional)
    return [pa.RecordBatch.from_arrays([makers[field.name]() for field in schema], schema=schema)]


def _only(records: Records, end: int, tags: frozenset[str] | None) -> Records:
    """Return the records of these tags before the end; a pull may pass the end if the broker skips other tags."""
    offsets = records.numbers()["offset"].tolist()
    kept = [
        (header, payload)
        for header, payload, offset in zip(records.headers, records.payloads, offsets, strict=True)
        if offset < end and (tags is None or payload[_TAGS] in tags)
    ]
    return Records([header for header, _ in kept], [payload for _, payload in kept], [])


def _bodies(values: Sequence[bytes], include: bool) -> pa.Array:
    return binaries(values) if include else pa.nulls(len(values), pa.binary())


def _ids(values: Sequence[Any], optional: bool) -> pa.Array:
    if not optional:
        return texts(values)
    return texts([value or "" for value in values], [value is not None for value in values])


def _born(values: Sequence[Any], optional: bool) -> pa.Array:
    if optional:
        values = [_LAST_MS + 1 if value is None else value for value in values]
    if not {int}.issuperset(map(type, values)):  # numpy would convert 1.5 to 1
        raise TypeError("born_ms is not in whole milliseconds")
    try:
        return _timestamps(np.fromiter(values, np.int64, len(values)))
    except OverflowError:
        near = [min(max(value, _FIRST_MS - 1), _LAST_MS + 1) for value in values]
        return _timestamps(np.fromiter(near, np.int64, len(values)))


def _stored(values: Any) -> pa.Array:
    # As unsigned numbers, because the highest ones would otherwise be times before 1970.
    return _timestamps(np.minimum(values, np.uint64(_LAST_MS + 1)).astype(np.int64))


def _timestamps(milliseconds: Any) -> pa.Array:
    """Make an array of times; null outside of the range of dates."""
    is_valid = (milliseconds >= _FIRST_MS) & (milliseconds <= _LAST_MS)
    if is_valid.all():
        return numbers(milliseconds * 1000, pa.timestamp("us", tz="UTC"))
    return numbers(np.where(is_valid, milliseconds, 0) * 1000, pa.timestamp("us", tz="UTC"), is_valid.tolist())


def _tags(values: Sequence[str]) -> pa.Array:
    if not "".join(values):
        return pa.nulls(len(values), pa.string())
    return texts(values, map(bool, values))


def _keys(values: Sequence[Sequence[str]]) -> pa.Array:
    if not any(values):
        return pa.nulls(len(values), pa.string())
    return texts([" ".join(keys) for keys in values], map(bool, values))


def _properties(values: Sequence[Any], include: bool, optional: bool) -> pa.Array:
    kind = pa.map_(pa.string(), pa.string())
    if not include:
        return pa.nulls(len(values), kind)
    return pa.array([None if optional and value is None else list(dict.items(value)) for value in values], kind)


def _makers(
    queue: MessageQueue, headers: Any, columns: Sequence[Sequence[Any]], options: SourceOptions, *, optional: bool
) -> dict[str, Callable[[], pa.Array]]:
    """Column of `SCHEMA` -> function that makes its array from the records of a queue, if the schema has it."""
    n = len(headers)
    return {
        "topic": lambda: repeat_text(queue.topic, n),
        "broker": lambda: repeat_text(queue.broker_name, n),
        "queue_id": lambda: numbers(np.full(n, queue.queue_id, np.int32), pa.int32()),
        "offset": lambda: numbers(headers["offset"].astype(np.int64), pa.int64()),
        "key": lambda: _keys(columns[_KEYS]),
        "tag": lambda: _tags(columns[_TAGS]),
        "body": lambda: _bodies(columns[_BODY], options.include_body),
        "msg_id": lambda: _ids(columns[_MESSAGE_ID], optional),
        "born_ts": lambda: _born(columns[_BORN_MS], optional),
        "store_ts": lambda: _stored(headers["stored_ms"]),
        "reconsume_times": lambda: numbers(headers["times_delivered"].astype(np.int32), pa.int32()),
        "properties": lambda: _properties(columns[_PROPERTIES], options.include_properties, optional),
    }
