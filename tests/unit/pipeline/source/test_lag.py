"""The lag of a stream, from its progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest

from model.message_queue import MessageQueue
from pipeline.source.lag import LagGauges, compute_lags


def progress(name: str | None, end: str, latest: str) -> Any:
    source = SimpleNamespace(endOffset=end, latestOffset=latest)
    return cast(Any, SimpleNamespace(progress=SimpleNamespace(name=name, id=7, sources=[source])))


END, LATEST = '{"t": {"a": {"0": 3, "1": 5}, "b": {"0": 9}}}', '{"t": {"a": {"0": 4, "1": 9, "2": 1}, "b": {"0": 8}}}'


def test_the_lag_of_a_queue_is_what_was_stored_since_the_end_of_the_batch() -> None:
    lags = {("a", 0): 1, ("a", 1): 4, ("a", 2): 1, ("b", 0): 0}
    assert compute_lags(END, LATEST) == {MessageQueue("t", *queue): lag for queue, lag in lags.items()}
    assert compute_lags(None, "12") == {}


def test_a_gauge_has_the_lag_of_a_query_by_topic_and_broker_until_the_query_ends() -> None:
    registry = CollectorRegistry()
    gauges = LagGauges(registry)
    gauges.onQueryProgress(progress("copy", END, LATEST))
    series = {"query": "copy", "topic": "t"}
    assert registry.get_sample_value("rlab_stream_lag", {**series, "broker": "a"}) == 6
    gauges.onQueryProgress(progress("copy", LATEST, LATEST))
    assert registry.get_sample_value("rlab_stream_lag", {**series, "broker": "a"}) == 0
    gauges.onQueryTerminated(cast(Any, SimpleNamespace(id=7)))
    assert registry.get_sample_value("rlab_stream_lag", {**series, "broker": "a"}) is None
    gauges.close()
    assert generate_latest(registry) == b""
