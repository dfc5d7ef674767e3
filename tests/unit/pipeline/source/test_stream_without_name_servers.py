"""A running stream while no name server answers; its other rules are in `test_stream.py`."""

from __future__ import annotations

import pytest

from model.errors import NetworkError
from pipeline.source import stream as stream_source
from pipeline.source.columns import SCHEMA
from pipeline.source.options import parse_options
from pipeline.source.ranges import QueueRanges
from pipeline.source.stream import StreamReader
from tests.unit.pipeline.fake_cluster import FakeCluster
from tests.unit.pipeline.source.test_stream import Clock, latest, numbers, reader


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    monkeypatch.setattr(stream_source, "open_client", lambda options: made.client())
    return made


def test_a_stream_goes_on_with_the_last_route_while_no_name_server_answers(cluster: FakeCluster) -> None:
    cluster.fill(5)
    found = reader(startingOffsets="earliest")
    start = found.initialOffset()
    assert numbers(latest(found, start)) == [5, 5]
    cluster.down.add("names")
    cluster.fill(2)
    end = latest(found, start)
    assert numbers(end) == [7, 7]
    parts = [part for part in found.partitions(start, end) if isinstance(part, QueueRanges)]
    assert [part.masters for part in parts] == [{"a": "a:1"}] * len(parts)
    # An executor makes a client of its own, which has never asked a name server.
    client = cluster.client()
    client.last_masters.update(parts[0].masters)
    assert client.connect_broker("a").address == "a:1"
    cluster.down.clear()
    cluster.fill(1)
    assert numbers(latest(found, start)) == [8, 8]


def test_a_stream_of_a_pattern_goes_on_with_the_last_names_while_no_name_server_answers(cluster: FakeCluster) -> None:
    cluster.fill(5)
    options = {"nameServer": "names:1", "subscribePattern": "t.*", "metadataPollMs": "0", "startingOffsets": "earliest"}
    found = StreamReader(parse_options(options, streaming=True), SCHEMA, Clock())
    start = found.initialOffset()
    cluster.down.add("names")
    cluster.fill(1)
    assert numbers(latest(found, start)) == [6, 6]


def test_a_stream_waits_for_a_broker_that_dies_while_no_name_server_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster("a", "b", queues=1)
    monkeypatch.setattr(stream_source, "open_client", lambda options: cluster.client())
    cluster.fill(3)
    found = reader(startingOffsets="earliest")
    start = found.initialOffset()
    end = latest(found, start)
    assert numbers(end) == [3, 3]
    cluster.down.update(("names", "b"))
    cluster.fill(1)
    assert numbers(latest(found, end)) == [4, 3]
    assert "waiting for broker b" in caplog.text
    cluster.down.remove("names")
    cluster.down.remove("b")
    assert numbers(latest(found, end)) == [4, 4]


def test_a_stream_ends_if_neither_a_name_server_nor_a_broker_answers(cluster: FakeCluster) -> None:
    cluster.fill(3)
    found = reader(startingOffsets="earliest")
    end = latest(found, found.initialOffset())
    cluster.down.update(("names", "a"))
    with pytest.raises(NetworkError):
        latest(found, end)
