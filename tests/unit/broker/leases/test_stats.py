"""A group as operators see it over the wire: its members, their queues, and how far it has come."""

from __future__ import annotations

import pytest

from broker.store.message_store import MessageStore
from model.errors import GroupNotExist, IllegalOperation
from model.heartbeat import ConsumeFrom
from model.limits import LEASE_CLOSE_GRACE_S
from remoting.request_code import RequestCode
from tests.unit.broker.harness import World, ask, consumer, operator, simulated, unpacked


@simulated
async def test_groups_are_listed_with_members_or_with_offsets(world: World) -> None:
    a = await operator(world)
    await a.heartbeat(consumer("h"))
    await a.commit(0, group="g")
    [[g, g_members, g_version], [h, h_members, h_version]] = await ask(a, RequestCode.GET_GROUP_LIST)
    assert (g, g_members, g_version, h, h_members) == ("g", 0, 0, "h", 1)
    assert h_version > 0


@simulated
async def test_the_members_of_a_group_are_shown_with_their_address_age_and_queues(world: World) -> None:
    a = await operator(world)
    await a.heartbeat(consumer(session_timeout_s=30.0))
    await a.lock(2, 0)
    await world.sleep(10)
    group = await ask(a, RequestCode.GET_CONSUMER_CONNECTION_LIST, group="g")
    [member] = group["members"]
    assert (group["group"], member["client_id"], member["queues"]) == ("g", a.client_id, [["t", 0], ["t", 2]])
    assert member["address"].startswith("operator:")
    assert member["expires_in_s"] == pytest.approx(20, abs=0.1)
    assert member["consumer"][0] == "g"
    with pytest.raises(GroupNotExist, match="nobody"):
        await ask(a, RequestCode.GET_CONSUMER_CONNECTION_LIST, group="nobody")


@simulated
async def test_a_member_whose_connection_has_closed_is_shown_with_the_time_until_it_leaves(world: World) -> None:
    a, b = await operator(world), world.peer("b")
    await b.heartbeat(consumer(session_timeout_s=120.0))
    world.simulation.network.cut("b")
    await world.sleep(0.1)
    [member] = (await ask(a, RequestCode.GET_CONSUMER_CONNECTION_LIST, group="g"))["members"]
    assert member["address"] is None
    assert member["expires_in_s"] == pytest.approx(LEASE_CLOSE_GRACE_S - 0.1, abs=0.01)
    await world.sleep(LEASE_CLOSE_GRACE_S)
    assert (await ask(a, RequestCode.GET_CONSUMER_CONNECTION_LIST, group="g"))["members"] == []


@simulated
async def test_the_progress_of_a_group_is_shown_for_every_queue_of_its_topics(world: World) -> None:
    a = await operator(world)
    await a.put_topic("u", read=1)
    await a.heartbeat(consumer("g", "t", "gone"))
    for _ in range(3):
        await a.send()
    token = await a.token_of(0)
    await a.commit(2, token)
    await a.commit(0, topic="u")
    rows = await ask(a, RequestCode.GET_CONSUME_STATS, group="g")
    assert rows[0] == ["t", 0, 0, 3, 2, a.client_id, -1]
    assert rows[1:] == [["t", n, 0, 0, -1, "", -1] for n in (1, 2, 3)] + [["u", 0, 0, 0, 0, "", -1]]
    assert await ask(a, RequestCode.GET_CONSUME_STATS, group="g", topic="u") == rows[-1:]
    with pytest.raises(GroupNotExist, match="nobody"):
        await ask(a, RequestCode.GET_CONSUME_STATS, group="nobody")


@simulated
async def test_the_progress_of_every_group_is_shown_up_to_a_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = await operator(world)
    await a.put_topic("u", read=1)
    await a.heartbeat(consumer("g", "t"))
    await a.commit(0, topic="u", group="h")
    one = [await a.call(RequestCode.GET_CONSUME_STATS, {"group": group}) for group in "gh"]
    whole = [["g", unpacked(one[0]), one[0].header], ["h", unpacked(one[1]), one[1].header]]
    assert await ask(a, RequestCode.GET_BROKER_CONSUME_STATS) == whole
    monkeypatch.setattr("broker.leases.stats.MAX_LEASE_ROWS", 4)
    with pytest.raises(IllegalOperation, match="ask for one group"):
        await ask(a, RequestCode.GET_BROKER_CONSUME_STATS)


@simulated
async def test_a_queue_without_a_commit_is_shown_with_the_offset_at_which_the_group_begins(world: World) -> None:
    a = await operator(world)
    for _ in range(3):
        await a.send()
    await world.sleep(1)
    await a.heartbeat(consumer("late"), consumer("first", consume_from=ConsumeFrom.FIRST_OFFSET))
    for _ in range(2):
        await a.send()
    starts = {}
    for group in ("late", "first"):
        starts[group] = (await a.call(RequestCode.GET_CONSUME_STATS, {"group": group})).header["starts"]
    assert starts["late"][0] == ["t", 0, 3]
    assert starts["first"][0] == ["t", 0, 0]
    assert {queue_id for _, queue_id, _ in starts["first"]} == {0, 1, 2, 3}
    await a.commit(1, await a.token_of(0, group="late"), group="late")
    answer = await a.call(RequestCode.GET_CONSUME_STATS, {"group": "late"})
    assert ["t", 0] not in [row[:2] for row in answer.header["starts"]]


@simulated
async def test_what_an_owner_was_sent_and_has_not_committed_is_in_flight(world: World) -> None:
    a = await operator(world)
    await a.heartbeat(consumer("g"))
    token = await a.token_of(0)
    for _ in range(3):
        await a.send()

    async def in_flight() -> list[object]:
        return [row for row in (await a.call(RequestCode.GET_CONSUME_STATS, {"group": "g"})).header["sent"] if row[2]]

    assert await in_flight() == []
    await a.pull(client_id=a.client_id, token=token)
    assert await in_flight() == [["t", 0, 3]]
    await a.commit(2, token)
    assert await in_flight() == [["t", 0, 1]]


@simulated
async def test_the_begin_of_a_queue_is_looked_up_once_and_not_for_each_member_of_its_group(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[tuple[int, int]] = []
    offset_at = MessageStore.offset_at

    def counted(store: MessageStore, topic_id: int, queue_id: int, timestamp_ms: int) -> int:
        looked_up.append((topic_id, queue_id))
        return offset_at(store, topic_id, queue_id, timestamp_ms)

    a = await operator(world)
    for number in range(10):
        await world.peer(f"member-{number}").heartbeat(consumer("g"))
    monkeypatch.setattr(MessageStore, "offset_at", counted)
    assert len((await a.call(RequestCode.GET_CONSUME_STATS, {"group": "g"})).header["starts"]) == 4
    assert len(looked_up) == 4
