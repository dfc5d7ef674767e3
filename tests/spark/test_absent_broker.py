"""Spark while a broker or the name server is away: real processes that are killed. Its cells of the matrix of tools."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from client import Admin, Message, Producer
from pipeline.report.job import write_report
from pipeline.trace.source import read_topic
from tests.spark.refusals import refusal
from tests.tcp.rlab_process import Daemon, daemon, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.process]


@contextmanager
def cluster(cwd: Path, *brokers: str) -> Iterator[dict[str, Daemon]]:
    """A name server, `names`, and brokers, each a process."""
    with ExitStack() as stack:
        names = stack.enter_context(daemon("namesrv", "--listen", "127.0.0.1:0", cwd=cwd))
        place = ["--listen", "127.0.0.1:0", "--namesrv", names.address]
        started = {
            name: stack.enter_context(daemon("broker", "--name", name, *place, "--data", str(cwd / name), cwd=cwd))
            for name in brokers
        }
        yield {"names": names, **started}


def send(address: str, topic: str, numbers: range, killed: Daemon | None = None) -> None:
    """Send numbers to all queues in turn; a name server that is `killed` before is no longer asked."""

    async def run() -> None:
        async with Admin(address) as admin:
            await admin.create_topic(topic, queues=2)
        async with Producer(address) as producer:
            await producer.send(Message(topic, str(numbers[0]).encode()))
            if killed is not None:
                killed.signal(signal.SIGKILL)
            for number in numbers[1:]:
                await producer.send(Message(topic, str(number).encode()))

    asyncio.run(run())


def test_a_batch_refuses_half_of_a_topic_and_a_report_says_what_it_lacks(spark: SparkSession, tmp_path: Path) -> None:
    with cluster(tmp_path, "broker-a", "broker-b") as processes:
        address = processes["names"].address
        send(address, "t", range(20))
        options = {"nameServer": address, "subscribe": "t"}
        assert spark.read.format("rlab").options(**options).load().count() == 20
        processes["broker-b"].signal(signal.SIGKILL)
        reported = refusal(lambda: spark.read.format("rlab").options(**options).load().count())
        assert "2 queues of t (broker broker-b at " in reported
        assert "set option failOnDataLoss to false to continue without them" in reported
        careless = spark.read.format("rlab").options(**options, failOnDataLoss="false").load()
        assert 0 < careless.count() < 20
        report = write_report(read_topic(spark, address), tmp_path / "report", missing="the part on broker-b")
        assert (report.events > 0, report.missing) == (True, "the part on broker-b")


def test_a_stream_goes_on_while_no_name_server_answers(spark: SparkSession, tmp_path: Path) -> None:
    with cluster(tmp_path, "broker-a") as processes:
        names = processes["names"]
        send(names.address, "t", range(10))
        options = {"nameServer": names.address, "subscribe": "t", "startingOffsets": "earliest", "fetchRetries": "0"}
        frame = spark.readStream.format("rlab").options(**options).load()
        query = frame.writeStream.format("memory").queryName("without_names").start()
        try:
            wait_until(lambda: spark.table("without_names").count() == 10)
            send(names.address, "t", range(10, 30), killed=names)
            wait_until(lambda: spark.table("without_names").count() == 30)
            assert query.isActive
        finally:
            query.stop()
