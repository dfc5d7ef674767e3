"""`format("rlab")`: topics as DataFrames, to read and to write, as batches and as streams.

    spark.read.format("rlab").option("nameServer", "127.0.0.1:9876").option("subscribe", "orders").load()

docs/spark-source.md and docs/spark-sink.md list the options.

Spark makes these objects in processes of its own, pickles readers and writers, and calls `reader` and `streamReader` by
keyword, so their parameter is named `schema` whether it is used or not.
"""

from __future__ import annotations

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
from pipeline.source.columns import SCHEMA, check_schema
from pipeline.source.options import parse_options
from pipeline.source.reader import BatchReader, PushingReader
from pipeline.source.stream import RefusedStream, StreamReader

if TYPE_CHECKING:
    from pipeline.sink.options import SinkOptions


class RlabDataSource(DataSource):
    """Topics of a cluster, for `spark.read` and `spark.readStream`."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "rlab"

    def schema(self) -> StructType:
        """All columns; see `pipeline/source/columns.py`. Spark asks for them in `load()`.

        Options that neither kind of read takes are refused then: later, the error of a stream is that of its query.
        Without any option this is the schema of a table in SQL, whose options come with its reads.
        """
        if self.options:
            try:
                parse_options(self.options, streaming=False)
            except ConfigError:
                parse_options(self.options, streaming=True)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch."""
        options = parse_options(self.options, streaming=False)
        # Two classes, because in pyspark 4.3 a reader with `pushFilters` fails unless a setting of the session, which
        # is off by default, allows it.
        kind = PushingReader if options.filter_pushdown else BatchReader
        return kind(options, check_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the reader of a stream.

        If that is refused, it is a reader that raises the error when it is used: pyspark 4.3 answers one that is raised
        here with an UnboundLocalError of its own.
        """
        try:
            return StreamReader(parse_options(self.options, streaming=True), check_schema(schema))
        except ConfigError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the writer of a batch."""
        if overwrite:
            raise ConfigError("a topic cannot be overwritten, only appended to: use mode('append')")
        # Imported late, as all of the sink: the processes that Spark starts for a read do not need it.
        from pipeline.sink.writer import BatchSink, check_topic_exists  # noqa: PLC0415

        options = self._sink_options(schema)
        check_topic_exists(options)
        return BatchSink(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Make the writer of a stream."""
        from pipeline.sink.writer import StreamSink  # noqa: PLC0415

        return StreamSink(self._sink_options(schema))

    def _sink_options(self, schema: StructType) -> SinkOptions:
        from pipeline.sink.options import Partitioning, parse_sink_options  # noqa: PLC0415
        from pipeline.sink.rows import check_sink_schema  # noqa: PLC0415

        options = parse_sink_options(self.options)
        needs_queue_id = options.partitioning is Partitioning.QUEUE_ID
        check_sink_schema(schema, topic=options.topic, needs_queue_id=needs_queue_id)
        return options
