"""Samples in the form of prometheus-client: tables that are read at each scrape, histograms, the event-loop delay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

import anyio
from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from metrics.families import LOOP_DELAY, Family, Kind, Samples

SAMPLE_INTERVAL_S = 0.25

# Otherwise each series gets a second one with its creation time, which no query here needs.
disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus-client ships it without types


class TableCollector(Collector):
    """Calls a function at each scrape; its samples are the current state."""

    def __init__(self, read: Callable[[], Iterable[Samples]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        for family, samples in self._read():
            counts = family.kind is Kind.COUNTER
            metric = (CounterMetricFamily if counts else GaugeMetricFamily)(
                family.name, family.help, labels=family.labels
            )
            for labels, value in samples:
                metric.add_metric(list(labels), value)
            yield metric


def add_table(registry: CollectorRegistry, read: Callable[[], Iterable[Samples]]) -> None:
    """Add a function to a registry, which calls it at each scrape, on the event loop; the function must not block."""
    registry.register(TableCollector(read))


def histogram(registry: CollectorRegistry, family: Family) -> Histogram:
    """Create a histogram in a registry."""
    return Histogram(family.name, family.help, family.labels, registry=registry, buckets=family.buckets)


async def watch_loop_delay(registry: CollectorRegistry) -> None:
    """Observe, until cancelled, the delay with which the running loop wakes a task. Cancellation: harmless."""
    delays, loop = histogram(registry, LOOP_DELAY), asyncio.get_running_loop()
    while True:
        due_at = loop.time() + SAMPLE_INTERVAL_S
        await anyio.sleep_until(due_at)
        delays.observe(max(0.0, loop.time() - due_at))
