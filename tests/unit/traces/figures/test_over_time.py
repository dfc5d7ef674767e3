from __future__ import annotations

from typing import Any

import pytest

from model.events import Event, EventKind
from traces.figures.over_time import MOST_BUCKETS, SHORTEST_BUCKET_MS, Deliveries, DeliveryBucket, bucket_length


def deliveries(events: list[Event]) -> list[DeliveryBucket]:
    found = Deliveries("g", 0.0, SHORTEST_BUCKET_MS)
    for event in sorted(events):
        found.feed(event)
    return list(found.rows())


OF_QUEUE: dict[str, Any] = {"group": "g", "topic": "t", "broker": "b", "queue_id": 0}


def handed_out(t_ms: float, n: int, detail: str) -> Event:
    return Event(t_ms, "c", int(t_ms), EventKind.MESSAGES_HANDED_OUT.value, n=n, detail=detail, **OF_QUEUE)


def committed(t_ms: float, lag: int, queue_id: int = 0, topic: str = "t") -> Event:
    place = {**OF_QUEUE, "queue_id": queue_id, "topic": topic}
    return Event(t_ms, "b", int(t_ms), EventKind.OFFSET_COMMITTED.value, n=lag, **place)


@pytest.mark.parametrize("span_s", [0, 60, 599.999, 600, 899, 1_199.9, 1_200, 86_400])
def test_however_long_a_trace_is_its_delivery_is_reported_in_so_many_stretches_at_most(span_s: float) -> None:
    bucket_ms = bucket_length(span_s * 1000)
    last = span_s * 1000 // bucket_ms
    assert last < MOST_BUCKETS
    assert bucket_ms == SHORTEST_BUCKET_MS or last >= MOST_BUCKETS / 2 - 1


def test_the_lag_of_a_bucket_is_that_of_all_queues_and_the_latency_is_weighted_by_messages() -> None:
    events = [
        handed_out(100, 60, "waited_ms=5.0 max_ms=9.0"),
        handed_out(200, 20, "waited_ms=1.0 max_ms=30.5"),
        committed(150, 45),
        committed(160, -1),
        committed(170, 9, topic="%RETRY%g"),
        committed(5_100, 7, queue_id=1),
    ]
    rows = [(row.t_ms, row.handed_out, row.latency_ms, row.latency_max_ms, row.lag) for row in deliveries(events)]
    assert rows == [(0, 80, 4.0, 30.5, 45), (5_000, 0, None, None, 52)]


def test_a_report_without_numbers_has_no_latency() -> None:
    [row] = deliveries([handed_out(100, 3, "waited_ms=. nonsense")])
    assert (row.handed_out, row.latency_ms, row.latency_max_ms) == (3, None, None)
