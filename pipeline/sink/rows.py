"""Encodes rows of a DataFrame as messages, and checks the columns of a sink. Pure.

Whole columns are checked and packed (`packing.py`). Two things are packed row by row: the properties of the rows that
have some, and the keys of a batch in which a key is not one word of ASCII.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
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

from model.counted import plural
from model.errors import ConfigError, MessageIllegal
from model.limits import MAX_BODY_BYTES, MAX_KEYS, MAX_PAYLOAD_BYTES, MAX_PROPERTIES
from model.message import MAX_DELAY_MS, tag_hash
from pipeline.arrow_arrays import as_numpy, binaries, bits
from pipeline.given_options import column_hint
from pipeline.sink.packing import (
    binary_heads,
    concat_columns,
    constant,
    hex_numbers,
    lengths_of,
    offsets_of,
    text_heads,
)

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

_ID_DIGITS = 8
_MAX_PIECE_BYTES = 2**30
"""Size of a batch that is encoded at once: a column of Arrow has at most 2 GiB."""

_LAST_ASCII = 0x7F

_pack = msgpack.Packer(autoreset=True).pack
_SEVEN_FIELDS = b"\x97"
_NO_KEYS, _ONE_KEY, _NO_TAG, _NO_PROPERTIES = b"\x90", b"\x91", b"\xa0", b"\x80"


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
        types_allowed = _TYPES.get(field.name)
        if types_allowed is None:
            raise ConfigError(
                f"the rlab sink has no column {field.name!r}: "
                + column_hint(field.name, _TYPES, f"select the columns to send, of {', '.join(_TYPES)}")
            )
        # Not `in`, because `encode` checks whether a map has null values.
        if not any(
            type(field.dataType) is type(allowed) and field.dataType.simpleString() == allowed.simpleString()
            for allowed in types_allowed
        ):
            types = " or ".join(allowed.simpleString() for allowed in types_allowed)
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
    """Rows of one topic, as columns of the same length."""

    payloads: pa.Array  # encoded messages
    tag_hashes: Any  # 32-bit numbers of numpy; see `model.message.tag_hash`
    keys: Sequence[bytes] | None  # b"" for none; None if no row has a key
    bodies: pa.Array
    queue_ids: Sequence[int | None] | None  # None if no row names a queue
    delays_ms: Sequence[int] | None  # 0 for none; None if no row has a delay


def by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Divide a batch by the topics of its rows, in pieces that can be encoded; a `topic` replaces the column.

    Raises:
        MessageIllegal: a row has no topic.
    """
    if batch.num_rows > 1 and batch.nbytes > _MAX_PIECE_BYTES:
        half = batch.num_rows // 2
        yield from by_topic(batch.slice(0, half), topic)
        yield from by_topic(batch.slice(half), topic)
    elif topic is not None:
        yield topic, batch
    else:
        column = batch.column("topic")
        if column.null_count:
            n = len(column)
            raise MessageIllegal(
                f"column topic is null in {plural(column.null_count, 'row')} of {n}: set option topic, or filter"
            )
        topics = column.unique()
        for number, name in enumerate(topics.to_pylist()):
            yield name, batch if len(topics) == 1 else batch.filter(pc.equal(column, topics[number]))


class RowEncoder:
    """Encodes the rows of one task. `id_prefix`, the prefix of message ids, is unique to the task."""

    def __init__(self, id_prefix: str) -> None:
        self._id_start = _pack(id_prefix + "0" * _ID_DIGITS)[:-_ID_DIGITS]
        self._next_id = 1

    def encode(self, topic: str, batch: pa.RecordBatch, born_ms: int) -> SinkRows:
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
        bodies = _bodies(columns["body"])
        keys, tags = _filled(columns.get("key")), _filled(columns.get("tag"))
        payloads = concat_columns(
            constant(_SEVEN_FIELDS + _pack(topic)),
            binary_heads(lengths_of(bodies)),
            bodies,
            *_packed_tags(tags),
            *_packed_keys(keys),
            _packed_properties(columns.get("properties")),
            constant(_pack(born_ms) + self._id_start),
            hex_numbers(self._next_id, n, _ID_DIGITS),
        )
        self._next_id += n
        _check_payloads(payloads)
        return SinkRows(
            payloads=payloads,
            tag_hashes=np.zeros(n, np.int32) if tags is None else _tag_hashes(tags),
            keys=None if keys is None else keys.to_pylist(),
            bodies=bodies,
            queue_ids=_queue_ids(columns.get("queue_id")),
            delays_ms=_delays(columns.get("delay"), columns.get("deliver_at"), n, born_ms),
        )


def _bodies(column: Any) -> pa.Array:
    if column.null_count:
        raise MessageIllegal(
            f"column body is null in {plural(column.null_count, 'row')} of {len(column)}: filter or fill"
        )
    column = column.cast(pa.binary())
    if len(column):
        lengths = lengths_of(column)
        if lengths.min() < 1 or lengths.max() > MAX_BODY_BYTES:
            wrong = lengths.min() if lengths.min() < 1 else lengths.max()
            raise MessageIllegal(f"column body has {wrong} bytes in a row; a message has 1 to {MAX_BODY_BYTES}")
    return column


def _filled(column: Any) -> pa.Array | None:
    """Return a column of strings as byte strings, with b"" for null; None if every row is null."""
    if column is None or column.null_count == len(column):
        return None
    column = column.cast(pa.binary())
    return column.fill_null(constant(b"")) if column.null_count else column


def _packed_tags(tags: pa.Array | None) -> list[pa.Array | pa.Scalar]:
    if tags is None:
        return [constant(_NO_TAG)]
    if pc.any(pc.match_substring(tags, "||")).as_py():
        raise MessageIllegal("column tag has '||' in a row, which separates the tags in a subscription")
    return [text_heads(lengths_of(tags)), tags]


def _tag_hashes(tags: pa.Array) -> Any:
    encoded = tags.dictionary_encode()
    hashes = [tag_hash(tag.decode()) if tag else 0 for tag in encoded.dictionary.to_pylist()]
    return np.array(hashes, np.int32)[as_numpy(encoded.indices)]


def _packed_keys(keys: pa.Array | None) -> list[pa.Array | pa.Scalar]:
    if keys is None:
        return [constant(_NO_KEYS)]
    # Python also splits at some characters beyond ASCII.
    offsets, used = offsets_of(keys), np.frombuffer(keys.buffers()[2], np.uint8)
    used = used[offsets[0] : offsets[-1]]
    if ((used <= ord(" ")) | (used > _LAST_ASCII)).any():
        return [_packed_key_lists(keys.to_pylist())]
    lengths = lengths_of(keys)
    has_key = pa.Array.from_buffers(pa.bool_(), len(keys), [None, bits(lengths > 0)])
    heads = concat_columns(constant(_ONE_KEY), text_heads(lengths))
    return [pc.if_else(has_key, heads, constant(_NO_KEYS)), keys]


def _packed_key_lists(texts: list[bytes]) -> pa.Array:
    # The source joins the keys of a message with a space; this splits them again.
    keys = [text.decode().split() for text in texts]
    longest = max(map(len, keys), default=0)
    if longest > MAX_KEYS:
        raise MessageIllegal(f"column key has {longest} keys, separated by spaces, in a row; a message has {MAX_KEYS}")
    return binaries([_pack(each) for each in keys])


def _packed_properties(column: Any) -> pa.Array | pa.Scalar:
    if column is None or column.null_count == len(column):
        return constant(_NO_PROPERTIES)
    if any(values.null_count for values in (column.keys, column.items)):
        raise MessageIllegal("column properties has a null in a map: a property is a string with a string")
    numbers = np.diff(as_numpy(column.offsets))
    if not numbers.any():
        return constant(_NO_PROPERTIES)
    if numbers.max() > MAX_PROPERTIES:
        raise MessageIllegal(
            f"column properties has {numbers.max()} properties in a row; a message has {MAX_PROPERTIES}"
        )
    packed = [_NO_PROPERTIES] * len(column)
    for row in np.flatnonzero(numbers).tolist():
        packed[row] = _pack(dict(column[row].as_py() or ()))
    return binaries(packed)


def _queue_ids(column: Any) -> list[int | None] | None:
    """Return the queues that rows name, with None for a row that names no queue; None if no row does."""
    if column is None or column.null_count == len(column):
        return None
    numbers: list[int | None] = column.to_pylist()
    return numbers


def _delays(delay: Any, deliver_at: Any, n: int, now_ms: int) -> list[int] | None:
    """Return the delay of each row in milliseconds; 0 for a time in the past. None if no row has one."""
    if all(column is None or column.null_count == n for column in (delay, deliver_at)):
        return None
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
    min_delay, max_delay = min(waits, default=0), max(waits, default=0)
    if min_delay < 0 or max_delay > MAX_DELAY_MS:
        wrong = min_delay if min_delay < 0 else max_delay
        raise MessageIllegal(f"a row has a delay of {wrong} ms; it may be 0 to {MAX_DELAY_MS}, 40 days")
    return waits


def _check_payloads(payloads: pa.Array) -> None:
    longest = int(lengths_of(payloads).max(initial=0))
    if longest > MAX_PAYLOAD_BYTES - CHUNK_OVERHEAD_BYTES:
        raise MessageIllegal(
            f"a row is a message of {longest} bytes, more than {MAX_PAYLOAD_BYTES - CHUNK_OVERHEAD_BYTES}: split it, "
            "or send a reference"
        )
