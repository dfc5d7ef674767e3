"""What the driver tells brokers about a batch: which attempts count, and who is to forget it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.errors import ConnectFailed, StageLost
from model.response_code import ResponseCode
from pipeline.sink import writer as sink
from pipeline.sink.options import DeliveryGuarantee, SinkOptions, parse_sink_options
from pipeline.sink.task import StageId
from pipeline.sink.writer import BatchSink, SinkTaskResult, StreamSink
from remoting.request_code import RequestCode
from tests.unit.pipeline.fake_cluster import FakeClient, FakeCluster

OPTIONS = parse_sink_options({"nameServer": "h:1", "delivery": "exactlyOnce"})
DONE = [
    SinkTaskResult(StageId("q", 7, 0, 11), {"a": 3, "b": 1}),
    SinkTaskResult(StageId("q", 7, 1, 12), {"b": 2}),
    SinkTaskResult(StageId("q", 7, 2, 13), {}),
]
BATCH = {"query_id": "q", "batch_id": 7}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster("a", "b")

    def client(options: SinkOptions, timeout_s: float | None = None) -> FakeClient:
        return made.client()

    monkeypatch.setattr(sink, "_client", client)
    return made


def test_a_commit_names_the_attempts_to_each_broker_that_has_any(cluster: FakeCluster) -> None:
    StreamSink(OPTIONS).commit(DONE, 7)
    assert cluster.written == [
        ("a", RequestCode.SINK_COMMIT, {**BATCH, "is_only": False}, ((0, 11, 3),)),
        ("b", RequestCode.SINK_COMMIT, {**BATCH, "is_only": False}, ((0, 11, 1), (1, 12, 2))),
    ]


def test_nothing_staged_is_nothing_to_commit(cluster: FakeCluster) -> None:
    BatchSink(OPTIONS).commit([SinkTaskResult(None, {"a": 3}), None])
    assert cluster.asked == []


def test_a_commit_whose_stages_are_gone_is_an_error(cluster: FakeCluster) -> None:
    cluster.refusals = [ResponseCode.STAGE_LOST]
    with pytest.raises(StageLost):
        BatchSink(OPTIONS).commit(DONE)
    assert len(cluster.written) == 1


def test_an_abort_notifies_everyone_anyone_who_is_away(cluster: FakeCluster) -> None:
    cluster.down.add("a")
    StreamSink(OPTIONS).abort([None, *DONE], 7)
    assert cluster.written == [("b", RequestCode.SINK_ABORT, BATCH, None)]


def test_a_batch_write_that_is_aborted_is_dropped_where_failed_tasks_have_staged_as_well(cluster: FakeCluster) -> None:
    sink = BatchSink(OPTIONS)
    sink.abort([None, None])
    headers = [(broker, code, header["batch_id"]) for broker, code, header, _ in cluster.written]
    assert headers == [("a", RequestCode.SINK_ABORT, 0), ("b", RequestCode.SINK_ABORT, 0)]
    assert {header["query_id"] for _, _, header, _ in cluster.written} == {sink._query_id}


def test_an_abort_of_what_is_not_staged_asks_no_one(cluster: FakeCluster) -> None:
    BatchSink(replace(OPTIONS, delivery=DeliveryGuarantee.AT_LEAST_ONCE)).abort([None])
    StreamSink(OPTIONS).abort([None], 7)
    assert cluster.asked == []


def test_a_commit_that_fails_names_the_brokers_that_have_published(cluster: FakeCluster) -> None:
    cluster.down.add("b")
    with pytest.raises(
        ConnectFailed, match=r"broker 'b' did not .* may have .*; published already by 'a': writing all"
    ):
        BatchSink(OPTIONS).commit(DONE)
    with pytest.raises(ConnectFailed, match="by 'a': they skip it when the batch is run again"):
        StreamSink(OPTIONS).commit(DONE, 7)


def test_a_commit_that_no_one_has_carried_out_names_no_one(cluster: FakeCluster) -> None:
    cluster.refusals = [ResponseCode.STAGE_LOST]
    with pytest.raises(StageLost, match=r"^broker 'a' did not publish its rows: refused$"):
        BatchSink(OPTIONS).commit(DONE)


def test_every_batch_write_is_a_query_of_its_own() -> None:
    assert BatchSink(OPTIONS).__dict__ != BatchSink(OPTIONS).__dict__
