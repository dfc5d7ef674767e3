"""Members that ask for no leases, as RocketMQ's own clients: one owner for each queue all the same."""

from __future__ import annotations

import asyncio
import json

import anyio

from model.events import EventKind
from model.limits import IMPLICIT_LEASE_COMMIT_SILENCE_S, IMPLICIT_LEASE_PULL_SILENCE_S, IMPLICIT_LEASE_TENURE_S
from model.quirks import Quirk
from remoting.request_code import RequestCode
from rocketmq.frame import Frame
from tests.unit.broker.harness import Peer, World, consumer, simulated
from tests.unit.rocketmq.stock_client import StockClient, messages_of

QUEUE = {"consumerGroup": "g", "topic": "t", "queueId": 0}
LOCK = [{"brokerName": "broker-a", "queueId": 0, "topic": "t"}]


async def begin(world: World, messages: int = 3, **options: object) -> tuple[StockClient, StockClient, Peer]:
    """A broker with messages in queue 0, two stock members, and one of our own."""
    await world.start_broker(**options)
    ours = world.peer("ours")
    await ours.put_topic()
    for n in range(messages):
        await ours.send(body=b"%d" % n)
    first, second = await StockClient.connect(world, "first"), await StockClient.connect(world, "second")
    await first.heartbeat()
    await second.heartbeat()
    await ours.heartbeat(consumer())
    return first, second, ours


async def take(world: World, client: StockClient) -> None:
    """Pull all messages, long enough ago that somebody else may want the queue."""
    await client.pull()
    await world.sleep(IMPLICIT_LEASE_TENURE_S)


async def commit(client: StockClient, offset: int) -> Frame:
    return await client.call(15, {**QUEUE, "commitOffset": offset})


def owner(world: World) -> str:
    lease = world.broker.leases.table.owner_of("g", ("t", 0))  # type: ignore[arg-type]  # a tuple is as good a key
    return "" if lease is None else lease.owner


async def granted_after(world: World, held: asyncio.Future[Frame]) -> float:
    began = world.now
    await held
    return world.now - began


@simulated
async def test_the_first_pull_of_a_free_queue_takes_its_lease_and_others_wait(world: World) -> None:
    first, second, ours = await begin(world)
    assert len(messages_of(await first.pull())) == 3
    assert owner(world) == "first@1"
    assert (await second.pull()).code == 19
    assert (await ours.lock(0))[1] == [["t", 0, "first@1"]]
    assert [event.client for event in world.of_kind(EventKind.LOCK_GRANTED)] == ["first@1"]
    assert [event.client for event in world.of_kind(EventKind.LOCK_REFUSED)] == ["second@1", "ours@1"]


@simulated
async def test_a_drained_queue_goes_to_the_member_that_waits_within_a_round_trip_of_the_commit(world: World) -> None:
    first, second, _ = await begin(world)
    await take(world, first)
    held = second.begin_pull()
    await world.sleep(0.1)
    assert not held.done()
    await commit(first, 3)
    moved = await held
    # It asked for messages that the other one has processed: it is told where to go on.
    assert (moved.code, moved.fields["nextBeginOffset"], owner(world)) == (20, "3", "second@1")
    assert [event.detail for event in world.of_kind(EventKind.QUEUE_RELEASED)] == ["unlock"]
    assert (await commit(first, 3)).code == 1


@simulated
async def test_an_owner_gets_nothing_new_while_another_member_wants_its_queue(world: World) -> None:
    first, second, ours = await begin(world)
    await take(world, first)
    await second.pull()
    await ours.send(body=b"new")
    assert (await first.pull(3)).code == 19
    held = second.begin_pull()
    await world.sleep(0.01)
    assert (await first.pull(3, sysFlag=3, commitOffset=3)).code == 19
    assert (await held).fields["nextBeginOffset"] == "3"
    assert [message["body"] for message in messages_of(await second.pull(3))] == [b"new"]


@simulated
async def test_a_held_pull_of_the_owner_is_answered_soon_once_someone_wants_its_queue(world: World) -> None:
    first, second, _ = await begin(world)
    await take(world, first)
    held = first.begin_pull(3)
    await world.sleep(5)
    assert not held.done()
    second.begin_pull()  # type: ignore[unused-awaitable]  # it waits
    assert await granted_after(world, held) < 0.3


@simulated
async def test_a_member_that_neither_pulls_nor_commits_has_given_its_queue_up(world: World) -> None:
    first, second, _ = await begin(world)
    await take(world, first)
    await commit(first, 1)
    began = world.now
    while (answer := await second.pull()).code == 19:
        pass
    assert IMPLICIT_LEASE_PULL_SILENCE_S < world.now - began < IMPLICIT_LEASE_PULL_SILENCE_S + 0.5
    assert (answer.fields["nextBeginOffset"], owner(world)) == ("1", "second@1")
    [lost] = world.of_kind(EventKind.LOCK_EXPIRED)
    assert (lost.client, lost.detail, lost.offset, lost.n) == ("first@1", "given up", 1, 2)


@simulated
async def test_silence_that_flow_control_may_explain_is_none_as_long_as_there_are_commits(world: World) -> None:
    first, second, _ = await begin(world, messages=1100)
    offset = 0
    while offset < 1100:
        offset = int((await first.pull(offset, maxMsgNums=1024)).fields["nextBeginOffset"])
    for n in range(1, 6):
        await commit(first, n)
        for _ in range(10):
            assert (await second.pull()).code == 19
    began = world.now
    while (await second.pull()).code == 19:
        pass
    assert IMPLICIT_LEASE_COMMIT_SILENCE_S - 6 < world.now - began < IMPLICIT_LEASE_COMMIT_SILENCE_S + 0.5


@simulated
async def test_a_member_of_ours_gets_the_queue_when_the_stock_member_has_processed_what_it_has(world: World) -> None:
    first, _, ours = await begin(world)
    await take(world, first)
    assert (await ours.lock(0))[0] == []
    await commit(first, 3)
    await world.sleep(0.1)
    assert ours.pushed(90_002)  # type: ignore[arg-type]
    assert (await ours.lock(0))[0][0][3] == 3


@simulated
async def test_a_stock_member_gets_the_queue_when_a_member_of_ours_releases_it(world: World) -> None:
    first, _, ours = await begin(world)
    token = await ours.token_of(0)
    held = first.begin_pull()
    await world.sleep(0.2)
    assert not held.done()
    await ours.unlock(("t", 0, 2, token))
    assert (await held).fields["nextBeginOffset"] == "2"
    assert (await ours.commit(3, token))[0][2] == 90_002


@simulated
async def test_a_member_that_leaves_frees_its_queues_at_once(world: World) -> None:
    first, second, _ = await begin(world)
    await take(world, first)
    held = second.begin_pull()
    await world.sleep(0.1)
    await first.call(35, {"clientID": "first@1", "consumerGroup": "g"})
    assert len(messages_of(await held)) == 3


@simulated
async def test_a_lock_ends_only_when_its_owner_says_so(world: World) -> None:
    first, second, _ = await begin(world)
    own, other = (
        json.dumps({"clientId": client, "consumerGroup": "g", "mqSet": LOCK}).encode()
        for client in ("first@1", "second@1")
    )
    assert json.loads((await first.call(41, {}, own)).body or b"") == {"lockOKMQSet": LOCK}
    await take(world, first)
    await commit(first, 3)
    await world.sleep(20)
    assert json.loads((await second.call(41, {}, other)).body or b"") == {"lockOKMQSet": []}
    assert (await second.call(42, {}, other)).code == 0
    assert owner(world) == "first@1"
    assert (await first.call(42, {}, own)).code == 0
    assert json.loads((await second.call(41, {}, other)).body or b"") == {"lockOKMQSet": LOCK}


@simulated
async def test_under_the_quirk_both_members_read_the_queue(world: World) -> None:
    first, second, _ = await begin(world, quirks=frozenset({Quirk.OVERLAPPING_HANDOVER}))
    assert len(messages_of(await first.pull())) == len(messages_of(await second.pull())) == 3
    assert (await commit(first, 3)).code == (await commit(second, 3)).code == 0


@simulated
async def test_after_a_restart_of_the_broker_the_owner_has_its_queue_and_may_give_it_up(world: World) -> None:
    first, _, _ = await begin(world)
    await take(world, first)
    await commit(first, 3)
    await world.sleep(1)
    await world.stop_broker()
    await world.start_broker()
    again, second = await StockClient.connect(world, "first"), await StockClient.connect(world, "second")
    await again.heartbeat()
    await second.heartbeat()
    assert owner(world) == "first@1"
    began = world.now
    while (await second.pull(3)).code == 19 and owner(world) != "second@1":
        pass
    assert (
        IMPLICIT_LEASE_PULL_SILENCE_S
        < world.now - began
        < IMPLICIT_LEASE_TENURE_S + IMPLICIT_LEASE_PULL_SILENCE_S + 0.8
    )


@simulated
async def test_a_member_starts_where_its_group_began_although_it_asks_later(world: World) -> None:
    first, _, ours = await begin(world)
    await world.sleep(1)
    await ours.send(body=b"since then")
    await first.heartbeat(consumeFromWhere="CONSUME_FROM_LAST_OFFSET")
    started = await first.call(14, QUEUE)
    assert (started.code, started.fields) == (0, {"offset": "3"})
    starts = (("CONSUME_FROM_FIRST_OFFSET", 0), ("CONSUME_FROM_TIMESTAMP", None), ("UNKNOWN", None))
    for start, offset in starts:
        await first.heartbeat(consumeFromWhere=start)
        answer = await first.call(14, QUEUE)
        assert answer.fields.get("offset") == (None if offset is None else str(offset))


@simulated
async def test_a_lite_pull_consumer_decides_by_itself_where_it_starts(world: World) -> None:
    first, _, _ = await begin(world)
    await first.heartbeat(consumeType="CONSUME_ACTIVELY", consumeFromWhere="CONSUME_FROM_LAST_OFFSET")
    assert (await first.call(14, QUEUE)).code == 22


@simulated
async def test_a_broadcasting_member_and_one_that_only_looks_read_without_a_lease(world: World) -> None:
    first, second, _ = await begin(world)
    await first.heartbeat(messageModel="BROADCASTING")
    assert len(messages_of(await first.pull())) == 3
    assert len(messages_of(await second.pull(consumerGroup="looks", sysFlag=4, subscription="*"))) == 3
    assert owner(world) == ""


@simulated
async def test_two_members_that_both_want_a_queue_take_turns_of_a_second_and_both_get_messages(world: World) -> None:
    first, second, ours = await begin(world, messages=0)
    got: dict[str, list[int]] = {"first": [], "second": []}

    async def consume(name: str, client: StockClient) -> None:
        offset = 0
        while world.now < 10:
            answer = await client.pull(offset, sysFlag=3, commitOffset=offset)
            offset = int(answer.fields["nextBeginOffset"])
            got[name] += [message["offset"] for message in messages_of(answer)]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consume, "first", first)
        tasks.start_soon(consume, "second", second)
        for _ in range(45):
            await ours.send()
            await world.sleep(0.2)
    assert sorted(got["first"] + got["second"]) == list(range(45))
    assert min(map(len, got.values())) > 10
    assert len(world.of_kind(EventKind.LOCK_GRANTED)) < 14


@simulated
async def test_a_pull_that_is_parked_does_not_take_a_queue_back_that_its_member_has_unlocked(world: World) -> None:
    first, second, _ = await begin(world)
    for client in (first, second):
        body = {"clientId": client.client_id, "consumerGroup": "g", "mqSet": LOCK}
        await client.call(41, {}, json.dumps(body).encode())
    parked = first.begin_pull(3)
    await world.sleep(0.1)
    body = {"clientId": first.client_id, "consumerGroup": "g", "mqSet": LOCK}
    await first.call(42, {}, json.dumps(body).encode())
    assert (await parked).code == 19
    assert owner(world) == ""
    body["clientId"] = second.client_id
    await second.call(41, {}, json.dumps(body).encode())
    assert owner(world) == second.client_id


@simulated
async def test_a_topic_that_is_deleted_while_someone_wants_a_queue_of_it_leaves_nothing_to_wait_for(
    world: World,
) -> None:
    first, second, ours = await begin(world)
    await take(world, first)
    second.begin_pull()  # type: ignore[unused-awaitable]  # it waits, so the lease is contested
    await world.sleep(0.01)
    assert len(world.broker.pull_access.implicit.contested_leases()) == 1
    await ours.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    assert len(world.broker.pull_access.implicit) == len(world.broker.pull_access.implicit.contested_leases()) == 0
    deadline = world.broker.features.next_deadline()
    assert deadline is None or deadline > world.now, "the broker would never rest again"
