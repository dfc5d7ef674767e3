"""The lag of streams: from the progress that Spark reports, and as gauges for Prometheus.

    with lag_gauges(spark):
        start_http_server(9100)  # of prometheus_client
        query.awaitTermination()

Progress has two offsets of each stream, the end of its last batch and the end of its queues at that time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import REGISTRY, CollectorRegistry, Gauge
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pipeline.source.offsets import Offsets
from pipeline.source.progress import parse_progress

LABELS = ("query", "topic", "broker")


def compute_lags(end: str | None, latest: str | None) -> Offsets:
    """Return the lag of each queue after a micro-batch, from the `endOffset` and the `latestOffset` of its source."""
    ends = parse_progress(end)
    return {queue: max(0, offset - ends.get(queue, 0)) for queue, offset in parse_progress(latest).items()}


class LagGauges(StreamingQueryListener):
    """Sets a gauge after each batch: `rlab_stream_lag`, unread messages by query, topic and broker.

    A query is identified by its name, or else by its id, and its series are removed when it ends.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self._gauge = Gauge(
            "rlab_stream_lag", "Messages that a stream of Spark has not read.", LABELS, registry=registry
        )
        self._series: dict[str, set[tuple[str, str, str]]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Set the gauge from the progress of a batch."""
        progress = event.progress
        lags: Counter[tuple[str, str, str]] = Counter()
        for source in progress.sources:
            for queue, lag in compute_lags(source.endOffset, source.latestOffset).items():
                lags[progress.name or str(progress.id), queue.topic, queue.broker_name] += lag
        for labels, lag in lags.items():
            self._gauge.labels(*labels).set(lag)
        self._series.setdefault(str(progress.id), set()).update(lags)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: the last batch read all messages."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Remove the series of a query that has ended."""
        for labels in self._series.pop(str(event.id), ()):
            self._gauge.remove(*labels)

    def close(self) -> None:
        """Remove the gauge from its registry."""
        self._registry.unregister(self._gauge)


@contextmanager
def lag_gauges(spark: SparkSession, registry: CollectorRegistry = REGISTRY) -> Iterator[LagGauges]:
    """Keep the gauge of the session's streams while the block runs."""
    gauges = LagGauges(registry)
    spark.streams.addListener(gauges)
    try:
        yield gauges
    finally:
        spark.streams.removeListener(gauges)
        gauges.close()
