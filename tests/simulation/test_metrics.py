"""What is shown to Prometheus is what a report of the same events says."""

from __future__ import annotations

from random import Random

import anyio
import pytest

from client.allocate.registry import strategy_named
from metrics.event_counts import EventCounts
from metrics.families import (
    GROUP_DOUBLE_TIME,
    GROUP_DUPLICATES,
    GROUP_HANDED_OUT,
    GROUP_MOVES,
    GROUP_NEEDED,
    GROUP_ORPHAN_TIME,
    GROUP_PAUSE_TIME,
    GROUP_REBALANCES,
    HANDED_OUT,
    LEASES_GRANTED,
    MOVES,
    TRACE_LATE,
    Family,
    Samples,
)
from metrics.trace_counts import SETTLE_MS, TraceCounts
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.swarm.members import SwarmOptions, run_swarm
from testbed.swarm.observer import SwarmObserver
from tests.simulation.conftest import Simulate
from traces.figures.records import GroupTotals
from traces.figures.trace import compute_figures

pytestmark = pytest.mark.simulation


def value(metrics: list[Samples], family: Family, *labels: str) -> float:
    return sum(n for each, samples in metrics if each is family for found, n in samples if tuple(found) == labels)


@pytest.fixture
def churn(simulate: Simulate) -> list[Event]:
    """Every event of a group under churn, one of whose members is killed, and whose brokers restart."""

    async def scenario(cluster: SimulatedCluster) -> list[Event]:
        await cluster.create_topic("t", queues=4)
        observer = SwarmObserver("g", "t", strategy_named("AVG"))
        observer.set_queues([MessageQueue("t", b, n) for b in ("broker-a", "broker-b") for n in range(4)], 0)
        seen: list[Event] = []
        cluster.watchers.append(seen.append)
        options = SwarmOptions(
            name_servers=",".join(cluster.addresses),
            topic="t",
            group="g",
            prefix="s",
            run=1,
            consumers=4,
            producers=1,
            churn_s=0.7,
            clock_ms=cluster.simulation.clock_ms,
            client_options={"event_sink": seen.append},
        )
        with cluster.simulation.on_host("swarm"):
            async with run_swarm(options, observer) as swarm:
                swarm.start_producing()
                await anyio.sleep(6)
                await cluster.brokers["broker-a"].stop()
                await cluster.brokers["broker-a"].start()
                await anyio.sleep(6)
                await swarm.fall_quiet()
                await anyio.sleep(1)
        return seen

    return simulate(scenario, seed=11)


def totals(events: list[Event]) -> GroupTotals:
    return compute_figures(events, "g").totals()


def test_the_sums_of_the_brokers_and_of_the_clients_are_the_figures_of_the_report(churn: list[Event]) -> None:
    nodes: dict[tuple[str, int], EventCounts] = {}
    owners: dict[tuple[str, str, str, int], str] = {}
    for event in churn:
        # A broker that restarts is another process, which knows the leases that the one before has stored.
        key = event.node, event.seq // 1_000_000_000
        if key not in nodes:
            counts = nodes[key] = EventCounts()
            for (node, group, topic, queue_id), owner in owners.items():
                if node == event.node:
                    counts.owned_before(group, topic, queue_id, owner)
        nodes[key](event)
        if event.kind == EventKind.LOCK_GRANTED:
            owners[event.node, event.group, event.topic, event.queue_id] = event.client
    metrics = [each for counts in nodes.values() for each in (*counts.broker_metrics(), *counts.client_metrics())]
    report = totals(churn)
    assert value(metrics, MOVES, "g") == report.moves > 20
    assert value(metrics, HANDED_OUT, "g") == report.handed_out > 1_000
    granted = sum(event.kind == EventKind.LOCK_GRANTED for event in churn)
    assert value(metrics, LEASES_GRANTED, "g") == granted > report.moves


def test_the_exporter_has_the_figures_of_the_report_although_nodes_send_late(churn: list[Event]) -> None:
    rng = Random(3)
    rebalances = 0

    def ended(_rebalance: object) -> None:
        nonlocal rebalances
        rebalances += 1

    counts = TraceCounts(on_rebalance=ended)
    end_ms = max(event.t_ms for event in churn)
    # Each event comes up to two seconds after it happened, and the exporter looks twice a second.
    coming = sorted(churn, key=lambda event: event.t_ms + rng.random() * 2_000)
    now_ms = churn[0].t_ms
    while coming:
        now_ms += 500
        ready = [event for event in coming if event.t_ms + 2_000 <= now_ms]
        counts.add(ready)
        taken = {event.id for event in ready}
        coming = [event for event in coming if event.id not in taken]
        counts.advance(now_ms)
    counts.advance(end_ms + SETTLE_MS)
    metrics, report = list(counts.metrics()), totals(churn)
    assert value(metrics, TRACE_LATE) == 0
    assert value(metrics, GROUP_MOVES, "g") == report.moves > 20
    assert value(metrics, GROUP_REBALANCES, "g") == report.rebalances > 5
    assert value(metrics, GROUP_HANDED_OUT, "g") == report.handed_out
    assert value(metrics, GROUP_DUPLICATES, "g") == report.duplicates
    assert value(metrics, GROUP_ORPHAN_TIME, "g") == pytest.approx(report.orphan_ms / 1000)
    assert value(metrics, GROUP_DOUBLE_TIME, "g") == pytest.approx(report.double_ms / 1000)
    assert value(metrics, GROUP_PAUSE_TIME, "g") == pytest.approx(report.pause_ms / 1000)
    assert value(metrics, GROUP_NEEDED, "g") == report.needed
    assert report.orphan_ms > 0


def test_an_event_that_comes_after_later_ones_were_counted_is_reported(churn: list[Event]) -> None:
    counts = TraceCounts(settle_ms=0)
    counts.add(churn[1:])
    counts.advance(churn[-1].t_ms)
    counts.add(churn[:1])
    counts.advance(churn[-1].t_ms)
    assert value(list(counts.metrics()), TRACE_LATE) == 1
