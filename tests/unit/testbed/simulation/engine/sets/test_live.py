"""A set whose core is well serves soon, and one that does not is named."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from testbed.simulation.engine.programme import (
    ClusterPart,
    GroupPart,
    LoadPart,
    Programme,
    PromisePart,
    Step,
    TopicPart,
)
from testbed.simulation.engine.run import Outcome, run_programme

LIVE = Programme(
    lasts_s=10.0,
    cluster=ClusterPart(brokers=1, copies=2, elect="auto"),
    promise=PromisePart(recover_s=30.0),
    topic=(TopicPart(name="orders", queues=1),),
    group=(GroupPart(name="billing", members=1, session_s=4.0),),
    load=LoadPart(producers=1, messages=20, pause_s=0.4),
    step=(Step(at_s=5.0, do="heal_core"),),
)
SEEDS = range(3)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)


def run(elect: str, recover_s: float = 30.0) -> list[Outcome]:
    cluster, promise = replace(LIVE.cluster, elect=elect), replace(LIVE.promise, recover_s=recover_s)
    return [run_programme(replace(LIVE, seed=seed, cluster=cluster, promise=promise)) for seed in SEEDS]


def test_one_replica_in_sync_serves_whatever_the_other_one_does() -> None:
    assert [outcome.findings for outcome in run("auto")] == [()] * len(SEEDS)


def test_a_set_that_waits_for_an_operator_is_stuck() -> None:
    stuck = [outcome for outcome in run("operator") if outcome.findings]
    assert stuck
    for outcome in stuck:
        assert outcome.kinds == ("stuck",)
        assert "L1: broker-a acknowledges no message 10 s after the repair of one replica in sync" in str(
            outcome.findings[0]
        )


def test_a_replica_that_is_not_in_sync_in_time_is_named() -> None:
    found = [str(finding) for outcome in run("auto", recover_s=0.1) for finding in outcome.findings]
    assert found
    assert all("L2: not all replicas are in sync 0.1 s after the repair" in each for each in found)
