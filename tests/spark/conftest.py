"""One Spark session and one cluster for all tests of this folder; both take seconds to start.

Without pyspark these tests fail, they are not skipped: a run that left them out has not tested the pipeline.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from client import Admin, Message, Producer
from pipeline.session import spark_session
from tests.tcp.rlab_process import daemon

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Tests are over before the second compiler pays.
    with spark_session(
        "rlab tests",
        master="local[2]",
        java_options="-XX:TieredStopAtLevel=1",
        conf={"spark.sql.shuffle.partitions": "1"},
    ) as session:
        yield session


@pytest.fixture(scope="session")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the name server of a running cluster of one broker, `broker-a`."""
    cwd = tmp_path_factory.mktemp("cluster")
    with (
        daemon("namesrv", "--listen", "127.0.0.1:0", cwd=cwd) as names,
        daemon(
            *("broker", "--listen", "127.0.0.1:0", "--name", "broker-a"),
            *("--namesrv", names.address, "--data", "data"),
            cwd=cwd,
        ),
    ):
        asyncio.run(_wait_for_broker(names.address))
        yield names.address


@pytest.fixture
def make_topic(name_server: str) -> Callable[..., str]:
    """Makes a topic of its own name: `make_topic(queues=4)` -> name."""

    def make(queues: int = 2) -> str:
        topic = f"t{next(_numbers)}"
        asyncio.run(create_topic(name_server, topic, queues))
        return topic

    return make


async def _wait_for_broker(address: str) -> None:
    async with Admin(address) as admin:
        while not await admin.brokers():
            await asyncio.to_thread(Path().exists)  # one turn of a thread is pause enough


async def create_topic(name_server: str, topic: str, queues: int) -> None:
    async with Admin(name_server) as admin:
        await admin.create_topic(topic, queues=queues)


def send(name_server: str, messages: Sequence[Message]) -> None:
    """Send messages; they are spread over the queues in turn."""

    async def run() -> None:
        async with Producer(name_server) as producer:
            await asyncio.gather(*(producer.send(message) for message in messages))

    asyncio.run(run())
