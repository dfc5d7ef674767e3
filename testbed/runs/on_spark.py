"""A sweep on Spark, for users who outgrow one machine: a case goes to any worker, and its outcome is the same there."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from testbed.simulation.engine.run import Outcome
from testbed.simulation.engine.sweep import Case, run_case

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_SCHEMA = "number bigint, outcome binary"
_MAX_TASKS = 10_000
"""Tasks of one job; each has a few cases if there are more."""


def sweep_on_spark(spark: SparkSession, cases: Sequence[Case]) -> Iterator[Outcome]:
    """Run cases in the workers of a session, and yield their outcomes in the order of the cases."""
    every = list(cases)

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        logging.disable(logging.CRITICAL)  # clients and brokers log errors all the time, because of the faults
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            outcomes = [pickle.dumps(run_case(every[number])) for number in numbers]
            yield pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(outcomes)], names=["number", "outcome"])

    rows = spark.range(0, len(every), 1, min(len(every), _MAX_TASKS)).mapInArrow(compute, _SCHEMA)
    for row in rows.sort("number").toLocalIterator():
        yield pickle.loads(row["outcome"])
