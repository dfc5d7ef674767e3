"""The metrics of a replica: its set in every role, and the metrics of a broker in the role of the master."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from metrics.broker import broker_metrics, readiness_problem
from metrics.event_counts import EventCounts
from metrics.exposition import add_table
from metrics.families import (
    INFO,
    REGISTER_ANSWERS,
    REPLICA_EPOCH,
    REPLICA_LAG,
    REPLICA_LAG_TIME,
    REPLICA_LEASE,
    REPLICA_LEASE_LAPSES,
    REPLICA_LEASE_MARGIN,
    REPLICA_POSITION,
    REPLICA_ROLE,
    REPLICAS_IN_SYNC,
    REPLICAS_WANTED,
    Samples,
)
from replica.host import Role, RunningReplica


def replica_readiness_problem(replica: RunningReplica) -> str:
    """Return why a replica is not ready yet, or no longer ready; "" if it is ready."""
    if replica.running is not None:
        return readiness_problem(replica.running.broker)
    return "" if replica.role is Role.FOLLOWING else "it waits for the register of its set"


def add_replica(registry: CollectorRegistry, replica: RunningReplica, counts: EventCounts, version: str) -> None:
    """Add the metrics of a running replica; `counts` receives its events."""

    def read() -> Iterator[Samples]:
        running = replica.running
        if running is None:
            yield INFO, [(("broker", replica.name, version), 1)]
        else:
            yield from broker_metrics(running, version)
        yield from _set(replica)
        yield from counts.broker_metrics()

    add_table(registry, read)


def _set(replica: RunningReplica) -> Iterator[Samples]:
    state, row = replica.state(), replica.row
    yield REPLICA_ROLE, [((replica.role.value,), 1)]
    yield REGISTER_ANSWERS, [((), float(state["register_answers"]))]
    yield REPLICA_POSITION, [((), state["end_position"])]
    if row is not None:
        yield REPLICA_EPOCH, [((), row.epoch)]
        yield REPLICAS_IN_SYNC, [((), len(row.in_sync))]
        yield REPLICAS_WANTED, [((), row.copies)]
        yield REPLICA_LEASE, [((), row.lease_ms / 1000)]
    if replica.mastering is not None and replica.running is not None:
        yield REPLICA_LEASE_LAPSES, [((), replica.mastering.sender.lease.lapses)]
    if state["lease_margin_s"] is not None:
        yield REPLICA_LEASE_MARGIN, [((), state["lease_margin_s"])]
    others = state["replicas"]
    yield REPLICA_LAG, [((str(each["replica_id"]),), each["lag_bytes"]) for each in others]
    yield REPLICA_LAG_TIME, [((str(each["replica_id"]),), each["lag_s"]) for each in others]
