"""Clients of RocketMQ that ask for a lock while its owner is only being notified: their request waits for it."""

from __future__ import annotations

import asyncio
import json

from model.events import EventKind
from model.limits import LOCK_HOLD_S
from rocketmq.frame import Frame
from tests.unit.broker.harness import World, consumer, simulated
from tests.unit.rocketmq.stock_client import StockClient


def lock(client: StockClient) -> asyncio.Future[Frame]:
    queues = [{"brokerName": "broker-a", "queueId": 0, "topic": "t"}]
    body = {"clientId": client.client_id, "consumerGroup": "g", "mqSet": queues}
    return client.begin(41, {}, json.dumps(body).encode())


def locked(answer: Frame) -> int:
    return len(json.loads(answer.body or b"")["lockOKMQSet"])


@simulated
async def test_a_stock_member_that_joins_gets_the_lock_as_soon_as_its_owner_gives_the_queue_up(world: World) -> None:
    await world.start_broker()
    ours, stock = world.peer("ours"), await StockClient.connect(world)
    await ours.put_topic()
    await ours.heartbeat(consumer())
    token = await ours.token_of(0)
    await world.sleep(5)
    await stock.heartbeat()
    held = lock(stock)
    await world.sleep(0.2)
    assert not held.done()
    began = world.now
    await ours.unlock(("t", 0, -1, token))
    assert (locked(await held), world.now - began < 0.02) == (1, True)
    assert [event.client for event in world.of_kind(EventKind.LOCK_GRANTED)] == ["ours@1", "stock@1"]
    assert world.of_kind(EventKind.LOCK_REFUSED) == []


@simulated
async def test_a_lock_that_is_not_freed_is_refused_in_time_and_at_once_when_the_group_is_quiet(world: World) -> None:
    await world.start_broker()
    ours, stock = world.peer("ours"), await StockClient.connect(world)
    await ours.put_topic()
    await ours.heartbeat(consumer())
    await ours.lock(0)
    await world.sleep(5)
    await stock.heartbeat()
    began = world.now
    assert locked(await lock(stock)) == 0
    assert LOCK_HOLD_S - 0.05 < world.now - began < LOCK_HOLD_S + 0.05
    began = world.now
    assert (locked(await lock(stock)), world.now - began < 0.05) == (0, True)
    assert [event.client for event in world.of_kind(EventKind.LOCK_REFUSED)] == ["stock@1", "stock@1"]


@simulated
async def test_members_are_notified_of_a_stock_member_only_when_it_has_reported_every_broker(world: World) -> None:
    await world.start_broker()
    ours, stock = world.peer("ours"), await StockClient.connect(world)
    await ours.put_topic()
    await ours.heartbeat(consumer())
    await world.sleep(5)
    ours.pushes.clear()
    began = world.now
    await stock.heartbeat()
    await world.sleep(1)
    [(moment, _, _)] = ours.pushes
    assert 0.05 <= moment - began < 0.06
