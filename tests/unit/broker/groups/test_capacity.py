"""The capacity for subscriptions: up to the limit, one past it, and free again with the member."""

from __future__ import annotations

import pytest

from broker.groups import capacity
from broker.groups.table import GroupTable
from model.errors import SystemBusy
from model.heartbeat import ConsumerData, HeartbeatData
from remoting import codec
from remoting.request_code import RequestCode
from tests.unit.broker.groups.test_table import beat
from tests.unit.broker.harness import World, consumer, simulated


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for three subscriptions to a topic with a name of five characters."""
    monkeypatch.setattr(capacity, "MAX_SUBSCRIPTION_BYTES", 3 * 206)


def test_a_list_takes_as_many_names_as_the_limit_and_members_with_the_same_share_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capacity, "MAX_LISTED_TOPIC_BYTES", 14)
    table = GroupTable()
    for client_id, topic in (("A", "one-1"), ("B", "one-1"), ("C", "two-2")):
        beat(table, client_id, consumer("g", topic))
    with pytest.raises(SystemBusy, match="2 different sets of topics, whose names have 14 bytes, at most 14"):
        beat(table, "A", consumer("g", "one-1", "two-2"))
    assert list(table.member("g", "A").subscriptions) == ["one-1"]
    table.unregister("g", "C", cause="", now=0.0)
    beat(table, "A", consumer("g", "other"))


@pytest.mark.usefixtures("three")
def test_a_broker_takes_as_many_subscriptions_as_the_limit_and_a_member_that_leaves_makes_room() -> None:
    table = GroupTable()
    for number in range(3):
        beat(table, "A", consumer(f"g{number}", "topic"))
    with pytest.raises(SystemBusy, match="the subscriptions of all members take 618 bytes of this broker, at most 618"):
        beat(table, "A", consumer("another", "topic"))
    assert table.get("another") is None, "a group that got no member is none"
    beat(table, "A", consumer("g0", "topik"))
    table.unregister("g0", "A", cause="", now=0.0)
    beat(table, "A", consumer("another", "topic"))


@pytest.mark.usefixtures("three")
def test_members_of_an_earlier_run_count() -> None:
    table = GroupTable()
    for number in range(3):
        table.restore(f"g{number}", 1, 1)
        table.restore_member("A", consumer(f"g{number}", "topic"), 10.0)
    with pytest.raises(SystemBusy):
        beat(table, "B", consumer("g0", "topic"))
    beat(table, "A", consumer("g0", "topic"))


@simulated
async def test_one_client_with_many_names_cannot_make_a_list_longer_than_a_frame(world: World) -> None:
    await world.start_broker()
    patch = pytest.MonkeyPatch()
    patch.setattr(codec, "MAX_FRAME_BYTES", 16_000)
    patch.setattr(capacity, "MAX_LISTED_TOPIC_BYTES", 8_000)
    try:
        good, bad = world.peer("good"), world.peer("bad")
        await good.heartbeat(consumer())
        joined = 0
        for number in range(40):
            bad.client_id = f"bad@{number}"
            try:
                await bad.heartbeat(topics_of(number))
                joined += 1
            except SystemBusy:
                break
        await world.sleep(1)
        assert len(await good.members()) == 1 + joined < 20
        assert good.versions()[-1] == world.broker.groups.table.groups()[0].version, "it was told of all of them"
    finally:
        patch.undo()


def topics_of(number: int) -> ConsumerData:
    return consumer("g", *(f"{number}-{topic}-".ljust(100, "x") for topic in range(10)))


@simulated
async def test_of_a_heartbeat_that_was_refused_nothing_is_kept(world: World) -> None:
    await world.start_broker()
    patch = pytest.MonkeyPatch()
    patch.setattr(capacity, "MAX_SUBSCRIPTION_BYTES", 1_000)
    try:
        a = world.peer("a")
        heartbeat = HeartbeatData(client_id="a@1", consumers=(topics_of(0),)).to_wire()
        with pytest.raises(SystemBusy):
            await a.call(RequestCode.HEART_BEAT, {"fingerprint": 7}, heartbeat)
    finally:
        patch.undo()
    answer = await a.call(RequestCode.HEART_BEAT, {"fingerprint": 7})
    assert answer.header["unknown"]
    assert [client.heartbeat for client in world.broker.groups.clients.values()] == [None]
