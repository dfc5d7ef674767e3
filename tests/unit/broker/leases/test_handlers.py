"""Leases and commits over the wire: who may consume a queue, from where, and whose commits count."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from broker.leases.service import LOCK_MAX_LIVE_S
from model.errors import ClientIdConflict, GroupNotExist, InvalidParameter, QueryNotFound
from model.events import EventKind
from model.limits import MAX_LEASE_ROWS
from model.quirks import Quirk
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from testbed.simulation.kernel.run import EPOCH_MS
from tests.unit.broker.harness import LATENCY_S, Peer, World, consumer, simulated, unpacked


async def group_of(world: World, *hosts: str, session_timeout_s: float = 3_600.0, **options: object) -> list[Peer]:
    """Start a broker with topic `t` and members of `g` on these hosts."""
    await world.start_broker(**options)
    peers = [world.peer(host) for host in hosts]
    await peers[0].put_topic()
    for peer in peers:
        await peer.heartbeat(consumer(session_timeout_s=session_timeout_s))
    await world.sleep(1)
    for peer in peers:
        peer.pushes.clear()
    world.events.clear()
    return peers


def codes(refusals: list[Any]) -> list[int]:
    return [code for _, _, code, _ in refusals]


# --- granting --------------------------------------------------------------------------------------------------------
@simulated
async def test_free_queues_are_granted_each_with_a_token_and_an_offset(world: World) -> None:
    [a] = await group_of(world, "a")
    granted, refused = await a.lock(0, 1, 2)
    assert [(topic, queue_id, offset) for topic, queue_id, _, offset in granted] == [("t", n, 0) for n in range(3)]
    tokens = [token for _, _, token, _ in granted]
    assert tokens == sorted(set(tokens))
    assert refused == []


@simulated
async def test_a_queue_has_one_owner_and_the_others_are_notified_who(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    token = await a.token_of(0)
    granted, refused = await b.lock(0, 1)
    assert ([queue_id for _, queue_id, _, _ in granted], refused) == ([1], [["t", 0, a.client_id]])
    assert await a.token_of(0) == token
    kinds = [(event.kind, event.queue_id, event.client) for event in world.of_kind(EventKind.LOCK_REFUSED)]
    assert kinds == [("LOCK_REFUSED", 0, b.client_id)]


@simulated
async def test_groups_lease_the_same_queue_independently(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    await b.heartbeat(consumer("h"))
    await a.token_of(0)
    await b.token_of(0, group="h")


@simulated
async def test_anyone_who_is_not_a_member_is_notified_to_send_a_heartbeat_first(world: World) -> None:
    await group_of(world, "a")
    with pytest.raises(GroupNotExist, match="send a heartbeat first"):
        await world.peer("stranger").lock(0)


@simulated
async def test_a_queue_that_is_gone_costs_the_caller_no_other_queue(world: World) -> None:
    [a] = await group_of(world, "a")
    await a.put_topic("t", read=2)
    await a.put_topic("blind", perm=2)
    granted, refused = await a.lock(0, 1, 2, 3)
    assert [queue_id for _, queue_id, _, _ in granted] == [0, 1]
    assert refused == [["t", 2, ""], ["t", 3, ""]]
    assert await a.lock(0, topic="nowhere") == ([], [["nowhere", 0, ""]])
    assert await a.lock(0, topic="blind") == ([], [["blind", 0, ""]])


# --- giving back -----------------------------------------------------------------------------------------------------
@simulated
async def test_giving_a_queue_back_commits_and_notifies_anyone_who_was_refused_who_then_starts_there(
    world: World,
) -> None:
    a, b = await group_of(world, "a", "b")
    for _ in range(5):
        await a.send()
    token = await a.token_of(0)
    await b.lock(0)
    released_at = world.now
    assert await a.unlock(("t", 0, 3, token)) == []
    await world.sleep(1)
    [(moment, code, header)] = b.pushes
    assert (moment, code) == (released_at + 2 * LATENCY_S, RequestCode.NOTIFY_QUEUES_RELEASED)
    assert (header["group"], header["n"]) == ("g", 1)
    [[_, _, new_token, offset]], _ = await b.lock(0)
    assert (new_token > token, offset) == (True, 3)
    assert a.pushes == []


@simulated
async def test_one_push_reports_of_all_queues_that_were_released_together(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    tokens = [await a.token_of(queue_id) for queue_id in range(3)]
    await b.lock(0, 1, 2)
    await a.unlock(*[("t", queue_id, -1, token) for queue_id, token in enumerate(tokens)])
    await world.sleep(1)
    assert [header["n"] for header in b.pushed(RequestCode.NOTIFY_QUEUES_RELEASED)] == [3]
    [released, *_] = world.of_kind(EventKind.QUEUE_RELEASED)
    assert [event.cause for event in world.of_kind(EventKind.QUEUE_RELEASED)] == [released.id] * 3
    assert b.pushed(RequestCode.NOTIFY_QUEUES_RELEASED)[0]["cause"] == released.id


@simulated
async def test_giving_back_without_an_offset_commits_nothing(world: World) -> None:
    [a] = await group_of(world, "a")
    assert await a.unlock(("t", 0, -1, await a.token_of(0))) == []
    with pytest.raises(QueryNotFound, match="no offset"):
        await a.committed()


@simulated
async def test_a_queue_is_given_back_although_its_last_commit_is_refused(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    token = await a.token_of(0)
    assert codes(await a.unlock(("t", 0, 99, token))) == [ResponseCode.INVALID_PARAMETER]
    assert await b.token_of(0) > token


@simulated
async def test_no_one_gives_back_what_is_another_members(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    token = await a.token_of(0)
    for peer, stale in ((b, token), (a, token - 1)):
        assert await peer.unlock(("t", 0, -1, stale)) == []
    assert await b.lock(0) == ([], [["t", 0, a.client_id]])


@simulated
async def test_a_token_is_good_only_in_the_hands_of_its_owner_who_may_have_a_new_connection(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    thief, again = world.peer("thief"), world.peer("again")
    thief.client_id = again.client_id = a.client_id
    await a.send()
    await a.heartbeat(consumer(), run_id="run")
    token = await a.token_of(0)
    for epoch in ("", "guess"):
        with pytest.raises(ClientIdConflict):
            await thief.commit(1, token, epoch=epoch)
        with pytest.raises(ClientIdConflict):
            await thief.unlock(("t", 0, 1, token), epoch=epoch)
    with pytest.raises(QueryNotFound):
        await a.committed()
    # Before its heartbeat over the new connection, and while the broker believes that the old one is open.
    assert await again.commit(1, token, epoch="run") == []
    assert await again.unlock(("t", 0, -1, token), epoch="run") == []
    assert await b.token_of(0) > token
    await again.unregister("g", epoch="run")
    assert await b.members() == [b.client_id]


# --- an owner that leaves --------------------------------------------------------------------------------------------
async def leave(world: World, peer: Peer, how: str) -> None:
    if how == "unregister":
        await peer.unregister("g")
    elif how == "close":
        world.simulation.network.cut("a")
        await world.sleep(1)
    else:
        await peer.heartbeat(consumer(session_timeout_s=3.0))
        world.simulation.network.stall("a")
        await world.sleep(4)


WAYS = ["unregister", "close", "expiry"]


@pytest.mark.parametrize("how", WAYS)
@simulated
async def test_the_queues_of_a_member_that_leaves_are_free_at_once_and_the_refused_are_notified(
    world: World, how: str
) -> None:
    a, b = await group_of(world, "a", "b")
    token = await a.token_of(0)
    await b.lock(0)
    await leave(world, a, how)
    assert [header["n"] for header in b.pushed(RequestCode.NOTIFY_QUEUES_RELEASED)] == [1]
    assert [(event.client, event.detail) for event in world.of_kind(EventKind.LOCK_EXPIRED)] == [(a.client_id, how)]
    assert await b.token_of(0) > token


@pytest.mark.parametrize("how", WAYS)
@simulated
async def test_under_the_quirk_the_queues_of_a_member_that_leaves_are_blocked_for_a_minute(
    world: World, how: str
) -> None:
    a, b = await group_of(world, "a", "b", quirks=frozenset({Quirk.LOCKS_SURVIVE_CLOSE}))
    await a.token_of(0)
    await leave(world, a, how)
    [left] = world.of_kind(EventKind.MEMBER_LEAVE)
    left_at = (left.t_ms - EPOCH_MS) / 1000
    assert await b.lock(0) == ([], [["t", 0, a.client_id]])
    await world.sleep_until(left_at + LOCK_MAX_LIVE_S + 1)
    [(moment, code, _)] = [push for push in b.pushes if push[1] == RequestCode.NOTIFY_QUEUES_RELEASED]
    assert moment == pytest.approx(left_at + LOCK_MAX_LIVE_S + LATENCY_S, abs=0.001)
    assert code == RequestCode.NOTIFY_QUEUES_RELEASED
    await b.token_of(0)


@simulated
async def test_a_member_that_was_considered_dead_cannot_disturb_its_successor(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    for _ in range(5):
        await b.send()
    token = await a.token_of(0)
    await a.heartbeat(consumer(session_timeout_s=3.0))
    with world.simulation.network.stall("a"):
        await world.sleep(4)
        new_token = await b.token_of(0)
        assert await b.commit(4, new_token) == []
    assert codes(await a.commit(2, token)) == [ResponseCode.LEASE_LOST]
    assert codes(await a.commit(5, token)) == [ResponseCode.LEASE_LOST]
    assert (await a.pull(client_id=a.client_id, token=token)).code == ResponseCode.LEASE_LOST
    assert await b.committed() == 4


@simulated
async def test_the_last_commit_of_an_owner_is_welcome_until_someone_else_has_the_queue(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    await a.send()
    token = await a.token_of(0)
    await a.unlock(("t", 0, -1, token))
    assert await a.commit(1, token) == []
    await b.token_of(0)
    assert codes(await a.commit(1, token)) == [ResponseCode.LEASE_LOST]


# --- commits ---------------------------------------------------------------------------------------------------------
@simulated
async def test_a_commit_is_read_back_and_none_is_not_a_number(world: World) -> None:
    [a] = await group_of(world, "a")
    await a.send()
    with pytest.raises(QueryNotFound, match="no offset on t:0"):
        await a.committed()
    assert await a.commit(1, await a.token_of(0)) == []
    assert await a.committed() == 1


@simulated
async def test_a_commit_that_goes_back_is_refused_unless_it_is_a_reset(world: World) -> None:
    [a] = await group_of(world, "a")
    for _ in range(3):
        await a.send()
    token = await a.token_of(0)
    await a.commit(3, token)
    [[topic, queue_id, code, remark]] = await a.commit(1, token)
    assert (topic, queue_id, code) == ("t", 0, ResponseCode.OFFSET_REGRESSION)
    assert "reset the group" in remark
    assert await a.committed() == 3
    [[_, _, code, _]] = await world.peer("other").commit(1, reset=True)
    assert code == ResponseCode.LEASE_LOST, "only the member that has the queue may go back on it"
    assert await a.commit(1, token, reset=True) == []
    assert await a.committed() == 1


@simulated
async def test_a_commit_without_a_token_is_taken_while_no_one_has_the_queue(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    await a.send()
    assert await b.commit(0) == []
    token = await a.token_of(0)
    assert codes(await b.commit(1)) == [ResponseCode.LEASE_LOST]
    assert await a.commit(1, token) == []


@simulated
async def test_under_the_quirk_any_member_commits_anything_also_backwards(world: World) -> None:
    a, b = await group_of(world, "a", "b", quirks=frozenset({Quirk.OFFSETS_GO_BACK}))
    for _ in range(3):
        await a.send()
    assert await a.commit(3, await a.token_of(0)) == []
    assert await b.commit(1) == []
    assert await a.committed() == 1


@pytest.mark.parametrize("offset", [-1, 2, 2**62])
@simulated
async def test_an_offset_that_the_queue_does_not_have_cannot_be_committed(world: World, offset: int) -> None:
    [a] = await group_of(world, "a")
    await a.send()
    for reset in (False, True):
        [[_, _, code, remark]] = await a.commit(offset, reset=reset)
        assert code == ResponseCode.INVALID_PARAMETER
        assert "t:0 has offsets 0 to 1" in remark


@simulated
async def test_a_queue_that_never_was_cannot_be_committed_and_one_that_the_topic_lost_can(world: World) -> None:
    [a] = await group_of(world, "a")
    await a.send(queue_id=3)
    await a.put_topic("t", read=2)
    assert await a.commit(1, queue_id=3) == []
    [[_, _, code, remark]] = await a.commit(0, queue_id=2)
    assert (code, "no queue 2" in remark) == (ResponseCode.INVALID_PARAMETER, True)


@simulated
async def test_one_refused_commit_costs_the_others_nothing(world: World) -> None:
    [a] = await group_of(world, "a")
    await a.send(queue_id=0)
    await a.send(queue_id=2)
    rows = [["t", 0, 1, -1], ["t", 1, 5, -1], ["gone", 0, 1, -1], ["t", 2, 1, -1]]
    header = {"group": "g", "client_id": a.client_id}
    answer = await a.call(RequestCode.UPDATE_CONSUMER_OFFSET, header, rows)
    refusals = unpacked(answer)
    assert [(topic, queue_id) for topic, queue_id, _, _ in refusals] == [("t", 1)]
    assert (await a.committed(0), await a.committed(2)) == (1, 1)
    assert [(event.queue_id, event.offset) for event in world.of_kind(EventKind.OFFSET_COMMITTED)] == [(0, 1), (2, 1)]


@simulated
async def test_the_same_commit_again_is_not_an_event(world: World) -> None:
    [a] = await group_of(world, "a")
    await a.send()
    for _ in range(2):
        assert await a.commit(1) == []
    assert len(world.of_kind(EventKind.OFFSET_COMMITTED)) == 1


# --- what peers may get wrong ----------------------------------------------------------------------------------------
ROWS = {
    RequestCode.LOCK_BATCH_MQ: ["t", 0],
    RequestCode.UNLOCK_BATCH_MQ: ["t", 0, -1, -1],
    RequestCode.UPDATE_CONSUMER_OFFSET: ["t", 0, 0, -1],
}


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        *map(msgpack.packb, (5, {}, [5], [[]], [["t"]], [["t", -1]], [["t", True]])),
        nested(5),
        nested(1_020),
    ],
)
@pytest.mark.parametrize("code", ROWS)
@simulated
async def test_a_body_that_is_not_rows_is_refused(world: World, code: RequestCode, body: bytes) -> None:
    [a] = await group_of(world, "a")
    with pytest.raises(InvalidParameter, match="body"):
        await a.call(code, {"group": "g", "client_id": a.client_id}, body)


@pytest.mark.parametrize("code", ROWS)
@simulated
async def test_as_many_rows_as_the_limit_says_are_taken_and_no_more(world: World, code: RequestCode) -> None:
    [a] = await group_of(world, "a")
    header = {"group": "g", "client_id": a.client_id}
    assert (await a.call(code, header, [ROWS[code]] * MAX_LEASE_ROWS)).code == ResponseCode.SUCCESS
    with pytest.raises(InvalidParameter, match="body"):
        await a.call(code, header, [ROWS[code]] * (MAX_LEASE_ROWS + 1))


@pytest.mark.parametrize("code", [RequestCode.UNLOCK_BATCH_MQ, RequestCode.UPDATE_CONSUMER_OFFSET])
@simulated
async def test_no_one_commits_under_an_illegal_name(world: World, code: RequestCode) -> None:
    [a] = await group_of(world, "a")
    with pytest.raises(InvalidParameter, match="group name"):
        await a.call(code, {"group": "no group", "client_id": a.client_id}, [["t", 0, 0, -1]])
    with pytest.raises(InvalidParameter, match="client id"):
        await a.call(code, {"group": "g", "client_id": "a" * 256}, [["t", 0, 0, -1]])
