"""What grows from rest to rest is a finding, and what does not is none."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from broker.groups.table import GroupTable
from testbed.simulation.engine import rest
from testbed.simulation.engine.programme import LoadPart, Programme, Step
from testbed.simulation.engine.run import run_programme

ROUNDS = tuple(
    Step(at_s=5.0 * number, do=do, who=who)
    for number in range(1, 7)
    for do, who in (("cut", "billing-1"), ("heal", ""))
)
RESTING = Programme(load=LoadPart(messages=20, pause_s=1.0), rest_s=5.0, step=ROUNDS)


@pytest.fixture(autouse=True)
def _objects_of_earlier_tests_are_not_counted() -> None:
    """Each count visits every object of the process, which after thousands of tests takes seconds."""
    gc.collect()
    gc.freeze()


def test_a_cluster_that_rests_again_and_again_does_not_grow() -> None:
    assert run_programme(RESTING).findings == ()


def test_a_table_that_grows_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    touch = GroupTable.heartbeat

    def leaking(self: GroupTable, *arguments: object, **options: object) -> object:
        leaked.extend([object()] * 500)
        monkeypatch.setattr(self, "leaked", leaked, raising=False)
        return touch(self, *arguments, **options)  # type: ignore[arg-type]

    leaked: list[object] = []
    monkeypatch.setattr(GroupTable, "heartbeat", leaking)
    found = run_programme(replace(RESTING, seed=1))
    assert found.kinds == ("leak",)
    assert any("leaked" in finding.text for finding in found.findings)


def test_the_first_counts_are_left_out() -> None:
    assert rest.WARM_UP == 2
