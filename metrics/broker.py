"""The metrics of a broker: its tables, read at each scrape, and the counters of its events and requests."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from broker.broker import Broker, RunningBroker
from broker.topics.table import TopicEntry, queue_count
from metrics.event_counts import EventCounts
from metrics.exposition import add_table
from metrics.families import (
    CONNECTIONS,
    DISK_FREE,
    DISK_FULL,
    EVENTS_DROPPED,
    HELD_POPS,
    HELD_PULLS,
    INFO,
    LAG,
    LARGEST_SHARE,
    LEASES_HELD,
    MAX_QUEUE_SERIES,
    MEMBERS,
    MESSAGES_DAMAGED,
    MESSAGES_KEPT,
    MESSAGES_STORED,
    POPPED,
    PRODUCERS,
    QUEUE_LAG,
    REFUSED,
    SHARES_REFUSED,
    STORE_BYTES,
    STORE_HELD,
    STORE_SEGMENTS,
    STORE_SYNC_RUNNING,
    STORE_UNSYNCED,
    STORE_WRITTEN,
    UPTIME,
    WAITING_REQUESTS,
    Samples,
)

_STATS = {HELD_PULLS: "held_pulls", HELD_POPS: "held_pops", POPPED: "pop_messages", PRODUCERS: "producers"}


def readiness_problem(broker: Broker) -> str:
    """Return why clients cannot use the broker fully, not yet or no longer; "" if they can."""
    if not broker.topics.registration.registered_count:
        return "no name server has accepted its registration yet"
    if broker.store.reserve.is_missing:
        return "the disk is full: sends are refused"
    return ""


def add_broker(registry: CollectorRegistry, running: RunningBroker, counts: EventCounts, version: str) -> None:
    """Add the metrics of a running broker; `counts` receives its events."""
    record_owners(running.broker, counts)

    def read() -> Iterator[Samples]:
        yield from broker_metrics(running, version)
        yield from counts.broker_metrics()

    add_table(registry, read)


def record_owners(broker: Broker, counts: EventCounts) -> None:
    """Record the owners that a broker has from its earlier run."""
    for group, client_id in broker.leases.table.owners():
        for queue in broker.leases.table.held_by(group, client_id):
            counts.owned_before(group, queue.topic, queue.queue_id, client_id)


def broker_metrics(running: RunningBroker, version: str) -> Iterator[Samples]:
    """The state of a broker now."""
    broker, server = running.broker, running.server
    yield INFO, [(("broker", broker.config.name, version), 1)]
    yield UPTIME, [((), broker.uptime_s)]
    yield EVENTS_DROPPED, [((), broker.events.dropped)]
    yield CONNECTIONS, [((), len(server.connections))]
    yield WAITING_REQUESTS, [((), server.waiting)]
    if server.gate is not None:
        yield REFUSED, [((reason,), n) for reason, n in sorted(server.gate.refused.items())]
    stats = broker.features.stats()
    for family, name in _STATS.items():
        yield family, [((), stats.get(name, 0))]
    shares = sorted(broker.shares.tables.items())
    yield SHARES_REFUSED, [((name,), table.refused) for name, table in shares]
    yield LARGEST_SHARE, [((name,), table.largest / table.share) for name, table in shares]
    yield from _messages(broker)
    yield from _store(broker)
    yield from _groups(broker)


def _entries(broker: Broker) -> list[TopicEntry]:
    topics = broker.topics.table
    return [topics.existing(config.topic) for config in topics.configs()]


def _messages(broker: Broker) -> Iterator[Samples]:
    store = broker.store
    stored: list[tuple[tuple[str], float]] = []
    kept: list[tuple[tuple[str], float]] = []
    damaged: list[tuple[tuple[str], float]] = []
    for entry in _entries(broker):
        queues = [(entry.topic_id, queue_id) for queue_id in range(queue_count(entry.config))]
        ends = [store.max_offset(*queue) for queue in queues]
        label = (entry.config.topic,)
        stored.append((label, sum(ends)))
        kept.append((label, sum(ends) - sum(store.min_offset(*queue) for queue in queues)))
        if n_lost := sum(broker.damage.of_topic(entry.config).values()):
            damaged.append((label, n_lost))
    yield MESSAGES_STORED, stored
    yield MESSAGES_KEPT, kept
    yield MESSAGES_DAMAGED, damaged


def _store(broker: Broker) -> Iterator[Samples]:
    statistics = broker.store.statistics()
    yield STORE_WRITTEN, [((), statistics.written_position)]
    yield STORE_BYTES, [((), statistics.written_position - statistics.min_position)]
    retention = broker.retention
    yield STORE_HELD, [((), 0 if retention is None else retention.held.size_bytes)]
    yield STORE_UNSYNCED, [((), statistics.written_position - statistics.synced_position)]
    yield STORE_SYNC_RUNNING, [((), broker.barrier.disk.running_s)]
    yield STORE_SEGMENTS, [((), statistics.segments)]
    yield DISK_FULL, [((), float(broker.store.reserve.is_missing))]
    try:
        yield DISK_FREE, [((), shutil.disk_usage(broker.config.data_dir).free)]
    except OSError:
        return  # the folder was removed while the broker runs, which is in its log


def _groups(broker: Broker) -> Iterator[Samples]:
    infos = broker.groups.table.groups()
    yield MEMBERS, [((info.group,), len(info.members)) for info in infos]
    leases = broker.leases
    held: Counter[str] = Counter()
    for group, client_id in leases.table.owners():
        held[group] += len(leases.table.held_by(group, client_id))
    yield LEASES_HELD, [((group,), n) for group, n in sorted(held.items())]
    by_topic: Counter[tuple[str, str]] = Counter()
    by_queue: list[tuple[tuple[str, str, str], float]] = []
    ids = {entry.config.topic: entry.topic_id for entry in _entries(broker)}
    for group in leases.offsets.groups():
        for topic, queue_id, committed in leases.offsets.of_group(group):
            if topic in ids:
                lag = max(0, broker.store.max_offset(ids[topic], queue_id) - committed)
                by_topic[group, topic] += lag
                if len(by_queue) < MAX_QUEUE_SERIES:
                    by_queue.append(((group, topic, str(queue_id)), lag))
    yield LAG, sorted(by_topic.items())
    yield QUEUE_LAG, by_queue
