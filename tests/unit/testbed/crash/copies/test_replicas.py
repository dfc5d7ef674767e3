"""The processes are tried in `tests/process/test_copies_crash.py`; here is what is waited for between two faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from client.admin.admin import Admin
from model.errors import NetworkError, ServiceNotAvailable
from model.replica_info import ReplicaSetInfo
from testbed.crash.brokers import BrokerProcess
from testbed.crash.copies import replicas
from testbed.crash.copies.replicas import SetProcesses
from tests.unit.testbed.cluster.test_whole import ROW, WHOLE

pytestmark = pytest.mark.asyncio
BROKEN = replace(WHOLE, row=replace(ROW, in_sync=(1,)))
TAKEN_OVER = replace(WHOLE, row=replace(ROW, master=2, in_sync=(2,)))


class FakeAdmin:
    """Answers with one after the other, and then with the last one again."""

    def __init__(self, *answers: ReplicaSetInfo | None) -> None:
        self.answers = list(answers)

    async def replicas(self, broker: str) -> ReplicaSetInfo:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise NetworkError("no replica answers")
        return answer


def set_of(admin: FakeAdmin, directory: Path) -> SetProcesses:
    processes = [BrokerProcess(name, directory / name, directory / f"{name}.log", []) for name in ("one", "two")]
    return SetProcesses("n:1", cast(Admin, cast(Any, admin)), processes)


async def test_a_set_is_waited_for_until_it_is_whole(tmp_path: Path) -> None:
    assert await set_of(FakeAdmin(None, BROKEN, WHOLE), tmp_path).wait_whole() == WHOLE


async def test_a_lost_master_loses_its_directory_and_another_one_is_waited_for(tmp_path: Path) -> None:
    admin = FakeAdmin(WHOLE, None, TAKEN_OVER)
    found = set_of(admin, tmp_path)
    lost = found.processes[0]
    lost.data.mkdir()
    await found.lose(lost, 1)
    assert not lost.data.exists()
    assert admin.answers == [TAKEN_OVER]


async def test_a_set_that_stays_without_another_master_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "WHOLE_TIMEOUT_S", 0.2)
    found = set_of(FakeAdmin(WHOLE), tmp_path)
    found.processes[0].data.mkdir()
    with pytest.raises(ServiceNotAvailable, match="no replica of broker-a took over within"):
        await found.lose(found.processes[0], 1)
