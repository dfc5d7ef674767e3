"""The clocks of a long trace: compared on the driver by its table of events, and corrected by tasks of Spark.

clocks = clocks_of_runs(folder, runs)
if not clocks.are_right:
    read = in_right_times(read, clocks)          and the table is written again
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from model.events import EventKind
from pipeline.arrow_arrays import texts
from pipeline.trace.events_table import EventRun
from pipeline.trace.files import EVENT_SCHEMA
from pipeline.trace.rows import zip_events
from pipeline.trace.source import EVENT_SCHEMA as SPARK_SCHEMA
from traces.figures.clocks.clocks import ClockReader, Clocks

MOST_COMPARED = 200_000
"""Events by which clocks are compared, the newest ones: some seconds of work, while Spark computes for minutes."""
_OF_MESSAGES = (EventKind.MESSAGES_HANDED_OUT.value, EventKind.OFFSET_COMMITTED.value)
"""Most events of a trace are of these kinds, and they bound a clock least exactly."""


def clocks_of_runs(folder: Path, runs: Sequence[EventRun], max_pairs: int = MOST_COMPARED) -> Clocks:
    """The clocks by the events of the table in a folder; see `MOST_COMPARED`."""
    reader, n = ClockReader(), 0
    for run in sorted(runs, key=lambda run: run.first_ms, reverse=True):
        if n >= max_pairs:
            break
        with pq.ParquetFile(folder / run.file) as file:
            read = file.read_row_group(run.row_group, columns=EVENT_SCHEMA.names).select(EVENT_SCHEMA.names)
        reported = read.filter(pc.invert(pc.is_in(read["kind"].cast(pa.string()), value_set=texts(_OF_MESSAGES))))
        n += len(reported)
        for event in zip_events([column.combine_chunks() for column in reported.columns]):
            reader.read(event)
    return reader.finish()


def in_right_times(read: DataFrame, clocks: Clocks) -> DataFrame:
    """A trace, as `source.py` returns it, with the times of right clocks."""
    return read.select(*EVENT_SCHEMA.names).mapInArrow(partial(_corrected, clocks=clocks), SPARK_SCHEMA)


def _corrected(batches: Iterator[pa.RecordBatch], clocks: Clocks) -> Iterator[pa.RecordBatch]:
    column = EVENT_SCHEMA.get_field_index("t_ms")
    for batch in batches:
        rows = zip(*(batch[name].to_pylist() for name in ("node", "seq", "t_ms")), strict=True)
        times = [t_ms if None in (node, seq, t_ms) else clocks.right_ms(node, seq, t_ms) for node, seq, t_ms in rows]
        yield batch.set_column(column, "t_ms", pa.array(times, pa.float64()))
