"""`rm LOCK` beside a running broker: it stops before a second one can write into its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from broker.broker import run_broker
from broker.config import BrokerConfig
from broker.store.disk.directory import LOCK_NAME
from broker.store.disk.errors import StoreInUse, StoreLockLost
from model.limits import LOCK_CHECK_S
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.broker.harness import ADDRESS, HOST, Peer


def config_of(simulation: Simulation, directory: Path) -> BrokerConfig:
    return BrokerConfig(name="a", data_dir=directory, listen=ADDRESS, trace=False, clock_ms=simulation.clock_ms)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_broker_whose_lock_file_is_removed_lets_no_second_one_in_and_stops_within_a_second(tmp_path: Path) -> None:
    async def start(config: BrokerConfig) -> None:
        async with run_broker(config):
            pytest.fail("two brokers write into one log")

    async def until_it_stops(simulation: Simulation, config: BrokerConfig, peer: Peer) -> None:
        async with run_broker(config):
            await peer.put_topic()
            assert [await peer.send() for _ in range(3)] == [0, 1, 2]
            (tmp_path / LOCK_NAME).unlink()
            with pytest.raises(StoreInUse):
                await start(config)
            assert await peer.send() == 3  # within the second: into the file that is open
            with anyio.fail_after(LOCK_CHECK_S):
                await anyio.sleep_forever()

    async def scenario(simulation: Simulation) -> None:
        config, peer = config_of(simulation, tmp_path), Peer(simulation, "peer")
        with simulation.on_host(HOST), pytest.raises(StoreLockLost, match="removed or replaced"):
            await until_it_stops(simulation, config, peer)
        await peer.close()
        with simulation.on_host(HOST):
            async with run_broker(config) as again:
                topic_id = again.broker.topics.table.existing("t").topic_id
                assert again.broker.store.max_offset(topic_id, 0) == 4

    run_simulation(scenario)


def test_a_broker_whose_directory_was_replaced_by_another_one_writes_nothing_there(tmp_path: Path) -> None:
    directory, before = tmp_path / "data", tmp_path / "before"
    copied: dict[str, bytes] = {}

    async def until_it_stops(simulation: Simulation, config: BrokerConfig, peer: Peer) -> None:
        async with run_broker(config):
            await peer.put_topic()
            directory.rename(before)
            shutil.copytree(before, directory)
            copied.update(contents(directory))
            await anyio.sleep(60)

    async def scenario(simulation: Simulation) -> None:
        config, peer = config_of(simulation, directory), Peer(simulation, "peer")
        with simulation.on_host(HOST), pytest.raises(StoreLockLost):
            await until_it_stops(simulation, config, peer)
        assert contents(directory) == copied
        await peer.close()

    run_simulation(scenario)
