"""The table `delivery` once more, by the plainest Python that tells it: slow, and without Spark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from model.events import Event

Row = dict[str, Any]


def delivery(events: Sequence[Event], start_ms: float, bucket_ms: float) -> list[Row]:
    found: dict[tuple[str, str, int], list[Event]] = {}
    waiting = [event for event in events if event.kind in ("OFFSET_COMMITTED", "LOCK_GRANTED") and event.n >= 0]
    given = [event for event in events if event.kind == "MESSAGES_HANDED_OUT"]
    for event in waiting + given:
        if event.queue_id >= 0 and not event.topic.startswith("%"):
            key = (event.group, event.topic, math.floor((event.t_ms - start_ms) / bucket_ms))
            found.setdefault(key, []).append(event)
    rows = []
    for (group, topic, bucket), inside in sorted(found.items()):
        handed = [event for event in inside if event.kind == "MESSAGES_HANDED_OUT"]
        n = sum(event.n for event in handed)
        known = [e for e in waiting if (e.group, e.topic) == (group, topic)]
        known = [e for e in known if math.floor((e.t_ms - start_ms) / bucket_ms) <= bucket]
        lags = {(event.broker, event.queue_id): event.n for event in sorted(known, key=lambda e: (e.t_ms, e.seq))}
        times = [[float(part.split("=")[1]) for part in event.detail.split()] for event in handed]
        rows.append(
            {
                "group": group,
                "topic": topic,
                "t_ms": start_ms + bucket * bucket_ms,
                "handed_out": n,
                "latency_ms": sum(e.n * mean for e, (mean, _) in zip(handed, times, strict=True)) / n if n else None,
                "latency_max_ms": max((longest for _, longest in times), default=None),
                "lag": sum(lags.values()),
            }
        )
    return rows
