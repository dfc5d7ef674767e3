"""What is wrong with a group is said once for each change, to whom it concerns."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups import watch
from model.errors import ClientIdConflict
from model.events import EventKind
from model.limits import LINES_AT_ONCE, LINES_S
from remoting.request_code import RequestCode
from tests.unit.broker.harness import World, consumer, simulated

OTHER: dict[str, Any] = {"strategy": "CIRCLE"}
TEXT = "strategy: AVG (a@1), CIRCLE (b@1): no member consumes some of the queues"


@simulated
async def test_a_disagreement_is_an_event_when_it_begins_and_when_it_ends_and_a_warning_in_between(
    world: World,
) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.heartbeat(consumer())
    assert (a.warnings, world.of_kind(EventKind.GROUP_INCONSISTENT)) == ([], [])
    await b.heartbeat(consumer(**OTHER), cause="b@1/1")
    for _ in range(3):
        await a.heartbeat(consumer())
    assert a.warnings == b.warnings == [f"members of group g disagree: {TEXT}"]
    await b.heartbeat(consumer())
    assert b.warnings == []
    await a.heartbeat(consumer())
    assert a.warnings == []
    begun, ended = world.of_kind(EventKind.GROUP_INCONSISTENT)
    assert (begun.group, begun.n, begun.detail, begun.cause) == ("g", 1, TEXT, "b@1/1")
    assert (ended.n, ended.detail) == (0, "agreed")


@simulated
async def test_a_disagreement_ends_with_the_member_that_leaves(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.heartbeat(consumer())
    await b.heartbeat(consumer(**OTHER))
    await b.unregister("g")
    assert [event.n for event in world.of_kind(EventKind.GROUP_INCONSISTENT)] == [1, 0]


@simulated
async def test_one_more_member_on_a_side_is_not_a_news(world: World) -> None:
    await world.start_broker()
    for host in "abcd":
        await world.peer(host).heartbeat(consumer(**(OTHER if host > "a" else {})))
    assert len(world.of_kind(EventKind.GROUP_INCONSISTENT)) == 1


@simulated
async def test_a_restarted_broker_says_it_again(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.heartbeat(consumer())
    await b.heartbeat(consumer(**OTHER))
    await world.stop_broker()
    await world.start_broker()
    world.events.clear()
    a = world.peer("a")
    await a.heartbeat(consumer())
    assert a.warnings == [f"members of group g disagree: {TEXT}"]
    assert len(world.of_kind(EventKind.GROUP_INCONSISTENT)) == 1


@simulated
async def test_warnings_are_no_more_than_someone_reads(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.heartbeat(*(consumer(f"g{n}") for n in range(40)))
    await b.heartbeat(*(consumer(f"g{n}", **OTHER) for n in range(40)))
    assert len(b.warnings) == 16


@simulated
async def test_the_second_process_with_a_client_id_joins_nothing_and_the_first_is_warned(world: World) -> None:
    await world.start_broker()
    a, twin = world.peer("a"), world.peer("twin")
    twin.client_id = a.client_id
    await a.heartbeat(consumer(), run_id="1")
    world.events.clear()
    for _ in range(3):
        with pytest.raises(
            ClientIdConflict, match=r"client id 'a@1' is taken: .* at a:\d+, has it: give one .* within 30 s"
        ):
            await twin.heartbeat(consumer("other"), consumer(), run_id="2")
    assert [(event.kind, event.group, event.client) for event in world.events] == [
        (EventKind.CLIENT_ID_CONFLICT, "g", "a@1")
    ]
    assert await a.members("other") == []
    await a.heartbeat(consumer(), run_id="1")
    [warning] = a.warnings
    assert warning.startswith("another process, at twin:")
    with pytest.raises(ClientIdConflict, match="only that process may commit, release and leave"):
        await twin.unregister("elsewhere", "g")
    assert await a.members() == ["a@1"]


@simulated
async def test_leases_are_not_for_a_process_that_was_refused(world: World) -> None:
    await world.start_broker()
    a, twin = world.peer("a"), world.peer("twin")
    twin.client_id = a.client_id
    await a.put_topic()
    await a.heartbeat(consumer(), run_id="1")
    await a.lock(0)
    with pytest.raises(Exception, match="send a heartbeat first"):
        await twin.lock(0)


@simulated
async def test_one_process_over_a_new_connection_is_welcome_and_so_is_another_one_after_a_close(world: World) -> None:
    await world.start_broker()
    a, again, restarted = world.peer("a"), world.peer("a2"), world.peer("a3")
    again.client_id = restarted.client_id = a.client_id
    await a.heartbeat(consumer(), run_id="1")
    await again.heartbeat(consumer(), run_id="1")
    with pytest.raises(ClientIdConflict):
        await restarted.heartbeat(consumer(), run_id="2")
    await again.close()
    await world.sleep(0.01)
    assert world.of_kind(EventKind.MEMBER_LEAVE) == []
    await restarted.heartbeat(consumer(), run_id="2")
    assert await restarted.members() == ["a@1"]


@simulated
async def test_a_process_that_takes_a_client_id_over_within_the_grace_gets_tokens_of_its_own(world: World) -> None:
    await world.start_broker()
    a, again, other = world.peer("a"), world.peer("a2"), world.peer("other")
    again.client_id = other.client_id = a.client_id
    await a.put_topic()
    await a.send()
    await a.heartbeat(consumer(), run_id="1")
    b = world.peer("b")
    await b.heartbeat(consumer(), run_id="1")
    token = await a.token_of(0)
    await b.lock(0)
    await a.close()
    await world.sleep(0.01)
    assert (await again.heartbeat(consumer(), run_id="1"))["g"][2] is False
    assert await again.token_of(0) == token, "one process keeps its tokens over a reconnect"
    await again.close()
    await world.sleep(0.2)
    world.events.clear()
    assert (await other.heartbeat(consumer(), run_id="2"))["g"][2] is True
    kinds = [event.kind for event in world.events]
    assert kinds == [EventKind.MEMBER_LEAVE, EventKind.LOCK_EXPIRED, EventKind.MEMBER_JOIN, EventKind.NOTIFY_SENT]
    assert len(b.pushed(RequestCode.NOTIFY_QUEUES_RELEASED)) == 1, "it waits for the queue, and may have it"
    taken = await other.token_of(0)
    assert taken > token
    # The first is healed: nothing that it does under its token touches what the second does under another one.
    back = world.peer("a3")
    back.client_id = a.client_id
    for refused in (back.commit(1, token, epoch="1"), back.unlock(("t", 0, 1, token), epoch="1")):
        with pytest.raises(ClientIdConflict):
            await refused
    assert await other.token_of(0) == taken
    assert await other.commit(1, taken) == []


@simulated
async def test_a_member_that_changes_its_strategy_all_the_time_is_reported_of_so_often_in_a_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await a.heartbeat(consumer(session_timeout_s=300))
    with caplog.at_level("INFO", logger=watch.__name__):
        for n in range(3 * LINES_AT_ONCE):
            await b.heartbeat(consumer(session_timeout_s=300, strategy=f"S{n}"))
        assert len(caplog.records) == len(world.of_kind(EventKind.GROUP_INCONSISTENT)) == LINES_AT_ONCE
        await b.heartbeat(consumer(session_timeout_s=300, strategy="LAST"))
        await world.sleep(LINES_S)
        await a.heartbeat(consumer(session_timeout_s=300))
    assert len(caplog.records) == LINES_AT_ONCE + 1
    assert a.warnings == [f"members of group g disagree: {TEXT.replace('CIRCLE', 'LAST')}"], "as it is now"


@simulated
async def test_processes_that_come_under_one_client_id_in_turns_are_reported_of_so_often_in_a_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.start_broker()
    a, twin = world.peer("a"), world.peer("twin")
    twin.client_id = a.client_id
    await a.heartbeat(consumer(), run_id="1")
    for n in range(3 * LINES_AT_ONCE):
        with pytest.raises(ClientIdConflict):
            await twin.heartbeat(consumer(), run_id=f"e{n}")
    assert sum(record.name == watch.__name__ for record in caplog.records) == LINES_AT_ONCE
    assert len(world.of_kind(EventKind.CLIENT_ID_CONFLICT)) == LINES_AT_ONCE
