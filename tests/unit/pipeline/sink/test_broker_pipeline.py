"""Requests to a broker are answered in the end, in order, each at least once."""

from __future__ import annotations

import pytest

from model.errors import ConnectionLost, NoPermission
from model.response_code import ResponseCode
from pipeline.sink.broker_pipeline import MAX_OUTSTANDING, BrokerPipeline
from remoting.request_code import RequestCode
from tests.unit.pipeline.fake_cluster import FakeCluster

CODE = RequestCode.SEND_BATCH_MESSAGE


def send(line: BrokerPipeline, numbers: range) -> None:
    for number in numbers:
        line.send(CODE, {"queue_id": number}, b"")


def received(cluster: FakeCluster) -> list[int]:
    return [header["queue_id"] for _, _, header, _ in cluster.written]


def test_some_requests_are_under_way_at_once_and_all_are_answered_at_the_end() -> None:
    cluster = FakeCluster("a")
    line = BrokerPipeline(cluster.client(), "a")
    send(line, range(MAX_OUTSTANDING))
    assert received(cluster) == [], "a send does not wait for its answer"
    send(line, range(MAX_OUTSTANDING, 10))
    assert received(cluster) == list(range(10 - MAX_OUTSTANDING))
    line.finish()
    assert received(cluster) == list(range(10))


def test_what_has_no_answer_is_sent_again_in_order() -> None:
    cluster = FakeCluster("a")
    line = BrokerPipeline(cluster.client(), "a")
    cluster.failures = 2
    send(line, range(6))
    line.finish()
    assert received(cluster)[-6:] == list(range(6))
    assert received(cluster)[:-6] == [0, 0], "carried out, and the answer was lost"
    assert cluster.waits == [0.25, 0.5]


def test_requests_that_a_replica_refuses_go_to_the_master_that_it_names_in_order() -> None:
    cluster = FakeCluster("a")
    line = BrokerPipeline(cluster.client(), "a")
    send(line, range(6))
    cluster.moved["a"] = 2
    line.finish()
    assert received(cluster) == list(range(6)), "a refusal carries out nothing"
    assert cluster.connected[-1] == "a:2"


def test_a_broker_that_is_busy_is_asked_again_and_one_that_refuses_is_not() -> None:
    cluster = FakeCluster("a")
    line = BrokerPipeline(cluster.client(), "a")
    cluster.refusals = [ResponseCode.SYSTEM_BUSY]
    send(line, range(1))
    line.finish()
    assert received(cluster) == [0, 0]
    cluster.refusals = [ResponseCode.NO_PERMISSION]
    send(line, range(1))
    with pytest.raises(NoPermission):
        line.finish()


def test_a_broker_that_stays_away_is_an_error() -> None:
    cluster = FakeCluster("a")
    line = BrokerPipeline(cluster.client(retries=2), "a")
    cluster.failures = 3
    send(line, range(1))
    with pytest.raises(ConnectionLost):
        line.finish()
