"""Plans the tasks of a read, and reads the ranges of a task on an executor; for batches and streams."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pipeline.source.columns import arrow_batches
from pipeline.source.offsets import Range, join_small, split
from pipeline.source.options import SourceOptions
from pipeline.source.queue_reader import QueueReader
from pipeline.source.rows import rows
from pipeline.wire import WireClient

SMALL_TASK_ROWS = 1_000
"""Ranges with few messages share a task of up to this many messages. A task costs Spark as much time as reading 10,000
messages; the limit is lower because a query may spend more time on a message than reading it takes."""


class QueueRanges(InputPartition):
    """The ranges of one task. Brokers are given by name; the executor looks their addresses up."""

    def __init__(self, wanted: tuple[Range, ...]) -> None:
        super().__init__(wanted)
        self.ranges = wanted


def plan_tasks(ranges: Iterable[Range], options: SourceOptions) -> list[InputPartition]:
    """Distribute the ranges over tasks, as the options say."""
    pieces = split(ranges, options.min_partitions, options.max_rows_per_partition)
    max_rows = options.max_rows_per_partition or SMALL_TASK_ROWS
    # minPartitions asks for many small tasks, so none are joined.
    shared_rows = 0 if options.min_partitions else min(max_rows, SMALL_TASK_ROWS)
    return [QueueRanges(task) for task in join_small(pieces, shared_rows)]


def open_client(options: SourceOptions) -> WireClient:
    """A client with the name servers, timeout and retries of the options."""
    return WireClient(options.name_servers, timeout_s=options.pull_timeout_s, retries=options.fetch_retries)


def read_ranges(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """Read the ranges of a task as Arrow batches, or as rows if the options say so. Runs on an executor."""
    # If a plan has no partitions, pyspark 4.3 passes an object of another class.
    if not isinstance(partition, QueueRanges):
        return
    decode = arrow_batches if options.use_arrow else rows
    # There are no reference cycles to collect, and garbage collection nearly doubles the time of a read.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with open_client(options) as client:
            for wanted in partition.ranges:
                pulled = QueueReader(client, wanted, options).pulls()
                yield from decode(wanted.queue, wanted.end, pulled, options, schema)
    finally:
        if was_enabled:
            gc.enable()
