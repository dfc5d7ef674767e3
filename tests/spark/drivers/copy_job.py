"""A job that copies a topic to Parquet and to another topic, for tests that kill it.

The argument of `python -m tests.spark.drivers.copy_job` is a JSON document of `CopyJob`. It begins when its standard
input ends, and ends by itself when it has copied what was there then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pipeline.spark.session import spark_session
from tests.tcp.rlab_process import wait_until

TABLE, TOPIC, LATE = "table", "topic", "late"
"""Its queries: to Parquet; to a topic; from the latest offset of a third topic to Parquet, a folder for each batch."""

DONE_S = 200

Row = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class CopyJob:
    """What is copied.

    Attributes:
        folder: for checkpoints and tables.
        late: topic that is read from its latest offset, or empty.
        dies_in_batch_0: of the query `LATE`, by SIGKILL to its process group; `TOPIC` is then in the middle of a
            batch, and `TABLE` has one.
        found: file into which it writes at its end what is in its outputs, or empty.
    """

    master: str
    name_server: str
    source: str
    target: str
    folder: str
    rows_per_batch: int
    late: str = ""
    dies_in_batch_0: bool = False
    found: str = ""

    def checkpoint(self, query: str) -> Path:
        return Path(self.folder) / f"checkpoint-{query}"

    def output(self, query: str) -> str:
        return str(Path(self.folder) / query)

    def batches(self, query: str) -> tuple[int, int]:
        """How many batches of a query were begun, and how many of them are done."""
        return _highest(self.checkpoint(query) / "offsets"), _highest(self.checkpoint(query) / "commits")

    def is_within_batch(self, query: str, done: int) -> bool:
        """Whether a query has done so many batches or more, and has begun another."""
        begun, finished = self.batches(query)
        return begun > finished >= done

    def committed_table(self) -> tuple[int, list[Row]]:
        """How many batches the log of Spark's file sink has, and the rows of the files that it names; without Spark."""
        folder = Path(self.output(TABLE)) / "_spark_metadata"
        logs = {int(path.stem): path for path in folder.iterdir() if path.stem.isdecimal()}
        # A compact one has what all before it have.
        first = max((number for number, path in logs.items() if path.suffix == ".compact"), default=0)
        entries = [
            json.loads(line)
            for number, path in logs.items()
            if number >= first
            for line in path.read_text(encoding="utf-8").splitlines()[1:]
        ]
        paths = [url2pathname(urlparse(entry["path"]).path) for entry in entries]
        table = pq.ParquetDataset(paths).read(["topic", "broker", "queue_id", "offset"])
        return max(logs) + 1, [tuple(row.values()) for row in table.to_pylist()]

    def _start(self, spark: SparkSession) -> list[StreamingQuery]:
        found = self._stream(spark, self.source, startingOffsets="earliest")
        table = self._writer(found.select("topic", "broker", "queue_id", "offset"), TABLE).format("parquet")
        identity = found.selectExpr("concat_ws(':', topic, broker, queue_id, offset) as body")
        topic = self._writer(identity, TOPIC).format("rlab").option("nameServer", self.name_server)
        topic = topic.option("topic", self.target).option("delivery", "exactlyOnce")
        queries = []
        if self.late:  # the first, so that the others have not come to their end in its first batch
            queries.append(self._writer(self._stream(spark, self.late), LATE).foreachBatch(self._take_late).start())
        return [*queries, table.start(self.output(TABLE)), topic.start()]

    def run(self, spark: SparkSession) -> None:
        """Run it to its end."""
        for query in self._start(spark):
            query.awaitTermination()
        if self.found:
            Path(self.found).write_text(json.dumps(self._outputs(spark)), encoding="utf-8")

    def read_found(self) -> dict[str, list[Row]]:
        """By query: topic, broker, queue and offset of each message that was copied; of `LATE` only the last two."""
        found = json.loads(Path(self.found).read_text(encoding="utf-8"))
        return {query: [tuple(row) for row in rows] for query, rows in found.items()}

    def _outputs(self, spark: SparkSession) -> dict[str, list[Row]]:
        table = spark.read.parquet(self.output(TABLE)).select("topic", "broker", "queue_id", "offset")
        copied = (
            spark.read.format("rlab").option("nameServer", self.name_server).option("subscribe", self.target).load()
        )
        parts = [row.body.decode().split(":") for row in copied.select("body").collect()]
        late = spark.read.parquet(f"{self.output(LATE)}/*").select("queue_id", "offset")
        return {
            TABLE: [tuple(row) for row in table.collect()],
            TOPIC: [(topic, broker, int(queue_id), int(offset)) for topic, broker, queue_id, offset in parts],
            LATE: sorted(tuple(row) for row in late.collect()),
        }

    def _stream(self, spark: SparkSession, topic: str, **options: str) -> DataFrame:
        stream = spark.readStream.format("rlab").option("nameServer", self.name_server).option("subscribe", topic)
        return stream.option("maxOffsetsPerTrigger", str(self.rows_per_batch)).options(**options).load()

    def _writer(self, frame: DataFrame, query: str) -> DataStreamWriter:
        writer = frame.writeStream.queryName(query).option("checkpointLocation", str(self.checkpoint(query)))
        return writer.trigger(availableNow=True)

    def _take_late(self, batch: DataFrame, number: int) -> None:
        if number == 0 and self.dies_in_batch_0:
            wait_until(lambda: self.batches(TABLE)[1] > 0 and self.is_within_batch(TOPIC, 1), DONE_S)
            os.killpg(0, signal.SIGKILL)
        # Run again, it is written over: the same rows.
        batch.select("queue_id", "offset").write.mode("overwrite").parquet(f"{self.output(LATE)}/{number}")


def _highest(folder: Path) -> int:
    if not folder.exists():
        return 0
    return max((int(path.name) + 1 for path in folder.iterdir() if path.name.isdecimal()), default=0)


def main() -> None:
    job = CopyJob(**json.loads(sys.argv[1]))
    conf = {
        "spark.sql.shuffle.partitions": "1",
        "spark.task.maxFailures": "8",
    }
    with spark_session("copy", master=job.master, conf=conf) as spark:
        sys.stdin.read()
        job.run(spark)


if __name__ == "__main__":
    main()
