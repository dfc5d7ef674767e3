"""Clients and brokers of this commit with servers of an earlier one: its recorded answers and notifications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from broker.broker import run_broker
from broker.config import BrokerConfig
from testbed.simulation.cluster.servers import UnsyncedFiles
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.compat.old_servers import OldServers
from tests.compat.recording import BROKER_HOST, load
from tests.compat.scenario import act

pytestmark = [pytest.mark.simulation, pytest.mark.walk]


def test_clients_see_with_old_servers_what_old_clients_saw() -> None:
    recording = load()

    async def main(simulation: Simulation) -> tuple[dict[str, Any], OldServers]:
        async with OldServers(simulation, recording) as old:
            return await act(simulation), old

    seen, old = run_simulation(main, seed=1)
    assert old.unreadable == []
    assert seen == recording.seen


def test_a_broker_registers_at_an_old_name_server(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> OldServers:
        async with OldServers(simulation, load(), "namesrv-1") as old:
            with simulation.on_host(BROKER_HOST):
                config = BrokerConfig(
                    name=BROKER_HOST,
                    data_dir=tmp_path,
                    name_servers=("namesrv-1:9876",),
                    listen="0.0.0.0:10911",
                    clock_ms=simulation.clock_ms,
                    trace=False,
                    files=UnsyncedFiles(),
                )
                async with run_broker(config):
                    await anyio.sleep(60)
        return old

    old = run_simulation(main, seed=1)
    assert old.unreadable == []
    assert {"REGISTER_BROKER", "UNREGISTER_BROKER"} <= old.answered.keys()
