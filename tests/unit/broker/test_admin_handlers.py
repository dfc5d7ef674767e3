"""Administration over the wire: topics are created, scaled and deleted, and everything can be looked at."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import GroupNotExist, IllegalOperation, InvalidParameter, NoPermission, QueryNotFound, TopicNotExist
from model.events import EventKind
from model.limits import MAX_QUEUES_PER_TOPIC
from model.names import SCHEDULE_TOPIC, STAGE_TOPIC, TEMPLATE_TOPIC, TRACE_TOPIC
from model.quirks import Quirk
from model.response_code import ResponseCode
from model.topic_route import TopicConfig
from remoting.wire.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, consumer, records, simulated, unpacked


async def operator(world: World, **options: object) -> Peer:
    """Start a broker with topic `t`; returns a peer of it."""
    await world.start_broker(**options)
    peer = world.peer("operator")
    await peer.put_topic()
    world.events.clear()
    return peer


async def ask(peer: Peer, code: RequestCode, **header: object) -> Any:
    return unpacked(await peer.call(code, header))


async def delete(peer: Peer, topic: str = "t") -> None:
    await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})


def config_of(world: World, topic: str = "t") -> TopicConfig:
    return world.broker.topics.existing(topic).config


# --- topics ----------------------------------------------------------------------------------------------------------
@simulated
async def test_a_topic_that_is_created_is_there_when_the_answer_comes(world: World) -> None:
    a = await operator(world)
    await a.put_topic("u", read=3, write=2, perm=6)
    config = config_of(world, "u")
    assert (config.read_queue_nums, config.write_queue_nums, int(config.perm)) == (3, 2, 6)
    [event] = world.of_kind(EventKind.ROUTE_CHANGED)
    assert (event.topic, event.n, event.detail) == ("u", 3, "read=3 write=2 perm=6")


@simulated
async def test_creating_the_same_topic_again_changes_nothing(world: World) -> None:
    a = await operator(world)
    await a.put_topic()
    assert world.events == []


@simulated
async def test_a_topic_grows_and_its_messages_stay(world: World) -> None:
    a = await operator(world)
    await a.send(queue_id=3)
    await a.put_topic(read=8)
    assert await a.send(queue_id=7) == 0
    assert [len(records(await a.pull(queue_id=queue_id))) for queue_id in (3, 7)] == [1, 1]


@simulated
async def test_a_topic_shrinks_by_writing_less_draining_and_then_reading_less(world: World) -> None:
    a = await operator(world)
    await a.send(queue_id=3)
    await a.put_topic(read=4, write=2)
    assert len(records(await a.pull(queue_id=3))) == 1
    await a.put_topic(read=2, write=2)
    assert (await a.pull(queue_id=3)).header["remark"] == "topic 't' has no queue 3 on this broker: refresh the route"
    with pytest.raises(InvalidParameter, match="no queue 3"):
        await a.send(queue_id=3)
    await a.put_topic(read=4, write=4)
    assert len(records(await a.pull(queue_id=3))) == 1


@simulated
async def test_a_topic_that_loses_a_permission_loses_it_at_once(world: World) -> None:
    a = await operator(world)
    await a.send()
    await a.put_topic(perm=4)
    with pytest.raises(NoPermission, match="not writable"):
        await a.send()
    assert len(records(await a.pull())) == 1
    await a.put_topic(perm=2)
    assert await a.send() == 1
    assert (await a.pull()).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("topic", "read", "write", "perm"),
    [("a topic", 1, 1, 6), ("", 1, 1, 6), ("u", 0, 0, 6), ("u", MAX_QUEUES_PER_TOPIC + 1, 1, 6), ("u", 1, 1, 8)],
)
@simulated
async def test_a_topic_that_cannot_be_is_refused(world: World, topic: str, read: int, write: int, perm: int) -> None:
    a = await operator(world)
    with pytest.raises(InvalidParameter):
        await a.put_topic(topic, read, write, perm)
    assert world.events == []


@simulated
async def test_the_largest_topic_is_taken(world: World) -> None:
    a = await operator(world)
    await a.put_topic("u", MAX_QUEUES_PER_TOPIC)
    assert await a.send("u", MAX_QUEUES_PER_TOPIC - 1) == 0


@pytest.mark.parametrize("topic", [TEMPLATE_TOPIC, TRACE_TOPIC])
@simulated
async def test_system_topics_are_not_an_operators(world: World, topic: str) -> None:
    a = await operator(world)
    with pytest.raises(IllegalOperation, match=topic):
        await a.put_topic(topic)
    with pytest.raises(IllegalOperation, match=topic):
        await delete(a, topic)


@simulated
async def test_a_deleted_topic_takes_messages_offsets_and_leases_along(world: World) -> None:
    a = await operator(world)
    await a.heartbeat(consumer())
    await a.send()
    token = await a.token_of(0)
    await a.commit(1, token)
    await delete(a)
    with pytest.raises(TopicNotExist):
        await delete(a)
    assert world.broker.locks.owners() == []
    await a.put_topic()
    assert records(await a.pull()) == []
    with pytest.raises(QueryNotFound):
        await a.committed()
    assert await a.token_of(0) > token
    details = [event.detail for event in world.of_kind(EventKind.ROUTE_CHANGED) if event.topic == "t"]
    assert details == ["deleted", "read=4 write=4 perm=6"]


@simulated
async def test_a_deleted_topic_stays_deleted_over_a_restart(world: World) -> None:
    a = await operator(world)
    await a.send()
    await delete(a)
    await world.stop_broker()
    await world.start_broker()
    await world.sleep(5)
    with pytest.raises(TopicNotExist):
        await delete(a)
    assert await a.send() == 0
    assert len(records(await a.pull())) == 1


@simulated
async def test_commits_for_a_deleted_topic_are_late_and_not_wrong(world: World) -> None:
    a = await operator(world)
    await a.send()
    await delete(a)
    assert await a.commit(1) == []
    assert world.broker.offsets.of_group("g") == []


# --- looking ---------------------------------------------------------------------------------------------------------
@simulated
async def test_the_state_of_a_broker_tells_its_load(world: World) -> None:
    a = await operator(world, quirks=frozenset({Quirk.SILENT_EXPIRY}))
    await a.send(queue_id=1)
    await a.heartbeat(consumer(), producer_groups=("p", "q"))
    held = await a.begin_pull(suspend_ms=15_000)
    info = await ask(a, RequestCode.GET_BROKER_RUNTIME_INFO)
    assert {key: info[key] for key in ("name", "cluster", "groups", "held_pulls", "producers", "quirks")} == {
        "name": "broker-a",
        "cluster": "DefaultCluster",
        "groups": 1,
        "held_pulls": 1,
        "producers": 2,
        "quirks": ["SILENT_EXPIRY"],
    }
    assert not held.done()
    assert info["uptime_s"] == pytest.approx(world.now, abs=0.1)
    topics = {name: (read, write, perm, ranges) for name, read, write, perm, ranges in info["topics"]}
    assert topics["t"] == (4, 4, 6, [[0, 0], [0, 1], [0, 0], [0, 0]])
    assert sorted(topics) == ["%RETRY%g", SCHEDULE_TOPIC, STAGE_TOPIC, TRACE_TOPIC, TEMPLATE_TOPIC, "t"]


@simulated
async def test_clients_that_are_gone_are_not_counted(world: World) -> None:
    a = await operator(world)
    b = world.peer("b")
    await b.heartbeat(producer_groups=("p",))
    assert (await ask(a, RequestCode.GET_BROKER_RUNTIME_INFO))["producers"] == 1
    await b.close()
    await world.sleep(1)
    assert (await ask(a, RequestCode.GET_BROKER_RUNTIME_INFO))["producers"] == 0


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
    assert rows[0] == ["t", 0, 0, 3, 2, a.client_id, token]
    assert rows[1:] == [["t", n, 0, 0, -1, "", -1] for n in (1, 2, 3)] + [["u", 0, 0, 0, 0, "", -1]]
    assert await ask(a, RequestCode.GET_CONSUME_STATS, group="g", topic="u") == rows[-1:]
    with pytest.raises(GroupNotExist, match="nobody"):
        await ask(a, RequestCode.GET_CONSUME_STATS, group="nobody")


@simulated
async def test_a_health_check_tells_who_answers(world: World) -> None:
    a = await operator(world)
    header = (await a.call(RequestCode.GET_SERVER_STATE)).header
    assert (header["kind"], header["name"]) == ("broker", "broker-a")
    assert header["uptime_s"] == pytest.approx(world.now, abs=0.1)
