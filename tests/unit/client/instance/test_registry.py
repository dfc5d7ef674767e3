"""One instance per name: it is started once, shared, and stopped by the last one, whatever happens meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import pytest

from client.config import ClientConfig
from client.instance.instance import ClientInstance
from client.instance.registry import acquire_instance, release_instance
from model.errors import ConnectFailed
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate


def config(cluster: SimulatedCluster, **options: Any) -> ClientConfig:
    return ClientConfig(name_servers=cluster.addresses, rng=Random(1), clock_ms=cluster.simulation.clock_ms, **options)


def test_clients_of_one_name_share_an_instance_and_others_do_not(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first, second = [await acquire_instance(config(cluster, instance_name="a")) for _ in range(2)]
        others = [
            await acquire_instance(config(cluster, instance_name="b")),
            await acquire_instance(config(cluster, instance_name="a", client_ip="10.0.0.9")),
            await acquire_instance(config(cluster)),
            await acquire_instance(config(cluster)),
        ]
        assert first is second
        assert len({first, *others}) == 5
        for instance in (first, second, *others):
            await release_instance(instance)
        await anyio.sleep(1)
        assert cluster.simulation.network.connections("127.0.0.1") == ()

    simulate(scenario, brokers=0)


def test_the_last_one_stops_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        shared = config(cluster, instance_name="a")
        instance = await acquire_instance(shared)
        await acquire_instance(shared)
        await release_instance(instance)
        assert len(cluster.simulation.network.connections("127.0.0.1")) == 1
        await release_instance(instance)
        await anyio.sleep(1)
        assert cluster.simulation.network.connections("127.0.0.1") == ()
        again = await acquire_instance(shared)
        assert again is not instance
        await release_instance(again)

    simulate(scenario, brokers=0)


def test_who_comes_while_it_starts_waits_for_it(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        got: list[ClientInstance] = []

        async def acquire() -> None:
            got.append(await acquire_instance(config(cluster, instance_name="a")))
            assert got[-1].client_id

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(acquire)
        assert len(set(got)) == 1
        for instance in got:
            await release_instance(instance)

    simulate(scenario, brokers=0)


@pytest.mark.parametrize("turns", range(8))
def test_who_comes_while_it_is_stopped_gets_one_that_runs(simulate: Simulate, turns: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        shared = config(cluster, instance_name="a")
        first = await acquire_instance(shared)
        got: list[ClientInstance] = []

        async def acquire() -> None:
            got.append(await acquire_instance(shared))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acquire)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            await release_instance(first)
        await got[0].name_servers.route("t")
        await release_instance(got[0])

    simulate(scenario, brokers=0)


def test_one_that_failed_to_start_is_no_ones_and_the_next_attempt_is_new(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        shared = config(cluster, instance_name="a")
        await cluster.name_servers["namesrv-1"].stop()
        failures: list[Exception] = []

        async def acquire() -> None:
            try:
                await acquire_instance(shared)
            except ConnectFailed as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(acquire)
        assert len(failures) == 3
        await cluster.name_servers["namesrv-1"].start()
        instance = await acquire_instance(shared)
        await instance.name_servers.route("t")
        await release_instance(instance)

    simulate(scenario, brokers=0)


def test_a_cancelled_acquisition_leaves_nothing_and_takes_nothing_from_others(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        shared = config(cluster, instance_name="a")
        for delay_ms in range(4):
            with anyio.move_on_after(delay_ms / 2000):
                await acquire_instance(shared)
            await anyio.sleep(0.1)
            if cluster.simulation.network.connections("127.0.0.1"):
                break
        instance = await acquire_instance(shared)
        await instance.name_servers.route("t")

    simulate(scenario, brokers=0)
