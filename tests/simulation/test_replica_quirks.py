"""The quirks of brokers with copies, each in a run in which it breaks a promise that is kept without it."""

from __future__ import annotations

import logging

import anyio
import pytest

from model.quirks import SET_QUIRKS, Quirk
from model.replica_set import Elect
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.run import run_programme
from testbed.simulation.engine.text import parse_programme
from tests.simulation.conftest import Simulate
from tests.simulation.mutants import QUIRKS
from tests.simulation.quirk_programmes import MASTER_IS_PAUSED, MASTER_IS_STOPPED, WRITTEN
from tests.simulation.test_replicas import pair_with_topic, row_of, send_for, stored, wait_in_sync

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("quirk", WRITTEN)
def test_the_quirk_breaks_a_promise_that_the_same_run_keeps_without_it(
    quirk: Quirk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    programme = parse_programme(WRITTEN[quirk])
    assert [str(each) for each in run_programme(programme).findings] == []
    kinds = {finding.kind for finding in run_programme(programme.with_quirks([quirk])).findings}
    assert kinds & set(QUIRKS[quirk]), kinds


@pytest.mark.parametrize("quirks", [frozenset(), frozenset({Quirk.ELECT_OUT_OF_SYNC})], ids=["sound", "quirk"])
def test_a_replica_that_elects_itself_without_being_in_sync_loses_messages(
    quirks: frozenset[Quirk], simulate: Simulate
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await pair_with_topic(cluster)
        with cluster.simulation.network.partition("broker-a-1", "broker-a-2"):
            await wait_in_sync(cluster, 1)
            await send_for(cluster, producer, 1.0)
            await cluster.replicas["broker-a-1"].crash()
        await anyio.sleep(15.0)
        row = await row_of(cluster)
        if not quirks:
            assert (row.master, row.in_sync) == (1, (1,)), "nobody else has every message: the set waits for it"
            await cluster.replicas["broker-a-1"].start()
            await wait_in_sync(cluster, 1, 2)
            assert set(producer.acknowledged) <= set(await stored(cluster))
            return
        assert (row.master, row.in_sync) == (2, (2,))
        assert set(producer.acknowledged) - set(await stored(cluster))

    simulate(scenario, brokers=1, copies=2, quirks=quirks, set_options={"elect": Elect.AUTO})


def test_each_quirk_of_sets_is_shown() -> None:
    assert {*WRITTEN} == SET_QUIRKS


@pytest.mark.parametrize("text", [MASTER_IS_STOPPED, MASTER_IS_PAUSED], ids=["stopped", "paused"])
def test_a_master_that_stood_still_answers_nothing_after_the_next_one_has_begun(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    assert [str(each) for each in run_programme(parse_programme(text)).findings] == []
