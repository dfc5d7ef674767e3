"""Histories of a simulated cluster are judged, and each move and each second delivery in them is explained."""

from __future__ import annotations

from random import Random

import anyio
import pytest

from cli.group.history import watch_moves
from cli.trace.events import read_topic
from client.admin.admin import Admin
from model.errors import GroupNotExist
from model.events import Event, EventKind
from model.quirks import Quirk
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.faults.request_filters import RequestFilters
from testbed.simulation.kernel.run import EPOCH_MS
from tests.simulation.conftest import Simulate
from traces.check.check import HistoryCheck
from traces.check.limits import HistoryLimits
from traces.check.reading import in_order
from traces.check.verdict import Answer, Rule
from traces.why.causes import Discovery
from traces.why.moves import MoveTracker, QueueMove

pytestmark = pytest.mark.simulation
COMPLETE = HistoryLimits(complete=True)


def moves_of(events: list[Event], group: str = "billing") -> list[QueueMove]:
    tracker = MoveTracker(group)
    found = [move for event in in_order(events) for move in tracker.process(event)]
    return found + tracker.finish()


def checkers(events: list[Event], limits: HistoryLimits = COMPLETE) -> HistoryCheck:
    check = HistoryCheck(limits)
    for event in in_order(events):
        check.feed(event)
    return check


async def churn(cluster: SimulatedCluster, random: Random, changes: int) -> None:
    """Members start, stop, crash and hang, a broker restarts, and the topic grows."""
    await cluster.create_topic("orders", queues=4)
    producer = await cluster.start_producer()
    live = [await cluster.start_consumer("billing", "orders", session_timeout_s=6.0) for _ in range(2)]
    for _ in range(changes):
        await producer.send_many("orders", 20)
        act = random.random()
        if len(live) < 2 or act < 0.4:
            live.append(await cluster.start_consumer("billing", "orders", session_timeout_s=6.0))
        elif act < 0.6:
            await live.pop(random.randrange(len(live))).stop()
        elif act < 0.8:
            await live.pop(random.randrange(len(live))).crash()
        elif act < 0.9:
            hung = live.pop(random.randrange(len(live)))
            with hung.hang():
                await anyio.sleep(8)
            await hung.stop()
        else:
            await cluster.brokers["broker-b"].crash()
            await anyio.sleep(1)
            await cluster.brokers["broker-b"].start()
        await anyio.sleep(random.random() * 8)
    await anyio.sleep(25)


@pytest.mark.parametrize("seed", [3, 4])
def test_under_churn_every_move_has_a_root_cause_and_every_stage_and_the_history_keeps_every_rule(
    simulate: Simulate, seed: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> list[Event]:
        await churn(cluster, Random(seed), changes=12)
        return list(cluster.events)

    events = simulate(scenario, seed=seed)
    moves = moves_of(events)
    assert len(moves) > 20
    for move in moves:
        assert move.root is not None, move
        assert move.missing == (), move
        assert all(stage.took_ms >= 0 for stage in move.stages)
        first, last = move.stages[0].event.t_ms, move.stages[-1].event.t_ms
        assert move.took_ms == pytest.approx(last - first, abs=1e-6)
        assert move.stages[0].event is move.root
    verdict = checkers(events).finish()
    assert verdict.anomalies == ()
    assert verdict.answer is Answer.YES


def test_a_notification_that_is_lost_on_its_way_is_distinguished_from_one_that_a_broker_never_sent(
    simulate: Simulate,
) -> None:
    async def lost(cluster: SimulatedCluster) -> list[Event]:
        await cluster.create_topic("orders")
        first = await cluster.start_consumer("billing", "orders")
        await anyio.sleep(5)
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        with RequestFilters(cluster.simulation.loop) as filters, filters.add(code, target=first.host):
            await cluster.start_consumer("billing", "orders")
            await cluster.wait_converged(21)
        await anyio.sleep(1)
        return list(cluster.events)

    async def unsent(cluster: SimulatedCluster) -> list[Event]:
        await cluster.create_topic("orders")
        await cluster.start_consumer("billing", "orders")
        silent = await cluster.start_consumer("billing", "orders", session_timeout_s=3.0)
        await cluster.wait_converged(1)
        await anyio.sleep(5)
        silent.hang()
        await cluster.wait_converged(25)
        await anyio.sleep(21)
        return list(cluster.events)

    moved = moves_of(simulate(lost))
    assert {move.learned for move in moved if move.from_client is not None} == {Discovery.LOST}
    events = simulate(unsent, quirks=frozenset({Quirk.SILENT_EXPIRY}))
    expired = [move for move in moves_of(events) if move.root is not None and move.root.detail == "expiry"]
    assert {move.learned for move in expired} == {Discovery.SILENT}
    found = checkers(events).finish()
    assert [each.rule for each in found.rules if each.answer is Answer.NO] == [Rule.STALE_VIEW]


def test_the_topic_of_traces_gives_the_same_explanations_as_the_events_themselves(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> tuple[list[Event], list[Event]]:
        cluster.client_options["trace"] = True
        await cluster.create_topic("orders")
        first = await cluster.start_consumer("billing", "orders")
        await anyio.sleep(2)
        await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(2)
        await first.stop()
        await anyio.sleep(5)
        seen = len(cluster.events)
        await anyio.sleep(2)
        with cluster.simulation.on_host("operator"):
            read: list[Event] = []
            assert not await read_topic(",".join(cluster.addresses), read.append)
        return cluster.events[:seen], read

    events, read = simulate(scenario, trace=True)
    reported = {event.id for event in read}
    assert {event.id for event in events if event.kind == EventKind.QUEUE_ACQUIRED} <= reported
    assert [(move.queue, move.owner) for move in moves_of(read)] == [
        (move.queue, move.owner) for move in moves_of(events)
    ]
    assert checkers(read, HistoryLimits()).finish().answer is Answer.YES


def test_who_watches_a_group_sees_its_later_moves_alone_with_their_causes(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> tuple[list[QueueMove], list[str], str]:
        cluster.client_options["trace"] = True
        await cluster.create_topic("orders")
        first = await cluster.start_consumer("billing", "orders")
        await anyio.sleep(2)
        second = await cluster.start_consumer("billing", "orders")
        await cluster.wait_converged(2)
        await anyio.sleep(120)
        seen: list[QueueMove] = []
        said: list[str] = []

        async def watch() -> None:
            async with Admin(cluster.addresses) as admin:
                async for move in watch_moves(admin, "billing", EPOCH_MS + 60_000, said.append):
                    seen.append(move)

        async with anyio.create_task_group() as tasks:
            with cluster.simulation.on_host("operator"):
                tasks.start_soon(watch)
            await anyio.sleep(5)
            assert seen == []
            await first.stop()
            await anyio.sleep(5)  # nothing else happens, and what was told comes nevertheless
            tasks.cancel_scope.cancel()
        return seen, said, second.client_id

    moved, said, heir = simulate(scenario, trace=True)
    assert said == ["watching billing: 2 members, 8 queues"]
    assert len(moved) == 4
    assert {(move.owner, move.from_client is None) for move in moved} == {(heir, False)}
    assert {move.root.kind for move in moved if move.root} == {EventKind.CLIENT_STOP}


def test_a_group_that_no_one_knows_is_not_watched(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders")
        await anyio.sleep(2)
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                with pytest.raises(GroupNotExist, match="billing"):
                    await anext(watch_moves(admin, "billing", 0.0, lambda text: None))

    simulate(scenario, trace=True)
