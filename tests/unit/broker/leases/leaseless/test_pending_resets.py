"""Resets of offsets that clients of RocketMQ follow in their own time, and may not undo."""

from __future__ import annotations

from broker.leases.leaseless.pending_resets import PendingResets
from broker.leases.table import QueueKey
from model.events import EventKind
from model.limits import RESET_FOLLOW_S
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, consumer, simulated
from tests.unit.rocketmq.stock_client import StockClient, messages_of

KEY = ("g", QueueKey("t", 0))
MOVED = 21


def test_a_reset_is_pending_until_someone_pulls_from_its_offset() -> None:
    resets = PendingResets()
    resets.add(KEY, 7, now=1.0)
    assert resets.pulled(KEY, 9) == (7, 1.0 + RESET_FOLLOW_S)
    assert (resets.would_undo_reset(KEY, 9), resets.would_undo_reset(KEY, 7)) == (True, False)
    assert resets.pulled(KEY, 7) is None
    assert (resets.pulled(KEY, 9), resets.would_undo_reset(KEY, 9), len(resets)) == (None, False, 0)


def test_a_reset_ends_with_its_group_its_topic_or_a_member_that_has_the_lease() -> None:
    resets = PendingResets()
    for n in range(3):
        resets.add(("g", QueueKey("t", n)), 7, now=1.0)
    resets.followed(KEY)
    resets.forget(lambda place: place[1].queue_id == 1)
    assert [resets.would_undo_reset(("g", QueueKey("t", n)), 9) for n in range(3)] == [False, False, True]


async def consuming(world: World) -> tuple[StockClient, Peer]:
    """A stock member that has pulled three messages of queue 0 and has committed them, and an operator."""
    await world.start_broker()
    operator = world.peer("operator")
    await operator.put_topic()
    for n in range(3):
        await operator.send(body=b"%d" % n)
    stock = await StockClient.connect(world)
    await stock.heartbeat()
    await stock.pull()
    await commit(stock, 3)
    return stock, operator


async def commit(stock: StockClient, offset: int) -> int:
    row = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": offset}
    return (await stock.call(15, row)).code


async def reset(operator: Peer) -> None:
    header = {"group": "g", "topic": "t", "to": "earliest"}
    await operator.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)


@simulated
async def test_what_a_stock_member_commits_before_it_follows_a_reset_does_not_undo_it(world: World) -> None:
    stock, operator = await consuming(world)
    held = stock.begin_pull(3)
    await world.sleep(0.1)
    await reset(operator)
    for _ in range(2):
        await world.sleep(5)
        assert await commit(stock, 3) == 1
    assert ((await held).code, await operator.committed(0)) == (19, 0)
    assert await commit(stock, 0) == 0
    assert len(messages_of(await stock.pull(0))) == 3
    assert (await commit(stock, 2), await operator.committed(0)) == (0, 2)
    [expired] = world.of_kind(EventKind.LOCK_EXPIRED)
    assert (expired.client, expired.detail) == (stock.client_id, "reset")


@simulated
async def test_a_stock_member_that_was_not_notified_is_reported_with_a_pull_where_it_goes_on(world: World) -> None:
    stock, operator = await consuming(world)
    await reset(operator)
    assert (await stock.pull(3)).code == 19
    await world.sleep(RESET_FOLLOW_S)
    moved = await stock.pull(3)
    assert (moved.code, moved.fields["nextBeginOffset"]) == (MOVED, "0")
    await reset(operator)
    await stock.heartbeat(consumeType="CONSUME_ACTIVELY")
    assert (await stock.pull(3)).code == MOVED


@simulated
async def test_a_member_of_ours_that_gets_a_reset_queue_ends_the_wait_for_stock_members(world: World) -> None:
    stock, operator = await consuming(world)
    await reset(operator)
    ours = world.peer("ours")
    await ours.heartbeat(consumer())
    [[_, _, token, offset]], _ = await ours.lock(0)
    assert (offset, await ours.commit(3, token)) == (0, [])
    await ours.unlock(("t", 0, 3, token))
    assert messages_of(await stock.pull(3)) == []
    assert not world.broker.pull_access.resets.would_undo_reset(KEY, 3)


@simulated
async def test_a_reset_of_a_group_of_our_members_waits_for_no_one(world: World) -> None:
    await world.start_broker()
    operator = world.peer("operator")
    await operator.put_topic()
    await operator.heartbeat(consumer())
    await reset(operator)
    assert len(world.broker.pull_access.resets) == 0
