"""Encodes rows of a DataFrame as messages, and checks the columns of a sink. Pure.

Arrow's kernels check a whole column at a time; only the packing of a message runs once for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, islice, repeat
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from model.errors import ConfigError, MessageIllegal
from model.limits import MAX_BODY_BYTES, MAX_KEYS, MAX_PAYLOAD_BYTES, MAX_PROPERTIES
from model.message import MAX_DELAY_MS, tag_hash
from pipeline.given_options import column_hint

_TYPES: dict[str, tuple[DataType, ...]] = {
    "body": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "key": (StringType(),),
    "tag": (StringType(),),
    "queue_id": (IntegerType(), LongType()),
    "properties": (MapType(StringType(), StringType()),),
    "delay": (IntegerType(), LongType()),
    "deliver_at": (TimestampType(),),
}
SINK_SCHEMA = StructType([StructField(name, kinds[-1]) for name, kinds in _TYPES.items()])
"""Columns of a table that can only be written, with the wider type: Spark stores the bytes of a binary in a string
column, unchanged, but it stores no string in a binary column.
"""
_SET_BY_BROKERS = ("broker", "offset", "msg_id", "born_ts", "store_ts", "reconsume_times")
"""Columns of the source that a row cannot set."""
CHUNK_OVERHEAD_BYTES = 256
"""Bytes of a chunk beside the message: a topic of at most 127 characters, two numbers, lengths."""

_pack = msgpack.Packer(autoreset=True).pack
_NO_PROPERTIES: dict[str, str] = {}


def check_sink_schema(schema: StructType, *, topic: str | None, needs_queue_id: bool) -> None:
    """Refuse a DataFrame whose columns cannot be sent, before any row is written.

    `topic` is the value of option topic; the partitioner queueId needs column queue_id. An INSERT into a table that can
    also be read has all columns of the source: columns that brokers set have to be null in each row.

    Raises:
        ConfigError: a column is missing, unknown, or has a type that cannot be sent.
    """
    is_of_table = set(_SET_BY_BROKERS).issubset(schema.names)
    for field in schema:
        if is_of_table and field.name in _SET_BY_BROKERS:
            continue
        wanted = _TYPES.get(field.name)
        if wanted is None:
            raise ConfigError(
                f"the rlab sink has no column {field.name!r}: "
                + column_hint(field.name, _TYPES, f"select the columns to send, of {', '.join(_TYPES)}")
            )
        # Not `in`, because `encode` checks whether a map has null values.
        if not any(
            type(field.dataType) is type(one) and field.dataType.simpleString() == one.simpleString() for one in wanted
        ):
            types = " or ".join(one.simpleString() for one in wanted)
            raise ConfigError(
                f"column {field.name!r} is {field.dataType.simpleString()}, and the rlab sink needs {types}: cast it"
            )
    names = schema.names
    if "body" not in names:
        raise ConfigError("the rlab sink needs a column body, string or binary: for example to_json(struct('*'))")
    if topic is None and "topic" not in names:
        raise ConfigError("the rlab sink has no topic: set option topic, or add a column topic")
    if needs_queue_id and "queue_id" not in names:
        raise ConfigError("partitioner queueId needs a column queue_id, int or bigint")


@dataclass(frozen=True, slots=True)
class SinkRows:
    """Rows of one Arrow batch, as lists of the same length."""

    topics: Sequence[str]
    keys: Sequence[str]  # "" for none
    bodies: Sequence[bytes]
    queue_ids: Sequence[int | None] | None  # None without the column
    tag_hashes: Sequence[int]  # see `model.message.tag_hash`
    payloads: Sequence[bytes]  # encoded messages
    delays_ms: Sequence[int]  # 0 for none


class RowEncoder:
    """Encodes the rows of one task.

    A `topic`, from option topic, replaces the column. `id_prefix`, the prefix of message ids, is unique to the task.
    """

    def __init__(self, topic: str | None, id_prefix: str) -> None:
        self._topic = topic
        self._ids = (f"{id_prefix}{number:08x}" for number in count(1))

    def encode(self, batch: pa.RecordBatch, born_ms: int) -> SinkRows:
        """Encode the rows of a batch that has passed `check_sink_schema`; messages are created at `born_ms`.

        Raises:
            MessageIllegal: a row cannot be a message; the text has the reason. No row of the batch should be sent.
        """
        columns = {name: batch.column(number) for number, name in enumerate(batch.schema.names)}
        n = batch.num_rows
        for name in _SET_BY_BROKERS:
            if name in columns and columns[name].null_count < n:
                raise MessageIllegal(
                    f"column {name} has a value in a row, but only brokers set it: name the columns to write, as in "
                    "INSERT INTO t (key, tag, body) SELECT key, tag, body FROM ..."
                )
        topics, bodies = self._topics(columns, n), _bodies(columns["body"])
        keys, tags = _texts(columns.get("key"), n), _texts(columns.get("tag"), n)
        payloads = [
            _pack((topic, body, tag, key, properties, born_ms, message_id))
            for topic, body, tag, key, properties, message_id in zip(
                topics,
                bodies,
                _checked_tags(tags, columns.get("tag")),
                _key_lists(keys) if "key" in columns else repeat(()),
                _properties(columns.get("properties")),
                self._ids_of(n),
                strict=False,
            )
        ]
        _check_payloads(payloads)
        return SinkRows(
            topics=topics,
            keys=keys,
            bodies=bodies,
            queue_ids=_queue_ids(columns.get("queue_id")),
            tag_hashes=[tag_hash(tag) if tag else 0 for tag in tags] if "tag" in columns else [0] * n,
            payloads=payloads,
            delays_ms=_delays(columns.get("delay"), columns.get("deliver_at"), n, born_ms),
        )

    def _topics(self, columns: dict[str, Any], n: int) -> list[str]:
        if self._topic is not None:
            return [self._topic] * n
        column = columns["topic"]
        if column.null_count:
            raise MessageIllegal(
                f"column topic is null in {column.null_count} rows of {n}: set option topic, or filter"
            )
        topics: list[str] = column.to_pylist()
        return topics

    def _ids_of(self, n: int) -> Iterable[str]:
        return islice(self._ids, n)


def _bodies(column: Any) -> list[bytes]:
    if column.null_count:
        raise MessageIllegal(f"column body is null in {column.null_count} rows of {len(column)}: filter or fill them")
    if not pa.types.is_binary(column.type) and not pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())
    if len(column):
        bounds = pc.min_max(pc.binary_length(column)).as_py()
        if bounds["min"] < 1 or bounds["max"] > MAX_BODY_BYTES:
            wrong = bounds["min"] if bounds["min"] < 1 else bounds["max"]
            raise MessageIllegal(f"column body has {wrong} bytes in a row; a message has 1 to {MAX_BODY_BYTES}")
    bodies: list[bytes] = column.to_pylist()
    return bodies


def _texts(column: Any, n: int) -> list[str]:
    """Return a column of strings, with "" for null and for a missing column."""
    if column is None:
        return [""] * n
    texts: list[str] = (column.fill_null("") if column.null_count else column).to_pylist()
    return texts


def _checked_tags(tags: list[str], column: Any) -> list[str]:
    if column is not None and pc.any(pc.match_substring(column, "||")).as_py():
        raise MessageIllegal("column tag has '||' in a row, which separates the tags in a subscription")
    return tags


def _key_lists(texts: list[str]) -> list[list[str]]:
    # The source joins the keys of a message with a space; this splits them again.
    keys = [text.split() for text in texts]
    longest = max(map(len, keys), default=0)
    if longest > MAX_KEYS:
        raise MessageIllegal(f"column key has {longest} keys, separated by spaces, in a row; a message has {MAX_KEYS}")
    return keys


def _properties(column: Any) -> Iterable[dict[str, str]]:
    if column is None:
        return repeat(_NO_PROPERTIES)
    if any(values.null_count for values in (column.keys, column.items)):
        raise MessageIllegal("column properties has a null in a map: a property is a string with a string")
    found = [dict(pairs) if pairs else _NO_PROPERTIES for pairs in column.to_pylist()]
    most = max(map(len, found), default=0)
    if most > MAX_PROPERTIES:
        raise MessageIllegal(f"column properties has {most} properties in a row; a message has {MAX_PROPERTIES}")
    return found


def _queue_ids(column: Any) -> list[int | None] | None:
    """Return the queues that rows name, with None for a row that names no queue; None if no row does."""
    if column is None or column.null_count == len(column):
        return None
    numbers: list[int | None] = column.to_pylist()
    return numbers


def _delays(delay: Any, deliver_at: Any, n: int, now_ms: int) -> list[int]:
    """Return the delay of each row in milliseconds; 0 for a time in the past."""
    waits: list[int] = [0] * n
    if delay is not None and delay.null_count < n:
        waits = delay.fill_null(0).to_pylist()
    if deliver_at is not None and deliver_at.null_count < n:
        times: list[int | None] = deliver_at.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
        if any(wait and time is not None for wait, time in zip(waits, times, strict=True)):
            raise MessageIllegal("columns delay and deliver_at both have a value in a row: one of them has to be null")
        waits = [
            wait if time is None else max(0, time // 1000 - now_ms) for wait, time in zip(waits, times, strict=True)
        ]
    least, most = min(waits, default=0), max(waits, default=0)
    if least < 0 or most > MAX_DELAY_MS:
        wrong = least if least < 0 else most
        raise MessageIllegal(f"a row has a delay of {wrong} ms; it may be 0 to {MAX_DELAY_MS}, 40 days")
    return waits


def _check_payloads(payloads: list[bytes]) -> None:
    longest = max(map(len, payloads), default=0)
    if longest > MAX_PAYLOAD_BYTES - CHUNK_OVERHEAD_BYTES:
        raise MessageIllegal(
            f"a row is a message of {longest} bytes, more than {MAX_PAYLOAD_BYTES - CHUNK_OVERHEAD_BYTES}: split it, "
            "or send a reference"
        )
