"""Membership of stock clients: they join, see members of both kinds, are notified, and lock queues."""

from __future__ import annotations

import json

from tests.unit.broker.harness import World, consumer, simulated
from tests.unit.rocketmq.stock_client import StockClient


@simulated
async def test_members_of_both_kinds_are_in_one_group_and_are_notified_of_each_other(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    assert (await client.heartbeat()).code == 0
    await world.sleep(1)
    client.pushed.clear()
    await ours.heartbeat(consumer())
    await world.sleep(1)
    assert [(frame.code, frame.flag, frame.fields) for frame in client.pushed] == [(40, 2, {"consumerGroup": "g"})]
    assert client.pushed[0].opaque > 0
    listed = await client.call(38, {"consumerGroup": "g"})
    assert json.loads(listed.body or b"")["consumerIdList"] == await ours.members() == ["a@1", "stock@1"]


@simulated
async def test_the_list_of_a_group_without_members_is_an_error(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    assert (await client.call(38, {"consumerGroup": "g"})).code == 1


@simulated
async def test_a_member_leaves_when_it_says_so_or_its_connection_closes(world: World) -> None:
    await world.start_broker()
    first, second, ours = await StockClient.connect(world), await StockClient.connect(world, "other"), world.peer("a")
    await first.heartbeat()
    await second.heartbeat()
    left = await first.call(35, {"clientID": "stock@1", "producerGroup": "", "consumerGroup": "g"})
    assert left.code == 0
    assert await ours.members() == ["other@1"]
    second.close()
    await world.sleep(1)
    assert await ours.members() == []


@simulated
async def test_what_a_cpp_client_leaves_out_or_writes_as_a_number_is_understood(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.heartbeat(
        consumeType=1, messageModel=0, consumeFromWhere=4, subscription={"subVersion": "17", "subString": ""}
    )
    info = world.broker.groups.table.get("g")
    assert info is not None
    data = info.members["stock@1"].data
    assert (data.model, data.consume_type, data.consume_from) == ("BROADCASTING", "PASSIVELY", "FIRST_OFFSET")
    assert [(one.topic, one.expression, one.version) for one in data.subscriptions] == [("t", "*", 17)]
    body = json.dumps({"clientID": "stock@1"}).encode()
    assert (await client.call(34, {}, body)).code == 0


@simulated
async def test_a_wrong_filter_is_refused_before_the_client_starts_and_in_its_heartbeat(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    for kind, text, code in (("TAG", "a", 0), ("SQL92", "a > 1", 0), ("SQL92", "a >", 23), ("XPATH", "a", 29)):
        subscription = {"expressionType": kind, "subString": text}
        answer = await client.call(46, {}, json.dumps({"subscriptionData": subscription}).encode())
        assert answer.code == code
        assert (await client.heartbeat(subscription=subscription)).code == code
    answer = await client.call(46, {}, json.dumps({"subscriptionData": {"expressionType": "SQL92"}}).encode())
    assert answer.code == 23  # the text of every tag is no filter
    assert (await client.call(46, {}, b"{}")).code == 1


@simulated
async def test_a_lock_is_a_lease_that_excludes_members_of_both_kinds(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    await ours.put_topic()
    await client.heartbeat()
    await ours.heartbeat(consumer())
    await ours.token_of(1)
    queues = [{"brokerName": "broker-a", "queueId": n, "topic": "t"} for n in (0, 1)]
    body = json.dumps({"clientId": "stock@1", "consumerGroup": "g", "mqSet": queues}).encode()
    answer = await client.call(41, {}, body)
    assert json.loads(answer.body or b"") == {"lockOKMQSet": queues[:1]}
    assert (await ours.lock(0))[1] == [["t", 0, "stock@1"]]


@simulated
async def test_a_member_whose_lock_was_refused_receives_at_once_that_the_queue_is_free(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    await ours.put_topic()
    await client.heartbeat()
    await ours.heartbeat(consumer())
    token = await ours.token_of(0)
    await world.sleep(5)
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "t"}
    body = json.dumps({"clientId": client.client_id, "consumerGroup": "g", "mqSet": [queue]}).encode()
    assert json.loads((await client.call(41, {}, body)).body or b"") == {"lockOKMQSet": []}
    client.pushed.clear()
    await ours.unlock(("t", 0, -1, token))
    await world.sleep(0.01)
    assert [(frame.code, frame.fields) for frame in client.pushed] == [(40, {"consumerGroup": "g"})]
    assert json.loads((await client.call(41, {}, body)).body or b"") == {"lockOKMQSet": [queue]}
