"""`format("rlab")`: topics as DataFrames. The data source, and its batch reader.

    spark.read.format("rlab").option("nameServer", "127.0.0.1:9876").option("subscribe", "orders").load()

The options stand in docs/pipeline.md, the stream in `pipeline/source/stream.py`.

Nothing here joins a group or takes a lock: a read must not cause the rebalances that it may be there to study. Spark
makes these objects in processes of its own, pickles readers, and calls `reader` and `streamReader` by keyword, so the
parameter is `schema` whether it is used or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from model.errors import ConfigError
from pipeline.source.columns import SCHEMA, check_schema
from pipeline.source.offsets import Range, queues_to_text, to_text
from pipeline.source.options import SourceOptions, parse_options
from pipeline.source.planner import Planner
from pipeline.source.pushdown import Narrowing, narrow
from pipeline.source.queue_reader import HINT, MessagesLost
from pipeline.source.ranges import open_client, plan_tasks, read_ranges
from pipeline.source.stream import StreamReader

if TYPE_CHECKING:
    from pipeline.sink.options import SinkOptions

_SELECTIONS = ("subscribe", "subscribePattern", "assign")
_POSITIONS = ("startingTimestamp", "endingTimestamp", "startingOffsets", "endingOffsets")
_RESOLVED = frozenset(name.lower() for name in (*_SELECTIONS, *_POSITIONS))
"""Options that `resolve_offsets` replaces, as Spark compares names."""


class RlabDataSource(DataSource):
    """Topics of a cluster, for `spark.read` and `spark.readStream`."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "rlab"

    def schema(self) -> StructType:
        """All columns; see `pipeline/source/columns.py`."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch.

        Raises:
            ConfigError: an option or a column is wrong.
        """
        options = parse_options(self.options, streaming=False)
        # Two classes, because in pyspark 4.3 a reader that has `pushFilters` fails unless a setting of the session,
        # which is off by default, allows it.
        kind = PushingReader if options.filter_pushdown else BatchReader
        return kind(options, check_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the reader of a stream.

        Raises:
            ConfigError: an option or a column is wrong.
        """
        return StreamReader(parse_options(self.options, streaming=True), check_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the writer of a batch.

        Raises:
            ConfigError: an option or a column is wrong, or the topic does not exist.
        """
        if overwrite:
            raise ConfigError("a topic cannot be overwritten, only appended to: use mode('append')")
        # Late, as all of the sink: the processes that Spark starts for a read have no use for it, and wait for it.
        from pipeline.sink.writer import BatchSink, check_topic_exists  # noqa: PLC0415

        options = self._sink_options(schema)
        check_topic_exists(options)
        return BatchSink(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Make the writer of a stream.

        Raises:
            ConfigError: an option or a column is wrong.
        """
        from pipeline.sink.writer import StreamSink  # noqa: PLC0415

        return StreamSink(self._sink_options(schema))

    def _sink_options(self, schema: StructType) -> SinkOptions:
        from pipeline.sink.options import Partitioning, parse_sink_options  # noqa: PLC0415
        from pipeline.sink.rows import check_sink_schema  # noqa: PLC0415

        options = parse_sink_options(self.options)
        needs_queue_id = options.partitioning is Partitioning.QUEUE_ID
        check_sink_schema(schema, topic=options.topic, needs_queue_id=needs_queue_id)
        return options


class BatchReader(DataSourceReader):
    """Reads what lies between two positions.

    They are found out at the first action of a DataFrame, and Spark keeps the plan as long as that lives. Two that have
    to agree get their options from `resolve_offsets`.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks.

        Raises:
            RlabError: the cluster does not answer, or an option names what it does not have.
        """
        with open_client(self._options) as client:
            ranges = self._narrow(batch_ranges(Planner(client, self._options), self._options))
        return plan_tasks(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the ranges of a task, on an executor."""
        return read_ranges(partition, self._options, self._schema)

    def _narrow(self, ranges: list[Range]) -> list[Range]:
        return ranges


class PushingReader(BatchReader):
    """A reader that takes filters from Spark, so that what they refuse is not read.

    Only for a DataFrame that serves one query: pyspark 4.3 keeps a plan per `load()`, and a plan with filters replaces
    the one without, also for queries that do not have them. Nothing here can see that; docs/pipeline.md warns of it.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what narrows the read; returns what Spark has to check still."""
        self._narrowing, rest = narrow(filters)
        tags = self._narrowing.tags
        if tags is not None:
            wanted = frozenset(str(tag) for tag in tags)
            both = wanted if self._options.tags is None else wanted & self._options.tags
            self._narrowing = replace(self._narrowing, tags=frozenset(both))
            # Here, not in `partitions`: by then what executors run has been pickled.
            self._options = replace(self._options, tags=both)
        return rest

    def _narrow(self, ranges: list[Range]) -> list[Range]:
        return self._narrowing.apply(ranges)


def batch_ranges(planner: Planner, options: SourceOptions) -> list[Range]:
    """What a batch reads of each queue, once its positions are resolved.

    Raises:
        MessagesLost: a queue ends before it is to be read, and `failOnDataLoss` is set.
        ConfigError: option endingOffsets names an offset behind the end of a queue, and `failOnDataLoss` is set.
        RlabError: the cluster does not answer, or an option names what it does not have.
    """
    bounds = planner.bounds(planner.queues(all_must_exist=True))
    starts = planner.resolve(options.start, bounds, "startingOffsets")
    ends = planner.resolve(options.end, bounds, "endingOffsets")
    for queue, held in bounds.items() if options.fail_on_data_loss else ():
        # Only what was named: an end that was looked up by its time may lie further on than when the bounds were asked.
        start, end = options.start.offsets.get(queue, 0), options.end.offsets.get(queue, 0)
        if start > held.end:
            what = f"queue {queue} ends at {held.end}, and offset {start} is wanted"
            raise MessagesLost(f"{what}: it was made anew, or cut off; {HINT}")
        if end > held.end:
            raise ConfigError(
                f"option endingOffsets names offset {end} of queue {queue}, which ends at {held.end}: nothing is "
                "stored there yet, or the queue was made anew or cut off; write -1 for its end, or set option "
                "failOnDataLoss to false to read what there is"
            )
    return [Range(queue, starts[queue], max(starts[queue], ends[queue])) for queue in bounds]


def resolve_offsets(options: Mapping[str, str]) -> dict[str, str]:
    """Fix which queues a batch reads, and between which offsets, so that DataFrames with these options see the same.

    A queue or a topic that appears later is not among them. One whose broker is away when it is read is an error.

    Args:
        options: of a batch read.

    Returns:
        The same options with the queues and both positions written out; for
        `spark.read.format("rlab").options(**resolved)`.

    Raises:
        ConfigError: an option is wrong, or there is no queue, so nothing that could be fixed.
        RlabError: the cluster does not answer.
    """
    parsed = parse_options(options, streaming=False)
    with open_client(parsed) as client:
        ranges = batch_ranges(Planner(client, parsed), parsed)
    if not ranges:
        raise ConfigError("the options select no queue now: there is nothing whose offsets could be resolved")
    kept = {name: value for name, value in options.items() if name.lower() not in _RESOLVED}
    return {
        **kept,
        "assign": queues_to_text(one.queue for one in ranges),
        "startingOffsets": to_text({one.queue: one.start for one in ranges}),
        "endingOffsets": to_text({one.queue: one.end for one in ranges}),
    }
