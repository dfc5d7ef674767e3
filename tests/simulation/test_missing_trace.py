"""Verdicts about a cluster of which a broker was killed: what is missing is named, and nothing is called right."""

from __future__ import annotations

import anyio
import pytest

from cli.trace.events import read_topic
from client.admin.admin import Admin
from model.errors import ServiceNotAvailable
from model.missing_trace import MissingTrace
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from traces.check.check import HistoryCheck
from traces.check.verdict import Answer, Verdict
from traces.check.words import summary

pytestmark = pytest.mark.simulation


async def judged(cluster: SimulatedCluster) -> tuple[Verdict, MissingTrace]:
    check = HistoryCheck()
    with cluster.simulation.on_host("operator"):
        missing = await read_topic(",".join(cluster.addresses), check.feed)
    return check.finish(missing=missing), missing


async def some_life(cluster: SimulatedCluster) -> None:
    cluster.client_options["trace"] = True
    await cluster.create_topic("orders", queues=2)
    for _ in range(2):
        await cluster.start_consumer("billing", "orders")
    await cluster.wait_converged(2)
    await (await cluster.start_producer()).send_many("orders", 20)
    await anyio.sleep(5)


def test_yes_becomes_unknown_while_a_broker_is_away_and_yes_again_when_it_is_back(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await some_life(cluster)
        verdict, missing = await judged(cluster)
        assert (verdict.answer, bool(missing), verdict.missing) == (Answer.YES, False, "")
        await cluster.brokers["broker-a"].crash()
        await anyio.sleep(6)
        verdict, missing = await judged(cluster)
        assert verdict.answer is Answer.UNKNOWN
        assert list(missing.parts) == ["broker-a"]
        reported = (
            "the part of the trace that is on broker-a is missing: broker broker-a at broker-a:10911 closed its conn"
        )
        assert reported in summary(verdict)
        assert {each.answer for each in verdict.rules} == {Answer.UNKNOWN}
        assert all(each.doubt for each in verdict.anomalies)
        await cluster.brokers["broker-a"].start()
        await anyio.sleep(40)
        verdict, missing = await judged(cluster)
        assert (verdict.answer, bool(missing)) == (Answer.YES, False)

    simulate(scenario, trace=True)


def test_a_broker_that_hangs_is_missing_too_and_the_rest_is_read(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await some_life(cluster)
        cluster.simulation.network.stall("broker-b")
        verdict, missing = await judged(cluster)
        assert verdict.events > 0
        assert verdict.answer is Answer.UNKNOWN
        assert missing.parts["broker-b"].startswith("broker broker-b does not answer: ")

    simulate(scenario, trace=True)


def test_without_any_broker_the_error_names_those_that_are_away(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await some_life(cluster)
        for broker in cluster.brokers.values():
            await broker.crash()
        await anyio.sleep(1)
        with pytest.raises(
            ServiceNotAvailable, match=r"is on broker-a, broker-b is missing: broker broker-a at .* ago"
        ):
            await judged(cluster)

    simulate(scenario, trace=True)


def test_what_a_restarted_name_server_cannot_know_is_said(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await some_life(cluster)
        await cluster.brokers["broker-b"].crash()
        await cluster.name_servers["namesrv-1"].crash()
        await cluster.name_servers["namesrv-1"].start()
        await anyio.sleep(6)
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                missing = await admin.missing_trace(trace_s=60.0)
        assert not missing
        assert missing.limit == (
            "brokers that are away are known since the start of the name server, 6 s ago, and the trace is 60 s long"
        )

    simulate(scenario, trace=True)
