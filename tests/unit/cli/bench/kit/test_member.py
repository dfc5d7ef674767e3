from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from cli.bench.kit import member
from cli.bench.kit.echo import TOPIC
from client.admin.admin import Admin
from simulation.kernel.run import Simulation, run_simulation
from tests.unit.cli.bench.embedded import embedded


def test_a_member_tells_its_client_id_and_leaves_when_its_parent_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main(simulation: Simulation) -> None:
        gone = anyio.Event()
        monkeypatch.setattr(member, "wait_for_eof", gone.wait)
        async with (
            embedded(simulation, tmp_path, TOPIC, 2) as cluster,
            Admin(cluster.name_server) as admin,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(member.consume, cluster.name_server, "g", "victim-1", "3.0")
            await anyio.sleep(1)
            said = json.loads(capfd.readouterr().out)
            assert said["address"].endswith("@victim-1")
            assert [group.members for group in await admin.groups() if group.group == "g"] == [1]
            gone.set()
            await anyio.sleep(1)
            assert [group.members for group in await admin.groups() if group.group == "g"] == [0]

    run_simulation(main)
