"""Dispatched messages, their latency and the lag over time, from a trace. Pure.

Members report dispatched messages with each commit of their offsets, so a row is as exact as the interval of commits
(`offset_persist_interval_s`). Brokers report the lag at each grant of a lease and at each commit that moves an offset;
in between the lag is assumed to be unchanged.

    bucket 0    two commits, of 60 and 3 messages; the lag of one queue is 45   -> 63 dispatched, lag 45
    bucket 5    another queue has a lag of 7                                     -> 0 dispatched, lag 52
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from model.events import Event, EventKind
from model.names import RETRY_PREFIX

MOST_BUCKETS = 600
"""Maximum number of rows for each topic and group."""
SHORTEST_BUCKET_MS = 1_000.0
_LAGS = (EventKind.OFFSET_COMMITTED.value, EventKind.LOCK_GRANTED.value)
_HANDED_OUT = EventKind.MESSAGES_HANDED_OUT.value
KINDS = frozenset({*_LAGS, _HANDED_OUT})
"""The kinds of events that are used, as plain texts."""
_NUMBERS = {name: re.compile(rf"\b{name}=([0-9.]+)") for name in ("waited_ms", "max_ms")}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryBucket:
    """One group and topic in one bucket of time.

    Attributes:
        t_ms: beginning of the bucket.
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
    waited_ms: float | None = None  # mean times number, of all reports
    longest_ms: float | None = None
    change: int = 0  # of the lag

    @property
    def mean_ms(self) -> float | None:
        return None if self.waited_ms is None or not self.handed_out else self.waited_ms / self.handed_out


def bucket_length(span_ms: float) -> float:
    """Return the length of buckets: the fewest whole seconds that give at most `MOST_BUCKETS` buckets."""
    return SHORTEST_BUCKET_MS * (span_ms // (MOST_BUCKETS * SHORTEST_BUCKET_MS) + 1)


class Deliveries:
    """The rows of one group, from its events in order of time; a bucket without a report has no row."""

    def __init__(self, group: str, start_ms: float, bucket_ms: float) -> None:
        self._group = group
        self._start_ms = start_ms
        self._bucket_ms = bucket_ms
        self._buckets: dict[tuple[str, int], _Bucket] = {}
        self._lags: dict[tuple[str, str, int], int] = {}

    def feed(self, event: Event) -> None:
        """Process an event; kinds outside of `KINDS` are ignored."""
        is_report = event.kind == _HANDED_OUT
        topic, n = event.topic, event.n
        if event.queue_id < 0 or topic.startswith(RETRY_PREFIX) or not (is_report or (event.kind in _LAGS and n >= 0)):
            return
        bucket_key = (topic, math.floor((event.t_ms - self._start_ms) / self._bucket_ms))
        bucket = self._buckets.get(bucket_key)
        if bucket is None:
            bucket = self._buckets[bucket_key] = _Bucket()
        if not is_report:
            queue = (topic, event.broker, event.queue_id)
            bucket.change += n - self._lags.get(queue, 0)
            self._lags[queue] = n
            return
        bucket.handed_out += n
        mean_ms, longest_ms = _number("waited_ms", event.detail), _number("max_ms", event.detail)
        if mean_ms is not None:
            bucket.waited_ms = (bucket.waited_ms or 0.0) + mean_ms * n
        if longest_ms is not None and longest_ms > (bucket.longest_ms or -1.0):
            bucket.longest_ms = longest_ms

    def rows(self) -> Iterator[DeliveryBucket]:
        """Yield the rows, by topic and time."""
        lags: dict[str, int] = {}
        for (topic, number), bucket in sorted(self._buckets.items()):
            lag = lags[topic] = lags.get(topic, 0) + bucket.change
            yield DeliveryBucket(
                group=self._group,
                topic=topic,
                t_ms=number * self._bucket_ms + self._start_ms,
                handed_out=bucket.handed_out,
                latency_ms=bucket.mean_ms,
                latency_max_ms=bucket.longest_ms,
                lag=lag,
            )


def _number(name: str, detail: str) -> float | None:
    match = _NUMBERS[name].search(detail)
    try:
        return float(match[1]) if match else None
    except ValueError:
        return None
