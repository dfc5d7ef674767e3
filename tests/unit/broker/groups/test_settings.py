"""Settings of a group at one broker, by request; what they do to members is tests/simulation/test_group_settings.py."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import IllegalOperation, InvalidParameter, NoPermission
from model.group_settings import DEFAULT_SETTINGS, GroupSettings
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, a_life, consumer, simulated, unpacked


async def change(peer: Peer, **changes: Any) -> GroupSettings:
    answer = await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"group": "g", **changes})
    return GroupSettings.from_wire(unpacked(answer), answer.header)


async def settings(peer: Peer) -> tuple[bool, GroupSettings]:
    answer = await peer.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
    return answer.header["is_set"], GroupSettings.from_wire(unpacked(answer), answer.header)


@simulated
async def test_only_what_a_request_names_is_changed(world: World) -> None:
    await world.start_broker()
    peer = world.peer("operator")
    assert await settings(peer) == (False, DEFAULT_SETTINGS)
    await change(peer, consume=False)
    await change(peer, max_attempts=3)
    await change(peer, fifo=True)
    await change(peer, retry_delays_ms=[100, 2_000])
    all_of_them = GroupSettings(consume=False, retry_queues=2, max_attempts=3, fifo=True, retry_delays_ms=(100, 2_000))
    assert await change(peer, retry_queues=2) == all_of_them
    assert await settings(peer) == (True, all_of_them)
    await world.stop_broker()
    await world.sleep(1)
    await world.start_broker()
    assert await settings(peer) == (True, all_of_them)
    assert await change(peer, retry_delays_ms=[], fifo=False) == GroupSettings(
        consume=False, retry_queues=2, max_attempts=3
    )


@simulated
async def test_a_parked_pull_is_refused_at_once_and_one_of_another_group_is_not(world: World) -> None:
    a, _, token = await a_life(world)
    parked = await a.begin_pull(offset=3, suspend_ms=10_000, client_id=a.client_id, token=token)
    other = await a.begin_pull(offset=3, suspend_ms=10_000, client_id=a.client_id, group="other")
    before = world.now
    await change(a, consume=False)
    with pytest.raises(NoPermission, match="group 'g' is switched off on broker 'broker-a'"):
        _raise((await parked).code, (await parked).header["remark"])
    assert world.now - before < 0.1
    assert not other.done()
    assert await a.commit(3, token) == [], "what was processed can be committed"


def _raise(code: int, remark: str) -> None:
    assert code == NoPermission.code
    raise NoPermission(remark)


@simulated
async def test_a_pull_of_no_one_in_particular_is_a_look_at_the_queue(world: World) -> None:
    a, _, _ = await a_life(world)
    await change(a, consume=False)
    assert (await a.pull()).code == 0


@simulated
async def test_members_are_notified_the_attempts_at_the_change_and_in_every_heartbeat_since(world: World) -> None:
    a, b, _ = await a_life(world)
    await change(a, max_attempts=2)
    await world.sleep(1)
    reported = [{"group": "g", "max_attempts": 2}]
    for member in (a, b):
        pushed = member.pushed(RequestCode.NOTIFY_GROUP_SETTINGS)
        assert [{name: header[name] for name in ("group", "max_attempts")} for header in pushed] == reported
    await change(a, consume=False)
    await world.sleep(1)
    assert len(a.pushed(RequestCode.NOTIFY_GROUP_SETTINGS)) == 1, "members act on no other setting"


@simulated
async def test_a_member_that_wants_no_retry_has_a_dead_letter_whatever_is_set(world: World) -> None:
    a, _, _ = await a_life(world)
    await change(a, max_attempts=9)
    header = {"group": "g", "topic": "t", "queue_id": 0, "offset": 0}
    dead = [
        (await a.call(RequestCode.CONSUMER_SEND_MSG_BACK, {**header, "max_attempts": own})).header["dead"]
        for own in (0, 1, 16)
    ]
    assert dead == [True, False, False]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"retry_queues": 0}, "field 'retry_queues' must be 1 to 1024, got 0"),
        ({"max_attempts": -2}, "field 'max_attempts' must be -1 to 65000, got -2"),
        ({"consume": 1}, "field 'consume' must be of type bool"),
    ],
)
@simulated
async def test_settings_that_cannot_be_are_refused_and_nothing_changes(
    world: World, changes: dict[str, Any], why: str
) -> None:
    await world.start_broker()
    peer = world.peer("operator")
    with pytest.raises(InvalidParameter, match=why):
        await change(peer, broadcast=False, **changes)
    assert await settings(peer) == (False, DEFAULT_SETTINGS)


@simulated
async def test_a_retry_topic_never_gets_fewer_queues_to_read(world: World) -> None:
    a, _, _ = await a_life(world)
    for wanted in (3, 1):
        assert (await change(a, retry_queues=wanted)).retry_queues == wanted
    config = world.broker.topics.table.existing("%RETRY%g").config
    assert (config.read_queue_nums, config.write_queue_nums) == (3, 1)


@simulated
async def test_a_group_with_members_keeps_its_settings_because_it_cannot_be_deleted(world: World) -> None:
    a, _, _ = await a_life(world)
    await change(a, consume=False)
    with pytest.raises(IllegalOperation):
        await a.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"group": "g"})
    await a.heartbeat(consumer())
    assert (await settings(a))[1].consume is False
