"""`format("rlab")`: topics as DataFrames, to read and to write, as batches and as streams.

    spark.read.format("rlab").option("nameServer", "127.0.0.1:9876").option("subscribe", "orders").load()

docs/spark-source.md and docs/spark-sink.md list the options.

A table in SQL, `CREATE TABLE orders USING rlab OPTIONS (...)`, has its options in its schema: see `tables.py`.

Spark creates these objects in its own processes, pickles readers and writers, and calls `reader` and `streamReader` by
keyword, so their parameter is named `schema` even if it is unused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from model.errors import ConfigError
from pipeline.given_options import GivenOptions
from pipeline.source.columns import SCHEMA, check_schema
from pipeline.source.options import OPTIONS, SELECTIONS, SourceOptions, parse_options
from pipeline.source.reader import BatchReader, PushingReader
from pipeline.source.stream import RefusedStream, StreamReader
from pipeline.tables import options_of_create, options_with, schema_with

if TYPE_CHECKING:
    from pipeline.sink.options import SinkOptions


logger = logging.getLogger(__name__)


class RlabDataSource(DataSource):
    """Topics of a cluster, for `spark.read` and `spark.readStream`."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "rlab"

    def schema(self) -> StructType:
        """Return all columns; see `pipeline/source/columns.py`. Spark calls this in `load()`.

        Options that neither kind of read has are refused here, because a later error of a stream would fail its query.
        Spark also calls this when a table is created in SQL; a table without options gets them in each statement.
        """
        of_table = options_of_create(self.options)
        if of_table is not None:
            return _schema_of_table(of_table)
        if self.options:
            _check_read(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch."""
        options = self._source_options(schema, streaming=False)
        # Two classes, because in pyspark 4.3 a reader with `pushFilters` fails unless a session setting, which is off
        # by default, allows it.
        kind = PushingReader if options.filter_pushdown else BatchReader
        return kind(options, check_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the reader of a stream.

        If the options are refused, the returned reader raises the error when it is used, because pyspark 4.3 replaces
        an error that is raised here by an UnboundLocalError.
        """
        try:
            return StreamReader(self._source_options(schema, streaming=True), check_schema(schema))
        except ConfigError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the writer of a batch."""
        if overwrite:
            raise ConfigError("a topic cannot be overwritten, only appended to: use mode('append')")
        # Imported late, like the whole sink: the processes that Spark starts for a read do not need it.
        from pipeline.sink.options import SINK_OPTIONS  # noqa: PLC0415
        from pipeline.sink.writer import BatchSink, check_topic_exists  # noqa: PLC0415

        options = self._sink_options(options_with(self.options, schema, SINK_OPTIONS), schema)
        check_topic_exists(options)
        return BatchSink(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Make the writer of a stream."""
        from pipeline.sink.writer import StreamSink  # noqa: PLC0415

        if "nameserver" not in {name.lower() for name in self.options}:
            raise ConfigError(
                "option nameServer is missing. The options of a table are not used here, because Spark passes its "
                "schema to no stream that writes: use writeStream.format('rlab') and options, or pass them to toTable"
            )
        return StreamSink(self._sink_options(self.options, schema))

    def _source_options(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        options = options_with(self.options, schema, OPTIONS, SELECTIONS)
        if not options:
            raise ConfigError(
                "the rlab source got no options. Give them when the table is created, CREATE TABLE t USING rlab "
                "OPTIONS (nameServer '...', subscribe '...') without columns, or in each read: FROM t WITH (nameServer "
                "= '...', subscribe = '...')"
            )
        if "usearrow" in {name.lower() for name in options}:
            logger.warning("option useArrow has no effect, because messages are always passed to Spark as columns")
        return parse_options(options, streaming=streaming)

    def _sink_options(self, options_given: Mapping[str, str], schema: StructType) -> SinkOptions:
        from pipeline.sink.options import Partitioning, parse_sink_options  # noqa: PLC0415
        from pipeline.sink.rows import check_sink_schema  # noqa: PLC0415

        options = parse_sink_options(options_given)
        needs_queue_id = options.partitioning is Partitioning.QUEUE_ID
        check_sink_schema(schema, topic=options.topic, needs_queue_id=needs_queue_id)
        return options


def _check_read(options: Mapping[str, str]) -> None:
    """Refuse options that neither a batch nor a stream has."""
    try:
        parse_options(options, streaming=False)
    except ConfigError:
        parse_options(options, streaming=True)


def _schema_of_table(table_options: Mapping[str, str]) -> StructType:
    """Return the columns of a table with these options: the sink's columns if it can only be written."""
    from pipeline.sink.options import SINK_OPTIONS, parse_sink_options  # noqa: PLC0415
    from pipeline.sink.rows import SINK_SCHEMA  # noqa: PLC0415

    GivenOptions(table_options, list(dict.fromkeys((*OPTIONS, *SINK_OPTIONS))), "table")
    of_source = options_with({}, schema_with(SCHEMA, table_options), OPTIONS)
    of_sink = options_with({}, schema_with(SCHEMA, table_options), SINK_OPTIONS)
    reads, writes = len(of_source) > 1, "topic" in of_sink
    if reads:
        _check_read(of_source)
    if len(of_sink) > 1:
        parse_sink_options(of_sink)
    return schema_with(SINK_SCHEMA if writes and not reads else SCHEMA, table_options) if table_options else SCHEMA
