"""The metrics of the consumers and producers of a process.

metrics = ClientMetrics()
consumer = PushConsumer(name_servers, "billing", event_sink=metrics.event_sink)
producer = Producer(name_servers, event_sink=metrics.event_sink, latency_sink=metrics.latency_sink)
print(metrics.exposition())                          # or metrics.registry, or serve_metrics(listen, metrics.registry)
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from metrics.event_counts import EventCounts
from metrics.exposition import add_table, histogram
from metrics.families import OWNED_QUEUES, SEND_TIME, Samples
from model.event_log import EventSink


class ClientMetrics:
    """Metrics of all clients that use the `event_sink` of this object, and of sends that use its `latency_sink`.

    Args:
        registry: the registry that shows them; the default is prometheus-client's own, which suits an application that
            already shows its own metrics there.
        then: receives every event afterwards.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, then: EventSink | None = None) -> None:
        self.registry = registry
        self.event_sink = EventCounts(then)
        add_table(registry, self._read)
        times = histogram(registry, SEND_TIME)
        self._sent, self._failed = times.labels("sent"), times.labels("failed")

    def latency_sink(self, seconds: float, succeeded: bool) -> None:
        """Observe the time of a send: the `latency_sink` of producers."""
        (self._sent if succeeded else self._failed).observe(seconds)

    def _read(self) -> Iterator[Samples]:
        yield OWNED_QUEUES, [((group,), n) for group, n in sorted(self.event_sink.owned().items())]
        yield from self.event_sink.client_metrics()

    def exposition(self) -> bytes:
        """Return all metrics of the registry in Prometheus' text format."""
        return generate_latest(self.registry)
