"""The tasks of a read: what each reads, and how an executor does it. Batch and stream share it."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pipeline.source.columns import ColumnSettings, arrow_batches
from pipeline.source.offsets import Range, split, together
from pipeline.source.options import SourceOptions
from pipeline.source.queue_reader import PullSettings, QueueReader
from pipeline.source.rows import rows
from pipeline.wire import WireClient

SMALL_TASK_ROWS = 1_000
"""Queues with few messages share a task up to so many: a task costs Spark as much time as reading 10,000 messages does.
Not as many as that, because what a query does with a row may take longer than reading it."""


class QueueRanges(InputPartition):
    """What one task reads. The brokers are names: where they are now is found out by whoever reads."""

    def __init__(self, wanted: tuple[Range, ...]) -> None:
        super().__init__(wanted)
        self.ranges = wanted


def plan_tasks(ranges: Iterable[Range], options: SourceOptions) -> list[InputPartition]:
    """Share what is to be read among tasks, as the options say."""
    pieces = split(ranges, options.min_partitions, options.max_rows_per_partition)
    most = options.max_rows_per_partition or SMALL_TASK_ROWS
    # Who asks for many tasks has many of them, however small.
    small = 0 if options.min_partitions else min(most, SMALL_TASK_ROWS)
    return [QueueRanges(task) for task in together(pieces, small)]


def open_client(options: SourceOptions) -> WireClient:
    """Open connections as the options say."""
    return WireClient(options.name_servers, timeout_s=options.pull_timeout_s, retries=options.fetch_retries)


def read_ranges(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """Read the ranges of a task as Arrow batches, or as rows when the options say so. Runs on an executor.

    Raises:
        MessagesLost: messages of a range are gone, or a record is no message, and `failOnDataLoss` is set.
        RlabError: a broker cannot be reached, or refuses.
    """
    # A plan without partitions is carried out as one of no range (pyspark 4.3).
    if not isinstance(partition, QueueRanges):
        return
    pulls = PullSettings(
        group=options.group,
        batch=options.pull_batch,
        tags=options.tags,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    columns = ColumnSettings(
        schema=schema,
        tags=options.tags,
        include_body=options.include_body,
        include_properties=options.include_properties,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    decode = arrow_batches if options.use_arrow else rows
    # The collector walks over everything that was decoded, again and again, for cycles that are not there: with it on a
    # read takes nearly twice as long.
    collected = gc.isenabled()
    gc.disable()
    try:
        with open_client(options) as client:
            for wanted in partition.ranges:
                pulled = QueueReader(client, wanted, pulls).pulls()
                yield from decode(wanted.queue, wanted.end, pulled, columns)
    finally:
        if collected:
            gc.enable()
