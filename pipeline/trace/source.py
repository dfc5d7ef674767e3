"""Reads a trace from JSON Lines files, Parquet or the topic SYS_TRACE, and records that topic to Parquet.

All three yield the same table, a row per event with the columns of docs/events.md. A message of SYS_TRACE has
one or more lines, one event each (`model/event_log.py`). A node that receives no answer sends its events again, so an
event may be stored twice; `trace_events` removes duplicates by node, number and time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from model.errors import ConfigError
from model.events import Event
from model.names import TRACE_TOPIC
from pipeline.trace.files import other_lines, read_metadata

_TYPES = {float: DoubleType(), int: LongType(), str: StringType()}
EVENT_SCHEMA = StructType([StructField(name, _TYPES[kind]) for name, kind in get_type_hints(Event).items()])
"""The columns of docs/events.md."""

_IDENTITY = ("node", "seq", "t_ms")


def read_files(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """Read a trace from JSON Lines files, or folders that `record_topic` or another job has written as Parquet.

    Lines that are not events become rows of nulls.

    Raises:
        ConfigError: there is no such file, or a folder is not Parquet with these columns.
    """
    lines = [path for path in paths if not _is_parquet(path)]
    tables = [path for path in paths if _is_parquet(path)]
    for path in paths:
        if not path.exists():
            raise ConfigError(f"there is no trace {path}")
    parts = [_read_parquet(spark, path) for path in tables]
    if lines:
        parts.append(spark.read.schema(EVENT_SCHEMA).json([str(path) for path in lines]))
    read = parts[0]
    for part in parts[1:]:
        read = read.unionByName(part)
    return read


def read_topic(spark: SparkSession, name_servers: str) -> DataFrame:
    """Read the present content of the topic SYS_TRACE of a cluster; name servers are separated by commas.

    The part on an absent broker is not read: `Admin.missing_trace` names it.

    Raises:
        RlabError: the cluster does not answer; raised when the DataFrame is read.
    """
    options = {"nameServer": name_servers, "subscribe": TRACE_TOPIC, "startingOffsets": "earliest"}
    options["failOnDataLoss"] = "false"
    return decode_events(spark.read.format("rlab").options(**options).load())


def record_topic(spark: SparkSession, name_servers: str, table: Path, checkpoint: Path) -> StreamingQuery:
    """Write the topic SYS_TRACE to Parquet continuously, so that the trace of a cluster outlives the topic.

    `read_files` reads the folder `table`, even while it is written. The returned query is stopped with `stop()`, and
    continues if this is called again with the same folders.
    """
    options = {"nameServer": name_servers, "subscribe": TRACE_TOPIC, "startingOffsets": "earliest"}
    events = decode_events(spark.readStream.format("rlab").options(**options).load())
    writer = events.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="1 second").start(str(table))


def decode_events(messages: DataFrame) -> DataFrame:
    """Return the events in the bodies of messages of SYS_TRACE."""
    line = F.explode(F.split(F.col("body").cast("string"), "\n")).alias("line")
    lines = messages.select(line).where(F.length("line") > 0)
    return lines.select(F.from_json("line", EVENT_SCHEMA).alias("event")).select("event.*")


def trace_events(read: DataFrame, group: str | None = None) -> DataFrame:
    """Return the events of a trace from one of the readers, without other lines and without duplicates.

    With a `group`, only its events and events without a group.
    """
    return without_duplicates(events_of(read, group))


def events_of(read: DataFrame, group: str | None = None) -> DataFrame:
    """Do the same as `trace_events`, but keep duplicates."""
    events = read.where(_is_event())
    return events if group is None else events.where(F.col("group").isin(group, ""))


def without_duplicates(events: DataFrame) -> DataFrame:
    """Remove duplicate events."""
    return events.dropDuplicates(list(_IDENTITY))


def may_have_duplicates(events: DataFrame) -> bool:
    """Whether there may be duplicate events; this check costs a tenth of their removal."""
    # It compares hashes: two events with one hash only cause a removal that finds no duplicate.
    hashes = events.select(F.xxhash64(*_IDENTITY).alias("hash")).repartition("hash")
    return hashes.mapInArrow(_repeated, hashes.schema).count() > 0


def _repeated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the hashes that occur more than once in all batches."""
    read = list(batches)
    if read:
        hashes = np.sort(np.concatenate([batch.column(0).to_numpy() for batch in read]))
        yield pa.RecordBatch.from_arrays([pa.array(hashes[1:][hashes[1:] == hashes[:-1]])], ["hash"])


def count_non_events(read: DataFrame) -> int:
    """Count the lines that are not events."""
    return read.where(~_is_event()).count()


def report_non_events(read: DataFrame, progress: Callable[[str], object]) -> None:
    """Call `progress` if lines are skipped because they are not events, e.g. the last line of a process that died."""
    bad = count_non_events(read)
    if bad:
        progress(other_lines(bad))


def _is_event() -> Column:
    # An event has all columns. Spark keeps the columns of a truncated line before the break.
    return reduce(Column.__and__, (F.col(name).isNotNull() for name in Event._fields))


def _is_parquet(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".parquet"


def _read_parquet(spark: SparkSession, path: Path) -> DataFrame:
    if path.is_file():
        read_metadata(path)  # for a broken file Spark would raise an error with a stack of the JVM
    try:
        table = spark.read.parquet(str(path))
        return table.select([F.col(field.name).cast(field.dataType) for field in EVENT_SCHEMA])
    except AnalysisException as error:
        raise ConfigError(f"{path} is not a trace in Parquet: {error.getMessage()}") from error
