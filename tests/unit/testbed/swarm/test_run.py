from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.testbed.swarm import summary_document
from client.admin.admin import Admin
from client.allocate.registry import BUILT_IN_STRATEGIES
from model.errors import ConfigError, ConnectFailed, ServiceNotAvailable
from model.offset_reset import ResetTo
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation
from testbed.swarm.observer import Convergence, SwarmSummary, SwarmVerdict
from testbed.swarm.run import READY_TIMEOUT_S, SwarmRun, SwarmRunOptions, split_options

OPTIONS = SwarmRunOptions(
    name_servers="127.0.0.1:9876",
    topic="t",
    group="g",
    queues=4,
    consumers=8,
    producers=2,
    rate=100.0,
    body_bytes=64,
    churn_s=0.0,
    seed=0,
    processes=1,
    duration_s=5.0,
    session_timeout_s=12.0,
)


@given(consumers=st.integers(0, 20), producers=st.integers(0, 5), processes=st.integers(1, 8), churn_s=st.floats(0, 10))
def test_the_parts_together_are_the_swarm(consumers: int, producers: int, processes: int, churn_s: float) -> None:
    whole = replace(OPTIONS, consumers=consumers, producers=producers, processes=processes, churn_s=churn_s)
    parts = split_options(whole, run=1_700_000_012_345)
    assert 1 <= len(parts) <= processes
    assert sum(part.consumers for part in parts) == consumers
    numbers = [n for part in parts for n in range(part.first_producer, part.first_producer + part.producers)]
    assert numbers == list(range(producers))
    assert sum(part.rate for part in parts) == pytest.approx(whole.rate if producers else 0)
    assert len({part.prefix for part in parts}) == len(parts)
    if consumers + producers:
        assert all(part.consumers + part.producers for part in parts)
    acts_per_s = sum(1 / part.churn_s for part in parts if part.churn_s)
    assert acts_per_s == pytest.approx(1 / churn_s if churn_s and consumers else 0)


def test_two_runs_have_no_client_in_common() -> None:
    first, second = split_options(OPTIONS, run=12_345), split_options(OPTIONS, run=12_346)
    assert first[0].prefix != second[0].prefix


def test_a_session_has_room_for_lost_heartbeats() -> None:
    part = split_options(OPTIONS, run=1)[0]
    assert part.consumer_options["session_timeout_s"] == 12.0
    assert part.client_options["heartbeat_interval_s"] <= 12.0 / 3


@pytest.mark.parametrize(("order", "keys"), [("none", 0), ("queue", 0), ("key", 100)])
def test_consumers_of_every_part_keep_the_order_and_producers_have_keys_for_it(order: str, keys: int) -> None:
    for part in split_options(replace(OPTIONS, order=order, processes=2), run=1):
        assert part.consumer_options["order"] == order
        assert part.keys == keys


def test_an_order_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="order must be one of none, queue, key; got 'keys'"):
        replace(OPTIONS, order="keys")


def test_an_order_that_the_mode_does_not_keep_is_refused_before_anything_is_created() -> None:
    with pytest.raises(ConfigError, match="mode='pop' keeps no order by key"):
        replace(OPTIONS, order="key", mode="pop")


def test_consumers_of_every_part_share_queues_by_the_strategy() -> None:
    parts = split_options(replace(OPTIONS, strategy="BALANCED_STICKY", processes=2), run=1)
    assert [part.strategy for part in parts] == ["BALANCED_STICKY"] * 2


def test_a_strategy_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"no strategy 'STICKY'; there are {', '.join(BUILT_IN_STRATEGIES)}"):
        replace(OPTIONS, strategy="STICKY")


def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="mode must be one of pull, pop; got 'push'"):
        replace(OPTIONS, mode="push")


class Run:
    """A run on a simulated cluster, and what it told meanwhile."""

    def __init__(self, cluster: SimulatedCluster, **changes: Any) -> None:
        self.convergences: list[Convergence] = []
        self.statuses: list[SwarmSummary] = []
        options = {"name_servers": ",".join(cluster.addresses), "clock_ms": cluster.simulation.clock_ms, **changes}
        self.swarm_run = SwarmRun(
            replace(OPTIONS, **options), on_converged=self.convergences.append, on_status=self.statuses.append
        )

    @property
    def summary(self) -> SwarmSummary:
        assert self.swarm_run.summary is not None
        return self.swarm_run.summary


@pytest.mark.simulation
class TestOnACluster:
    @pytest.fixture
    def on_cluster(self, tmp_path: Any) -> Any:
        def run(scenario: Any, **options: Any) -> Any:
            async def main(simulation: Simulation) -> Any:
                async with SimulatedCluster(simulation, tmp_path, **options) as cluster:
                    with simulation.on_host("swarm"):
                        return await scenario(cluster)

            return run_simulation(main)

        return run

    def test_it_creates_the_topic_lives_and_counts(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster, duration_s=25.0, rate=40.0)
            await run.swarm_run.run()
            return run

        run = on_cluster(scenario)
        assert run.summary.ok
        assert (run.summary.consumers, run.summary.queues) == (8, 8)
        assert run.summary.sent == run.summary.received_unique == pytest.approx(1_000, abs=3)
        assert [status.sent for status in run.statuses] == pytest.approx([0, 400, 800], abs=3)
        assert run.convergences[-1].members == 8

    def test_consumers_that_pop_share_messages_and_have_no_balance_to_find(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster, mode="pop", queues=1, consumers=5, churn_s=1.0)
            await run.swarm_run.run()
            return run

        run = on_cluster(scenario)
        assert run.summary.ok
        assert run.summary.received_unique == run.summary.sent > 400
        assert run.convergences == []

    def test_when_it_is_cancelled_it_still_counts_before_its_consumers_leave(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster, duration_s=0.0, churn_s=1.0, rate=20.0)
            with anyio.move_on_after(20):
                await run.swarm_run.run()
            return run

        run = on_cluster(scenario)
        assert run.summary.ok
        assert run.summary.sent > 300
        assert run.summary.consumers > 0
        assert run.summary.rebalances > 10
        assert all(each.members for each in run.convergences)

    def test_it_follows_a_topic_that_is_scaled_in_between(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster, duration_s=40.0, rate=20.0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.swarm_run.run)
                await anyio.sleep(10)
                async with Admin(cluster.addresses) as admin:
                    await admin.scale_topic("t", read=6, write=6)
            return run

        run = on_cluster(scenario)
        assert run.summary.ok
        assert run.summary.queues == 12
        assert run.convergences[-1].what == "queues moved by themselves"

    def test_it_waits_a_while_for_a_broker(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.swarm_run.run)
                await anyio.sleep(READY_TIMEOUT_S / 2)
                await cluster.add_broker("broker-z")
            return run

        assert on_cluster(scenario, brokers=0).summary.ok

    def test_without_a_broker_or_a_name_server_it_says_so(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> None:
            with pytest.raises(ServiceNotAvailable):
                await Run(cluster).swarm_run.run()
            with pytest.raises(ConnectFailed):
                await Run(cluster, name_servers="nowhere:9876").swarm_run.run()

        on_cluster(scenario, brokers=0)

    @pytest.mark.parametrize("after_another_run", [False, True])
    def test_messages_that_no_one_has_read_are_unread_and_not_lost(
        self, on_cluster: Any, after_another_run: bool
    ) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            if after_another_run:
                await Run(cluster, consumers=0, duration_s=0.4).swarm_run.run()
            run = Run(cluster, consumers=0, duration_s=1.0)
            await run.swarm_run.run()
            return run

        summary = on_cluster(scenario).summary
        assert (summary.verdict, summary.ok) == (SwarmVerdict.UNREAD, False)
        assert (summary.lost, summary.unknown) == (0, 0)
        assert summary.unread == summary.sent > 0

    def test_of_messages_that_a_group_could_not_read_in_time_none_is_lost(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster, duration_s=3.0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.swarm_run.run)
                await anyio.sleep(2.0)
                async with Admin(cluster.addresses) as admin:
                    await admin.set_group("g", consume=False)
            return run

        summary = on_cluster(scenario).summary
        assert (summary.verdict, summary.lost, summary.unknown) == (SwarmVerdict.UNREAD, 0, 0)
        assert summary.unread == summary.sent - summary.received_unique > 0

    def test_messages_that_a_group_has_skipped_are_lost_although_their_queues_have_them(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster, duration_s=3.0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.swarm_run.run)
                await anyio.sleep(1.0)
                async with Admin(cluster.addresses) as admin:
                    await admin.set_group("g", consume=False)
                    await anyio.sleep(1.0)
                    await admin.reset_offsets("g", "t", ResetTo.latest())
                    await admin.set_group("g", consume=True)
            return run

        summary = on_cluster(scenario).summary
        assert (summary.verdict, summary.unread, summary.unknown) == (SwarmVerdict.FAILED, 0, 0)
        assert summary.lost == summary.sent - summary.received_unique > 0

    def test_where_a_broker_is_away_it_is_unknown_what_became_of_messages(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster, consumers=0, duration_s=2.0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.swarm_run.run)
                await anyio.sleep(1.0)
                await cluster.brokers["broker-a"].crash()
            return run

        summary = on_cluster(scenario).summary
        assert (summary.verdict, summary.lost) == (SwarmVerdict.UNKNOWN, 0)
        assert summary.unknown > 0
        assert summary.unread > 0, "the queues of the other broker are read"
        assert summary.unread + summary.unknown == summary.sent

    def test_a_name_of_a_figure_has_one_meaning_in_the_whole_document(self, on_cluster: Any) -> None:
        async def scenario(cluster: SimulatedCluster) -> Run:
            run = Run(cluster, churn_s=0.5)
            await run.swarm_run.run()
            return run

        found = summary_document(on_cluster(scenario).summary)
        in_all = found["in_all"]
        assert isinstance(in_all, dict)
        shared = found.keys() & in_all.keys()
        assert shared >= {"rebalances", "needed", "orphan_ms"}
        assert {name: found[name] for name in shared} == {name: in_all[name] for name in shared}
        assert (found["queues_moved"], found["double_owner_ms"]) == (in_all["moves"], in_all["double_ms"])
