"""When a stream reads some messages only for their size; its other rules are in `test_stream.py`."""

from __future__ import annotations

import pytest

from pipeline.source import stream as stream_source
from pipeline.source.ranges import CORES_VARIABLE
from pipeline.source.stream import SAMPLE_INTERVAL_S
from tests.unit.pipeline.fake_cluster import FakeCluster
from tests.unit.pipeline.source.test_stream import Clock, latest, planned, reader


def test_messages_are_sampled_for_a_batch_only_if_the_last_sample_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = FakeCluster(), Clock()
    monkeypatch.setattr(stream_source, "open_client", lambda options: cluster.client())
    monkeypatch.setenv(CORES_VARIABLE, "1")
    cluster.fill(8_000)
    found = reader(clock, startingOffsets="earliest", maxOffsetsPerTrigger="4000")
    offsets, pulls = found.initialOffset(), list[int]()
    for clock.now in (0.0, 1.0, SAMPLE_INTERVAL_S - 0.1, SAMPLE_INTERVAL_S + 0.1):
        before, offsets = offsets, latest(found, offsets)
        sent = len(cluster.pulls())
        assert sum(end - start for _, start, end in planned(found, before, offsets)) == 4_000
        pulls.append(len(cluster.pulls()) - sent)
    assert pulls == [2, 0, 0, 2]
