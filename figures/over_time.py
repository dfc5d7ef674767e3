"""Dispatched messages of a trace, their latency and the lag, over time. Pure.

Members report dispatched messages with each commit of their offsets, so a row is as exact as commits are frequent
(`offset_persist_interval_s`). Brokers report the lag at each grant of a lease and at each commit that moves an offset;
in between it is taken to be unchanged. `pipeline/trace/delivery.py` has the same rules in the words of Spark.

    bucket 0    two commits, of 60 and 3 messages; the lag of one queue is 45   -> 63 dispatched, lag 45
    bucket 5    another queue has a lag of 7                                     -> 0 dispatched, lag 52
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.names import RETRY_PREFIX

MOST_BUCKETS = 600
"""Most rows for each topic and group."""
SHORTEST_BUCKET_MS = 1_000.0
_LAGS = (EventKind.OFFSET_COMMITTED.value, EventKind.LOCK_GRANTED.value)
_HANDED_OUT = EventKind.MESSAGES_HANDED_OUT.value
_NUMBERS = {name: re.compile(rf"\b{name}=([0-9.]+)") for name in ("waited_ms", "max_ms")}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryBucket:
    """One group and topic in one bucket of time.

    Attributes:
        t_ms: begin of the bucket.
        handed_out: messages dispatched to listeners.
        latency_ms: mean time from store to dispatch; None without a dispatched message.
        lag: at the end of the bucket, of all queues together.
    """

    group: str
    topic: str
    t_ms: float
    handed_out: int
    latency_ms: float | None
    latency_max_ms: float | None
    lag: int


@dataclass(slots=True)
class _Bucket:
    handed_out: int = 0
    waited: list[float] = field(default_factory=list)  # mean times number, of each report
    longest: list[float] = field(default_factory=list)
    change: int = 0  # of the lag


def bucket_of(span_ms: float) -> float:
    """Length of the buckets: the fewest whole seconds that give at most `MOST_BUCKETS` of them."""
    return SHORTEST_BUCKET_MS * (span_ms // (MOST_BUCKETS * SHORTEST_BUCKET_MS) + 1)


def deliveries(events: Iterable[Event], start_ms: float, bucket_ms: float) -> list[DeliveryBucket]:
    """The rows of all groups; a bucket without a report has none. `events` may be in any order."""
    buckets: dict[tuple[str, str, int], _Bucket] = {}
    lags: dict[tuple[str, str, str, int], int] = {}
    told = [event for event in events if event.kind == _HANDED_OUT or (event.kind in _LAGS and event.n >= 0)]
    for event in sorted(told, key=lambda event: (event.t_ms, event.seq)):
        if event.queue_id < 0 or event.topic.startswith(RETRY_PREFIX):
            continue
        place = (event.group, event.topic, math.floor((event.t_ms - start_ms) / bucket_ms))
        bucket = buckets.get(place)
        if bucket is None:
            bucket = buckets[place] = _Bucket()
        if event.kind != _HANDED_OUT:
            queue = (event.group, event.topic, event.broker, event.queue_id)
            bucket.change += event.n - lags.get(queue, 0)
            lags[queue] = event.n
            continue
        bucket.handed_out += event.n
        mean_ms, longest_ms = _number("waited_ms", event.detail), _number("max_ms", event.detail)
        if mean_ms is not None:
            bucket.waited.append(mean_ms * event.n)
        if longest_ms is not None:
            bucket.longest.append(longest_ms)
    return _rows(buckets, start_ms, bucket_ms)


def _rows(buckets: dict[tuple[str, str, int], _Bucket], start_ms: float, bucket_ms: float) -> list[DeliveryBucket]:
    rows = []
    lags: dict[tuple[str, str], int] = {}
    for (group, topic, number), bucket in sorted(buckets.items()):
        lag = lags[group, topic] = lags.get((group, topic), 0) + bucket.change
        known = bucket.handed_out and bucket.waited
        rows.append(
            DeliveryBucket(
                group=group,
                topic=topic,
                t_ms=number * bucket_ms + start_ms,
                handed_out=bucket.handed_out,
                latency_ms=sum(bucket.waited) / bucket.handed_out if known else None,
                latency_max_ms=max(bucket.longest, default=None),
                lag=lag,
            )
        )
    return rows


def _number(name: str, detail: str) -> float | None:
    found = _NUMBERS[name].search(detail)
    try:
        return float(found[1]) if found else None
    except ValueError:
        return None
