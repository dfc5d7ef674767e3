"""A set chooses its master: what a failover takes, and that no two masters serve at once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from model.errors import NotMaster
from model.events import EventKind
from model.replica_limits import LEASE_S
from model.replica_set import Elect
from replica.lease.master_lease import GRACE
from replica.mastership.operate import elect
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.sets import SimulatedReplica
from tests.simulation.conftest import Simulate
from tests.simulation.test_replicas import (
    pair_with_topic,
    row_of,
    send_for,
    stored,
    the_set,
    wait_in_sync,
)

pytestmark = pytest.mark.simulation

PAIR: dict[str, Any] = {"brokers": 1, "copies": 2, "set_options": {"elect": Elect.AUTO}}
FAST_PAIR: dict[str, Any] = {**PAIR, "set_options": {"elect": Elect.FAST}}


async def wait_master(cluster: SimulatedCluster, number: int, timeout_s: float = 10.0) -> SimulatedReplica:
    """Wait until a replica serves as the newest master."""
    with anyio.fail_after(timeout_s):
        while the_set(cluster).master is not cluster.replicas[f"broker-a-{number}"]:  # noqa: ASYNC110 - virtual time
            await anyio.sleep(0.01)
    return cluster.replicas[f"broker-a-{number}"]


def elections(cluster: SimulatedCluster) -> list[str]:
    return [event.detail for event in cluster.events_of(EventKind.MASTER_ELECTED)]


async def elect_beside(cluster: SimulatedCluster, number: int) -> None:
    """An operator who does not reach the master elects a replica."""

    async def away(_: str) -> bool:
        return False

    await elect(cluster.register, "broker-a", number, accept_loss=False, answers=away)


@pytest.mark.parametrize(("options", "bound_s"), [(PAIR, 3.0), (FAST_PAIR, 0.6)], ids=["auto", "fast"])
def test_after_a_kill_of_the_master_sends_go_on_soon_and_nothing_is_lost_and_no_queue_moves(
    simulate: Simulate, options: dict[str, Any], bound_s: float
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        consumers = [await cluster.start_consumer("billing", "orders") for _ in range(2)]
        await cluster.wait_converged(5.0)
        dropped = len(cluster.events_of(EventKind.QUEUE_DROPPED))
        gaps: list[float] = []
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                gaps.append(await send_for(cluster, producer, 8.0))

            tasks.start_soon(send)
            await anyio.sleep(2.0)
            await cluster.replicas["broker-a-1"].crash()
        assert gaps[0] < bound_s
        row = await row_of(cluster)
        assert (row.master, row.epoch, row.in_sync) == (2, 2, (2,))
        await cluster.replicas["broker-a-1"].start()
        await wait_in_sync(cluster, 1, 2)
        await anyio.sleep(5.0)
        assert (await row_of(cluster)).master == 2
        assert set(producer.acknowledged) <= set(await stored(cluster))
        assert {body for consumer in consumers for body in consumer.bodies} >= set(producer.acknowledged)
        assert len(cluster.events_of(EventKind.QUEUE_DROPPED)) == dropped
        cause = "the process of replica 1 has ended" if options is FAST_PAIR else "the lease of replica 1 was over"
        assert elections(cluster)[-1].endswith(cause)

    simulate(scenario, **options)


def test_a_master_whose_block_is_cancelled_ends_after_its_handover_however_late_the_register_answers(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await wait_in_sync(cluster, 1, 2)
        old = cluster.replicas["broker-a-1"]
        old.to_register.delay_s = 0.05
        began_at = anyio.current_time()
        await old.stop()
        await wait_master(cluster, 2)
        assert anyio.current_time() - began_at < 1.0
        assert elections(cluster)[-1].endswith("handover")
        assert (await row_of(cluster)).in_sync == (2,)

    simulate(scenario, **PAIR)


def test_of_three_replicas_one_becomes_the_master_and_the_other_follows_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await wait_in_sync(cluster, 1, 2, 3)
        await cluster.replicas["broker-a-1"].crash()
        await wait_master(cluster, 2)
        await anyio.sleep(3.0)
        row = await row_of(cluster)
        assert (row.master, row.epoch, row.in_sync) == (2, 2, (2, 3))
        assert len(elections(cluster)) == 2

    simulate(scenario, brokers=1, copies=3, set_options={"elect": Elect.AUTO})


def test_a_master_that_hangs_serves_nothing_from_before_another_one_begins(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        await producer.send_many("orders", 10)
        old = cluster.replicas["broker-a-1"]
        sender = old.running.mastering
        assert sender is not None
        with cluster.simulation.network.stall(old.host):
            old.to_register.down = True  # it can neither remove the other one nor find out
            with anyio.fail_after(LEASE_S + 0.1):
                while sender.sender.may_serve():  # noqa: ASYNC110 - virtual time costs nothing
                    await anyio.sleep(0.01)
            assert (await row_of(cluster)).master == 1
            await wait_master(cluster, 2)
            assert isinstance(sender.sender.refusal(), NotMaster)
        old.to_register.down = False
        await producer.send_many("orders", 10, first=10)
        await wait_in_sync(cluster, 1, 2)
        assert await stored(cluster) == sorted(b"%d" % number for number in range(20))

    simulate(scenario, **PAIR)


def test_a_cut_between_two_replicas_that_reach_the_register_leaves_the_master_in_its_place(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        with cluster.simulation.network.partition("broker-a-1", "broker-a-2"):
            assert await send_for(cluster, producer, 10.0) < 1.5
        await wait_in_sync(cluster, 1, 2)
        assert (await row_of(cluster)).master == 1
        assert len(elections(cluster)) == 1

    simulate(scenario, **PAIR)


def test_without_the_register_no_replica_becomes_the_master_and_one_does_as_soon_as_it_is_back(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await pair_with_topic(cluster)
        follower = cluster.replicas["broker-a-2"]
        follower.to_register.down = True
        await cluster.replicas["broker-a-1"].crash()
        await anyio.sleep(20.0)
        assert the_set(cluster).master is None
        follower.to_register.down = False
        await wait_master(cluster, 2, 1.5)

    simulate(scenario, **PAIR)


def test_a_replica_that_an_operator_elects_waits_until_the_lease_of_a_master_that_hangs_is_over(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await pair_with_topic(cluster)
        old = cluster.replicas["broker-a-1"]
        mastering = old.running.mastering
        assert mastering is not None

        old.to_register.down = True
        with cluster.simulation.network.stall(old.host):
            await anyio.sleep(0.1)
            await elect_beside(cluster, 2)
            began_at = anyio.current_time()
            while the_set(cluster).master is old:  # noqa: ASYNC110 - virtual time costs nothing
                await anyio.sleep(0.01)
            assert not mastering.sender.may_serve()
            assert LEASE_S - 0.5 < anyio.current_time() - began_at < GRACE * LEASE_S + 0.5
        old.to_register.down = False

    simulate(scenario, brokers=1, copies=2)


def test_a_replica_that_is_not_in_sync_never_stands(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        with cluster.simulation.network.stall("broker-a-2"):
            await wait_in_sync(cluster, 1)
            await producer.send_many("orders", 5)
            await cluster.replicas["broker-a-1"].crash()
        await anyio.sleep(30.0)
        assert (await row_of(cluster)).master == 1
        assert the_set(cluster).master is None
        await cluster.replicas["broker-a-1"].start()
        assert (await row_of(cluster)).epoch == 2

    simulate(scenario, **PAIR)


def test_a_set_whose_master_does_not_return_after_a_stop_of_all_elects_another_one(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        await producer.send_many("orders", 5)
        await cluster.replicas["broker-a-1"].crash()
        await cluster.replicas["broker-a-2"].crash()
        await cluster.replicas["broker-a-2"].start()
        await wait_master(cluster, 2, GRACE * LEASE_S + 1.0)
        assert await stored(cluster) == sorted(b"%d" % number for number in range(5))

    simulate(scenario, **PAIR)


def test_an_elected_replica_that_starts_again_waits_for_the_lease_of_the_old_master_too(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await pair_with_topic(cluster)
        old, elected = (cluster.replicas[f"broker-a-{each}"] for each in (1, 2))
        mastering = old.running.mastering
        assert mastering is not None
        old.to_register.down = True  # it serves as long as its lease
        await elect_beside(cluster, 2)
        await elected.crash()
        await elected.start()
        while the_set(cluster).master is old:  # noqa: ASYNC110 - virtual time costs nothing
            await anyio.sleep(0.01)
        assert not mastering.sender.may_serve()
        assert (await row_of(cluster)).epoch == 3
        old.to_register.down = False
        await wait_in_sync(cluster, 1, 2)
        await old.crash()
        await elected.crash()
        began_at = anyio.current_time()
        await elected.start()
        await wait_master(cluster, 2)
        assert anyio.current_time() - began_at < 0.5  # it has begun before, so the old master has stopped

    simulate(scenario, brokers=1, copies=2)


def test_a_handover_whose_last_frame_is_lost_takes_no_longer_than_any_other(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        old = cluster.replicas["broker-a-1"]
        mastering = old.running.mastering
        assert mastering is not None
        monkeypatch.setattr(mastering.sender, "announce_handover", lambda row: None)
        gaps: list[float] = []
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                gaps.append(await send_for(cluster, producer, 5.0))

            tasks.start_soon(send)
            await anyio.sleep(1.0)
            await old.stop()
        assert gaps[0] < 0.6
        assert elections(cluster)[-1].endswith("handover")

    simulate(scenario, **PAIR)


@pytest.mark.parametrize("seed", range(4))
def test_no_other_replica_overrules_the_choice_of_an_operator(simulate: Simulate, seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await wait_in_sync(cluster, 1, 2, 3)
        cluster.replicas["broker-a-3"].to_register.delay_s = 0.3  # it sees the row later than the others do
        await anyio.sleep(0.1 + 0.3 * seed)
        await elect_beside(cluster, 3)
        await anyio.sleep(8.0)
        row = await row_of(cluster)
        assert (row.master, row.epoch, row.has_settled) == (3, 2, True)
        assert len(elections(cluster)) == 2

    simulate(scenario, brokers=1, copies=3, set_options={"elect": Elect.AUTO}, seed=seed)
