"""The quirks of brokers with copies, each in a run in which it breaks a promise that is kept without it."""

from __future__ import annotations

import logging

import anyio
import pytest

from model.quirks import SET_QUIRKS, Quirk
from model.replica_set import Elect
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.run import run_programme
from testbed.simulation.engine.text import programme_of
from tests.simulation.conftest import Simulate
from tests.simulation.test_replicas import pair_with_topic, row_of, send_for, stored, wait_in_sync

pytestmark = pytest.mark.simulation

PROGRAMME = """
lasts_s = 30.0
[cluster]
brokers = 1
copies = {copies}
[promise]
converge_s = 40.0
settle_s = 90.0
stale_s = 120.0
[load]
messages = 300
pause_s = 0.05
[[topic]]
name = "orders"
queues = 2
[[group]]
name = "billing"
members = 2
{steps}
"""
SLOW_WAY = """
[[step]]
at_s = 4.0
do = "delay"
who = "broker-a-1"
to = "broker-a-{last}"
for_s = 3.0
by_s = 0.3
"""
LOST_MASTER = """
[[step]]
at_s = 6.5
do = "crash"
who = "broker-a-1"
[[step]]
at_s = 8.0
do = "elect"
who = "broker-a-{last}"
[[step]]
at_s = 20.0
do = "start"
who = "broker-a-1"
"""
MEMBERS_RETURN = """
[[step]]
at_s = 5.0
do = "stop"
who = "billing-1"
[[step]]
at_s = 5.5
do = "restart"
who = "billing-2"
for_s = 6.0
"""
LOST_EARLY = """
[[step]]
at_s = 2.0
do = "crash"
who = "broker-a-1"
[[step]]
at_s = 3.5
do = "elect"
who = "broker-a-2"
[[step]]
at_s = 20.0
do = "start"
who = "broker-a-1"
"""
RUNS = {
    Quirk.ACK_BEFORE_REPLICATED: (2, SLOW_WAY + LOST_MASTER),
    Quirk.ACK_WITHOUT_IDENTITY: (3, SLOW_WAY + LOST_MASTER),
    Quirk.SLAVE_OFFSETS_GO_BACK: (2, MEMBERS_RETURN + LOST_MASTER),
    Quirk.SLAVE_SYNC_DELETES_TOPICS: (2, LOST_EARLY),
}
"""Copies, and steps: the last replica is slow but in sync, the master is lost, and that replica is elected."""
LOST = ("seen-and-lost", "lost-write", "missing-copy", "committed-cut")
SHOWN = {
    Quirk.ACK_BEFORE_REPLICATED: LOST,
    Quirk.ACK_WITHOUT_IDENTITY: LOST,
    Quirk.SLAVE_OFFSETS_GO_BACK: ("went-back", "nonmonotonic-commit", "tables-differ", "duplicate"),
    Quirk.SLAVE_SYNC_DELETES_TOPICS: LOST,
}


@pytest.mark.parametrize("quirk", RUNS)
def test_the_quirk_breaks_a_promise_that_the_same_run_keeps_without_it(
    quirk: Quirk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    copies, steps = RUNS[quirk]
    programme = programme_of(PROGRAMME.format(copies=copies, steps=steps.format(last=copies)))
    assert [str(each) for each in run_programme(programme).findings] == []
    kinds = {finding.kind for finding in run_programme(programme.with_quirks([quirk])).findings}
    assert kinds & set(SHOWN[quirk]), kinds


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
    assert {*RUNS, Quirk.ELECT_OUT_OF_SYNC} == SET_QUIRKS
