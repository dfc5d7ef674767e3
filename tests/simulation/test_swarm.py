"""The swarm on a simulated cluster: the real clients, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import anyio
import pytest

from client.allocate.registry import BUILT_IN_STRATEGIES, strategy_named
from model.events import Event, EventKind
from model.heartbeat import ConsumeFrom
from model.message_queue import MessageQueue
from pipeline.replay.recorded import read_recorded
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.swarm.members import SwarmOptions, run_swarm
from testbed.swarm.observer import SwarmObserver, SwarmSummary, round_times
from tests.simulation.conftest import Simulate
from traces.figures.records import GroupTotals
from traces.figures.trace import compute_figures

pytestmark = pytest.mark.simulation

QUEUES = [MessageQueue("t", broker, n) for broker in ("broker-a", "broker-b") for n in range(4)]


async def watch(observer: SwarmObserver, cluster: SimulatedCluster, seconds: float, **options: Any) -> SwarmSummary:
    """Run a swarm for so many virtual seconds, and a second more without producing."""
    simulation = cluster.simulation
    await cluster.create_topic("t", queues=4)
    observer.set_queues(QUEUES, simulation.clock_ms())
    swarm_options = SwarmOptions(
        name_servers=",".join(cluster.addresses),
        topic="t",
        group="g",
        prefix="s",
        clock_ms=simulation.clock_ms,
        **{"run": 1, **options},
    )
    with simulation.on_host("swarm"):
        async with run_swarm(swarm_options, observer) as swarm:
            swarm.start_producing()
            await anyio.sleep(seconds)
            await swarm.fall_quiet()
            await anyio.sleep(1.0)
            summary = observer.summary()
    assert swarm.consumers == {}
    return summary


class RecordingObserver(SwarmObserver):
    """Keeps the events of the swarm's clients as well."""

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.events: list[Event] = []

    def event(self, event: Event) -> None:
        super().event(event)
        self.events.append(event)


def new_observer(strategy: str = "AVG") -> SwarmObserver:
    return SwarmObserver("g", "t", strategy_named(strategy))


def test_a_swarm_sends_at_its_rate_and_receives_every_message_once(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> SwarmSummary:
        return await watch(new_observer(), cluster, 10.0, consumers=3, producers=2, rate=100.0)

    summary = simulate(scenario)
    assert summary.ok
    assert 995 <= summary.sent <= 1_005
    assert (summary.received_unique, summary.lost, summary.duplicates) == (summary.sent, 0, 0)
    assert (summary.consumers, summary.queues) == (3, 8)
    assert summary.double_owner_ms == 0


@pytest.mark.parametrize(("strategy", "seed"), list(zip(BUILT_IN_STRATEGIES, count(1), strict=False)))
def test_under_churn_the_group_finds_its_balance_each_time_and_nothing_is_lost_or_doubled(
    simulate: Simulate, strategy: str, seed: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> SwarmSummary:
        options = {"consumers": 4, "producers": 1, "rate": 20.0, "churn_s": 1.0, "seed": seed, "strategy": strategy}
        return await watch(new_observer(strategy), cluster, 30.0, **options)

    summary = simulate(scenario, seed=seed)
    assert summary.ok
    assert summary.rebalances >= 25
    assert summary.queues_moved > 50
    assert (summary.lost, summary.duplicates, summary.double_owner_ms) == (0, 0, 0)
    assert summary.balance_ms_p95 is not None
    assert summary.balance_ms_p95 < 250


def test_swarm_report_and_what_if_have_the_same_figures_to_the_unit(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> tuple[GroupTotals, list[Event]]:
        observer = RecordingObserver("g", "t", strategy_named("AVG"))
        options = {"consumers": 100, "producers": 1, "rate": 50.0, "churn_s": 0.5, "seed": 4}
        await watch(observer, cluster, 15.0, **options)
        return observer.in_all(), [*cluster.events, *observer.events]

    swarm, events = simulate(scenario, seed=4)
    report = round_times(compute_figures(events, "g").totals())  # what Spark runs for each group
    # Brokers alone tell these two.
    swarm = replace(swarm, backlog_max=report.backlog_max, possible_duplicates=report.possible_duplicates)
    assert swarm == report
    assert round_times(read_recorded(events, "g").figures) == report
    assert report.moves > 50
    assert report.orphan_ms > 10
    assert report.needed < report.moves
    assert report.members_left == report.members_joined > 100


def test_messages_of_another_run_in_the_same_topic_are_left_out(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> tuple[SwarmSummary, SwarmSummary, int]:
        first = await watch(new_observer(), cluster, 2.0, run=1, producers=1, rate=50.0)
        before = len(cluster.events)
        first_offset = {"consume_from": ConsumeFrom.FIRST_OFFSET, "event_sink": cluster.events.append}
        second = await watch(new_observer(), cluster, 2.0, run=2, consumers=1, consumer_options=first_offset)
        return first, second, len(cluster.events_of(EventKind.FIRST_MESSAGE, before, topic="t"))

    first, second, queues_with_messages = simulate(scenario)
    assert first.sent == first.lost == 100
    assert queues_with_messages == 8
    assert (second.received_unique, second.duplicates) == (0, 0)


def test_equal_seeds_give_equal_swarms(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> SwarmSummary:
        return await watch(new_observer(), cluster, 8.0, consumers=3, producers=1, churn_s=0.5, seed=5)

    assert simulate(scenario, seed=5) == simulate(scenario, seed=5)


def test_an_outage_is_one_warning_however_many_sends_fail_in_it(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: SimulatedCluster) -> SwarmSummary:
        async def cut_twice() -> None:
            for _ in range(2):
                await anyio.sleep(5)
                cluster.simulation.network.partition("swarm", "broker-a")
                await anyio.sleep(20)
                cluster.simulation.network.heal()
                await anyio.sleep(20)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut_twice)
            summary = await watch(new_observer(), cluster, 95.0, producers=2, rate=20.0)
        return summary

    summary = simulate(scenario, brokers=1)
    assert summary.failed_sends > 100
    warnings = [record.getMessage() for record in caplog.records if record.name == "testbed.swarm.members"]
    assert [text.startswith("sends fail") for text in warnings] == [True, True]
