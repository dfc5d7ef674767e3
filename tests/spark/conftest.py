"""One Spark session and one cluster for all tests of this folder; both take seconds to start.

Without pyspark these tests fail, they are not skipped: a run that left them out has not tested the pipeline.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from pipeline.spark.session import register_source, spark_session
from tests.spark.quick_start import QUICK_START
from tests.spark.spark_cluster import ClusterProcesses, cluster_processes

_numbers = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def quick_start() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_START.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def spark(quick_start: None) -> Iterator[SparkSession]:
    with spark_session("rlab tests", master="local[2]", conf={"spark.sql.shuffle.partitions": "1"}) as session:
        yield session


@pytest.fixture(scope="session")
def connect_url(spark: SparkSession) -> Iterator[str]:
    """A server of Spark Connect. It runs in the JVM of the other tests, which saves starting one."""
    context = spark.sparkContext._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.port", "0")
    assert spark._jvm is not None
    name = "org.apache.spark.sql.connect.service.SparkConnectService$"
    service = spark._jvm.java.lang.Class.forName(name).getField("MODULE$").get(None)
    service.start(context)
    yield f"sc://127.0.0.1:{service.localPort()}"
    service.stop(*(getattr(service, f"stop$default${number}")() for number in (1, 2)))


@pytest.fixture(scope="session")
def remote(connect_url: str) -> Iterator[SparkSession]:
    """A session of Spark Connect, whose only tie to the server is its address."""
    session: Any = ConnectSession.builder.remote(connect_url).create()
    register_source(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """A running cluster of one broker, `broker-a`, which every test leaves as it is."""
    with cluster_processes(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def make_topic(cluster: ClusterProcesses) -> Callable[[int], str]:
    """Makes a topic with so many queues; returns its name, which no other test has."""

    def make(queues: int) -> str:
        topic = f"t{next(_numbers)}"
        cluster.create_topic(topic, queues)
        return topic

    return make
