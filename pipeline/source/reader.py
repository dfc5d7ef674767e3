"""Reads a batch of a topic: plans the ranges, reads them on executors, applies filters from Spark.

`pipeline/source/stream.py` does the same for a stream.

No reader joins a group or acquires a lease, because a read must not cause the rebalances that it may study.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from model.errors import ConfigError
from pipeline.source.offsets import Range, queues_to_text, to_text
from pipeline.source.options import SELECTIONS, SourceOptions, parse_options
from pipeline.source.planner import Planner
from pipeline.source.pushdown import Narrowing, narrow
from pipeline.source.queue_reader import HINT, MessagesLost
from pipeline.source.ranges import open_client, plan_tasks, read_ranges, sampled_bytes, session_cores

logger = logging.getLogger(__name__)

_POSITIONS = (
    *("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", "startingGroup"),
    *("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"),
)
_RESOLVED = frozenset(name.lower() for name in (*SELECTIONS, *_POSITIONS))
"""Options that `resolve_offsets` replaces, in lower case, because Spark ignores case."""


class BatchReader(DataSourceReader):
    """Reads the messages between two positions.

    Positions are resolved at the first action of a DataFrame, and Spark keeps the plan while the DataFrame exists. Use
    the options from `resolve_offsets` for two DataFrames that need the same messages.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks."""
        options = self._options
        with open_client(options) as client:
            ranges = self._narrow(batch_ranges(Planner(client, options), options))
            size = partial(sampled_bytes, client, options)
            return plan_tasks(ranges, options, size, client.last_masters, session_cores())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the ranges of a task, on an executor."""
        return read_ranges(partition, self._options, self._schema)

    def _narrow(self, ranges: list[Range]) -> list[Range]:
        return ranges


class PushingReader(BatchReader):
    """A reader that applies filters from Spark, so that filtered messages are not read.

    Only for a DataFrame that serves one query: pyspark 4.3 keeps a plan per `load()`, and a plan with filters replaces
    the plan without, also for queries without these filters. The reader cannot detect this: see docs/spark-source.md.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the read by these filters; returns the filters that Spark still has to check."""
        self._narrowing, rest = narrow(filters, self._options.sql)
        values, tags = self._narrowing.values, self._options.tags
        if "tag" in values:
            both = values["tag"] if tags is None else values["tag"] & tags
            self._narrowing = replace(self._narrowing, values={**values, "tag": both})
            # Here and not in `partitions`, because Spark pickles the reader for executors before that.
            self._options = replace(self._options, tags=both)
        self._options = replace(self._options, sql=self._narrowing.sql)
        return rest

    def _narrow(self, ranges: list[Range]) -> list[Range]:
        return self._narrowing.apply(ranges)


def batch_ranges(planner: Planner, options: SourceOptions) -> list[Range]:
    """Resolve the positions of a batch to a range of each queue.

    Raises:
        MessagesLost: a queue ends before the start of its range, or its broker is listed as absent,
            and `failOnDataLoss` is set.
        ConfigError: option endingOffsets has an offset after the end of a queue, and `failOnDataLoss` is set.
        RlabError: the cluster does not answer, or lacks a topic, queue or group of the options.
    """
    away = planner.absent()
    if away and options.fail_on_data_loss:
        raise MessagesLost(f"some queues of the read are away: {'; '.join(away)}; {HINT}")
    for text in away:
        logger.warning("the read skips queues that are away: %s", text)
    bounds = planner.bounds(planner.queues(all_must_exist=True))
    starts = planner.resolve(options.start, bounds, "startingOffsets")
    ends = planner.resolve(options.end, bounds, "endingOffsets")
    for queue, held in bounds.items() if options.fail_on_data_loss else ():
        # Only offsets from options: an offset that was looked up by time may be above the bounds, which were read
        # before.
        start, end = options.start.offsets.get(queue, 0), options.end.offsets.get(queue, 0)
        if start > held.end:
            text = f"queue {queue} ends at {held.end}, and offset {start} was requested"
            raise MessagesLost(f"{text}: it was created again, or truncated; {HINT}")
        if end > held.end:
            raise ConfigError(
                f"option endingOffsets names offset {end} of queue {queue}, which ends at {held.end}: no message "
                "is stored there yet, or the queue was created again or truncated; write -1 for its end, or set option "
                "failOnDataLoss to false to read the stored messages"
            )
    return [Range(queue, starts[queue], max(starts[queue], ends[queue])) for queue in bounds]


def resolve_offsets(options: Mapping[str, str]) -> dict[str, str]:
    """Fix the queues and offsets of a batch read, so that all DataFrames with the resulting options read the same.

    Queues and topics that appear later are not read. A queue whose broker is down during the read is an error. The
    result has explicit queues and positions, for `spark.read.format("rlab").options(**resolved)`.

    Raises:
        ConfigError: an option is wrong, or the options select no queue.
        RlabError: the cluster does not answer.
    """
    parsed = parse_options(options, streaming=False)
    with open_client(parsed) as client:
        ranges = batch_ranges(Planner(client, parsed), parsed)
    if not ranges:
        raise ConfigError("the options select no queue now, so there are no offsets to resolve")
    kept = {name: value for name, value in options.items() if name.lower() not in _RESOLVED}
    return {
        **kept,
        "assign": queues_to_text(each.queue for each in ranges),
        "startingOffsets": to_text({each.queue: each.start for each in ranges}),
        "endingOffsets": to_text({each.queue: each.end for each in ranges}),
    }
