"""One task of a read: its range, and how an executor reads it. Batch and stream share it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pipeline.columns import ColumnSettings, arrow_batches, rows
from pipeline.offsets import Range
from pipeline.queue_reader import PullSettings, QueueReader
from pipeline.source_options import SourceOptions
from pipeline.wire import WireClient


class QueueRange(InputPartition):
    """What one task reads. Its broker is a name: where that is now is found out by whoever reads."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(tuple(wanted))
        self.range = wanted


def open_client(options: SourceOptions) -> WireClient:
    """Open connections as the options say."""
    return WireClient(options.name_servers, timeout_s=options.pull_timeout_s, retries=options.fetch_retries)


def read_range(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """Read one range as Arrow batches, or as rows when the options say so. Runs on an executor.

    Raises:
        MessagesLost: messages of the range are gone, and `failOnDataLoss` is set.
        RlabError: the broker cannot be reached, or refuses.
    """
    # A plan without partitions is carried out as one of no range (pyspark 4.3).
    if not isinstance(partition, QueueRange):
        return
    wanted = partition.range
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
    )
    decode = arrow_batches if options.use_arrow else rows
    # The collector walks over everything that was decoded, again and again, for cycles that are not there: with it on a
    # read takes nearly twice as long.
    collected = gc.isenabled()
    gc.disable()
    try:
        with open_client(options) as client:
            bodies = QueueReader(client, wanted, pulls).bodies()
            yield from decode(wanted.queue, wanted.end, bodies, columns)
    finally:
        if collected:
            gc.enable()
