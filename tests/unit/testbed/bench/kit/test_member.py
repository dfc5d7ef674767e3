from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from client import Message, Producer
from client.admin.admin import Admin
from testbed.bench.kit import member
from testbed.bench.kit.echo import TOPIC
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded


def test_a_member_reports_its_client_id_and_leaves_when_its_parent_is_gone(
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
            tasks.start_soon(member.consume, cluster.name_server, "g", "victim-1", "3.0", "queue")
            await anyio.sleep(1)
            said = json.loads(capfd.readouterr().out)
            assert said["address"].endswith("@victim-1")
            assert [group.members for group in await admin.groups() if group.group == "g"] == [1]
            gone.set()
            await anyio.sleep(1)
            assert [group.members for group in await admin.groups() if group.group == "g"] == [0]

    run_simulation(main)


def test_a_member_with_a_file_notes_each_message_before_its_listener_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(simulation: Simulation) -> None:
        gone = anyio.Event()
        monkeypatch.setattr(member, "wait_for_eof", gone.wait)
        file = tmp_path / "seen"
        async with (
            embedded(simulation, tmp_path / "data", TOPIC, 2) as cluster,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(member.consume, cluster.name_server, "g", "victim-1", "3.0", "none", str(file))
            await anyio.sleep(1)
            async with Producer(cluster.name_server) as producer:
                for number in range(3):
                    await producer.send(Message(TOPIC, number.to_bytes(member.NUMBER_BYTES)))
                await anyio.sleep(0.1)
            seen = file.read_bytes()
            assert sorted(seen[at : at + 8] for at in range(0, len(seen), 8)) == [n.to_bytes(8) for n in range(3)]
            gone.set()

    run_simulation(main)
