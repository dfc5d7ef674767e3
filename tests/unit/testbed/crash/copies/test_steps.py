"""What each act does to which replica; the effects are those of real processes in `tests/process`."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from model.replica_info import ReplicaSetInfo
from testbed.crash.copies.replicas import SetProcesses
from testbed.crash.copies.schedule import Act, CopiesStep
from testbed.crash.copies.steps import SetSteps
from testbed.crash.copies.watch import StepWatch
from testbed.crash.load import CrashLoad
from testbed.crash.schedule import Moment
from tests.unit.testbed.cluster.test_whole import WHOLE

pytestmark = pytest.mark.asyncio


class FakeProcess:
    def __init__(self, name: str, done: list[str]) -> None:
        self._name, self._done = name, done

    async def kill(self, moment: Moment) -> None:
        self._done.append(f"kill {self._name}")

    async def stop(self) -> None:
        self._done.append(f"stop {self._name}")

    async def start(self) -> None:
        self._done.append(f"start {self._name}")

    def pause(self) -> None:
        self._done.append(f"pause {self._name}")

    def go_on(self) -> None:
        self._done.append(f"go on {self._name}")


class FakeSet:
    def __init__(self, done: list[str]) -> None:
        self._done = done
        self._processes = {"h:1": FakeProcess("master", done), "h:2": FakeProcess("other", done)}

    def at(self, address: str) -> FakeProcess:
        return self._processes[address]

    async def wait_whole(self) -> ReplicaSetInfo:
        self._done.append("whole")
        return WHOLE

    async def hand_over(self, to: int) -> None:
        self._done.append(f"hand over to {to}")

    async def lose(self, lost: FakeProcess, lost_id: int) -> None:
        self._done.append(f"lose {lost_id}")

    async def join_again(self, lost: FakeProcess, lost_id: int) -> None:
        self._done.append(f"forget {lost_id}")


class FakeLoad:
    ledger = SimpleNamespace(messages=SimpleNamespace(failed_sends=0, duplicates=0))
    turns = SimpleNamespace(surge=nullcontext)

    async def wait_flow(self, broker: str) -> None:
        pass


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (Act.KILLED, ["kill other", "start other"]),
        (Act.STOPPED, ["stop other", "start other"]),
        (Act.PAUSED, ["pause other", "go on other"]),
        (Act.HANDED_OVER, ["hand over to 2"]),
        (Act.MASTER_STOPPED, ["stop master", "start master"]),
        (Act.MASTER_KILLED, ["kill master", "start master"]),
        (Act.MASTER_PAUSED, ["pause master", "go on master"]),
        (Act.MASTER_LOST, ["kill master", "lose 1", "forget 1"]),
    ],
)
async def test_an_act_hits_its_replica_between_two_moments_in_which_all_are_in_sync(
    act: Act, expected: list[str]
) -> None:
    done: list[str] = []
    replicas, load = cast(SetProcesses, cast(Any, FakeSet(done))), cast(CrashLoad, cast(Any, FakeLoad()))
    effects = await SetSteps(replicas, load, StepWatch(), Random(1)).take(CopiesStep(act, 0.0))
    assert done == ["whole", *expected, "whole"]
    assert (effects.failed, effects.moved, effects.twice) == (0, 0, 0)
