"""Copies a topic to Parquet by a Spark stream that is killed halfway: no row is missing and none is duplicated.

    python examples/spark_to_parquet.py

It starts a cluster of its own, fills a topic, runs the job below, kills it with SIGKILL halfway, and runs it again. On
your own cluster, repeatedly, directly or through spark-submit:

    python examples/spark_to_parquet.py NAME_SERVER TOPIC FOLDER [MASTER]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from rlab.client import Message, Producer
from rlab.pipeline.source.reader import resolve_offsets
from rlab.pipeline.spark.session import spark_session

MESSAGES = 40_000
BATCH = 500
ROWS_PER_BATCH = 5_000
KILLED_AFTER_BATCHES = 3
IDENTITY = ["topic", "broker", "queue_id", "offset"]


def copy(name_server: str, topic: str, folder: str, master: str | None = None) -> None:
    """Copy the messages of a topic that the table does not have yet, then compare the two.

    The folder holds the table and the checkpoint of the stream, from which the next run continues. The master is by
    default this machine, or the one given to spark-submit.
    """
    options = {"nameServer": name_server, "subscribe": topic}
    conf = {"spark.sql.shuffle.partitions": "2"}
    with spark_session("topic to Parquet", master=master, conf=conf) as spark:
        stream = spark.readStream.format("rlab").options(**options, startingOffsets="earliest")
        writer = stream.option("maxOffsetsPerTrigger", str(ROWS_PER_BATCH)).load().writeStream.format("parquet")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        query = writer.start(f"{folder}/table")
        reported = -1
        while not query.awaitTermination(1):
            progress = query.lastProgress
            if progress is not None and progress.batchId > reported:
                reported = progress.batchId
                print(f"batch {reported} is written", flush=True)
        # Read through Spark, which ignores files that a killed batch has left.
        table = spark.read.parquet(f"{folder}/table").select(IDENTITY)
        source = spark.read.format("rlab").options(**resolve_offsets(options)).load().select(IDENTITY)
        rows = table.count()
        missing, twice = source.join(table, IDENTITY, "left_anti").count(), rows - table.distinct().count()
        print(f"{source.count():,} messages, {rows:,} rows: {missing} missing, {twice} twice")


def show() -> None:
    """Run the job twice on a cluster of its own, and kill it the first time."""
    with tempfile.TemporaryDirectory() as folder, cluster() as name_server:
        anyio.run(fill, name_server)
        arguments = [name_server, "orders", f"{folder}/orders", "local[2]"]
        with job(arguments, folder) as process:
            assert process.stdout is not None
            for _, line in zip(range(KILLED_AFTER_BATCHES), process.stdout, strict=False):
                print(line, end="")
            # The driver and its JVM.
            os.killpg(process.pid, signal.SIGKILL)
        print("killed; again:")
        with job(arguments, folder) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="")


@contextmanager
def job(arguments: list[str], folder: str) -> Iterator[subprocess.Popen[str]]:
    """Run this file as a process; its standard error is shown if it fails without a kill."""
    errors = Path(folder) / "stderr"
    with errors.open("w") as stderr:
        command = [sys.executable, __file__, *arguments]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": folder},
        ) as process:
            yield process
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(errors.read_text())


@contextmanager
def cluster() -> Iterator[str]:
    """Run a name server and a broker with a topic; yields the address that clients need."""
    command = [sys.executable, "-m", "rlab", "cluster", "--port", "0", "--brokers", "1", "--topic", "orders"]
    with subprocess.Popen([*command, "--queues", "4", "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


async def fill(name_server: str) -> None:
    """Send messages in batches, round robin over the queues."""
    async with Producer(name_server) as producer:
        for first in range(0, MESSAGES, BATCH):
            numbers = range(first, first + BATCH)
            await producer.send_batch([Message("orders", f"order {number}".encode()) for number in numbers])


if __name__ == "__main__":
    if sys.argv[1:]:
        copy(*sys.argv[1:])
    else:
        show()
