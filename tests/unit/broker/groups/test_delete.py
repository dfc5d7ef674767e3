"""A group is forgotten as a whole, and only when nobody is in it."""

from __future__ import annotations

import pytest

from broker.retention.plan import RetentionOptions
from broker.store.disk.options import StoreOptions
from model.errors import GroupNotExist, IllegalOperation, QueryNotFound, TopicNotExist
from model.heartbeat import ConsumeFrom
from model.limits import RETENTION_INTERVAL_S
from model.names import dlq_topic, retry_topic
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, consumer, simulated, unpacked


async def delete(peer: Peer, group: str = "g") -> None:
    await peer.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"group": group})


async def groups(peer: Peer) -> list[str]:
    return [name for name, *_ in unpacked(await peer.call(RequestCode.GET_GROUP_LIST))]


async def left(world: World) -> Peer:
    """Group `g`, which has consumed a part of topic `t`, failed on one message, and no longer has members."""
    peer = world.peer("a")
    await peer.put_topic(read=1)
    for _ in range(5):
        await peer.send()
    await peer.heartbeat(consumer(consume_from=ConsumeFrom.FIRST_OFFSET))
    token = await peer.token_of(0)
    await peer.commit(3, token)
    header = {"group": "g", "topic": "t", "queue_id": 0, "offset": 1}
    await peer.call(RequestCode.CONSUMER_SEND_MSG_BACK, {**header, "max_attempts": 16})
    await peer.call(RequestCode.CONSUMER_SEND_MSG_BACK, {**header, "max_attempts": 0})
    await peer.unregister("g")
    return peer


@simulated
async def test_nothing_is_left_of_a_deleted_group_but_its_dead_letters_not_even_after_a_restart(world: World) -> None:
    broker = await world.start_broker()
    peer = await left(world)
    assert await groups(peer) == ["g"]
    await delete(peer)
    for restarted in (False, True):
        if restarted:
            await world.stop_broker()
            broker = await world.start_broker()
            await world.sleep(1)
        assert await groups(peer) == []
        with pytest.raises(QueryNotFound):
            await peer.committed()
        with pytest.raises(TopicNotExist):
            broker.topics.table.existing(retry_topic("g"))
        assert broker.store.max_offset(broker.topics.table.existing(dlq_topic("g")).topic_id, 0) == 1
        assert broker.leases.table.owners() == []


@simulated
async def test_a_group_of_that_name_begins_again(world: World) -> None:
    await world.start_broker()
    peer = await left(world)
    await delete(peer)
    await world.sleep(60)  # the message that it failed on falls due, and must not reach whoever has the name now
    await peer.heartbeat(consumer())
    [[_, _, _, start]], _ = await peer.lock(0)
    assert start == 5
    await peer.put_topic(retry_topic("g"), read=1)
    assert (await peer.pull(retry_topic("g"))).header["max_offset"] == 0


@simulated
async def test_a_group_with_members_is_not_deleted_and_they_are_named(world: World) -> None:
    await world.start_broker()
    peer = await left(world)
    for host in "bcdefgh":
        await world.peer(host).heartbeat(consumer())
    with pytest.raises(IllegalOperation, match=r"b@1, c@1, d@1, e@1, f@1 and 2 more; stop them first"):
        await delete(peer)
    assert await peer.committed() == 3


@simulated
async def test_a_group_that_is_not_there_is_said_to_be_so(world: World) -> None:
    await world.start_broker()
    with pytest.raises(GroupNotExist, match="'nobody' is not known to broker 'broker-a'"):
        await delete(world.peer("a"), "nobody")


@simulated
async def test_offsets_without_a_group_can_be_deleted_too(world: World) -> None:
    await world.start_broker()
    peer = world.peer("a")
    await peer.put_topic()
    await peer.send()
    await peer.commit(1, reset=True)
    await delete(peer)
    assert await groups(peer) == []


@simulated
async def test_a_late_commit_of_a_member_that_left_does_not_bring_the_group_back(world: World) -> None:
    await world.start_broker()
    peer = world.peer("a")
    await peer.put_topic(read=1)
    await peer.send()
    await peer.heartbeat(consumer())
    token = await peer.token_of(0)
    await peer.unregister("g")
    await delete(peer)
    [[_, _, _, remark]] = await peer.commit(1, token)
    assert "leased to another member now" in remark
    assert await groups(peer) == []


@simulated
async def test_what_only_a_deleted_group_held_back_is_deleted(world: World) -> None:
    store, retention = StoreOptions(segment_bytes=200), RetentionOptions(retain_ms=1)
    broker = await world.start_broker(store=store, retention=retention)
    peer = await left(world)
    await world.sleep(60)
    topic_id = broker.topics.table.existing("t").topic_id
    for _ in range(5):
        await peer.send()
    await world.sleep(2 * RETENTION_INTERVAL_S)
    assert broker.store.min_offset(topic_id, 0) <= 3
    await delete(peer)
    await world.sleep(2 * RETENTION_INTERVAL_S)
    assert broker.store.min_offset(topic_id, 0) > 5
