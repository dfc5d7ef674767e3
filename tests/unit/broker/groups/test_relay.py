"""What an operator has a member asked by the broker: what it knows of itself, and to consume a message."""

from __future__ import annotations

from model.limits import RELAY_TIMEOUT_S
from model.response_code import ResponseCode
from rocketmq.frame import RESPONSE_BIT, Frame, encode_frame
from tests.unit.broker.harness import World, consumer, simulated
from tests.unit.rocketmq.stock_client import StockClient, messages_of


@simulated
async def test_what_a_stock_member_knows_of_itself_is_asked_and_reported_byte_for_byte(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("ours")
    await ours.put_topic()
    tool = await StockClient.connect(world, "tool")
    asked = {"consumerGroup": "g", "clientId": client.client_id, "jstackEnable": "false"}
    assert (await tool.call(307, asked)).code == ResponseCode.CONSUMER_NOT_ONLINE
    await client.heartbeat()
    await world.sleep(1)  # until it was notified that it has joined
    client.pushed.clear()
    for code, body, expected in ((0, b'{{"topic":"t"}:1}', (0, b'{{"topic":"t"}:1}', None)), (1, None, None)):
        reported = tool.begin(307, asked)
        await world.sleep(0.1)
        question = client.pushed.pop()
        assert (question.code, question.flag, question.fields) == (307, 0, asked)
        client.write(encode_frame(Frame(code, RESPONSE_BIT, question.opaque, {}, body, "no" if code else None)))
        answer = await reported
        if expected is None:
            assert (answer.code, "refused it with code 1: no" in (answer.remark or "")) == (1, True)
        else:
            assert (answer.code, answer.body, answer.remark) == expected
    began = world.now
    assert (await tool.call(307, asked)).code == ResponseCode.SYSTEM_BUSY
    assert RELAY_TIMEOUT_S <= world.now - began < RELAY_TIMEOUT_S + 1
    await ours.heartbeat(consumer())
    refused = await tool.call(307, {**asked, "clientId": ours.client_id})
    assert (refused.code, "rlab group show g" in (refused.remark or "")) == (604, True)


@simulated
async def test_a_stock_member_consumes_a_message_at_once_that_the_tool_names_by_its_id(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("ours")
    await ours.put_topic()
    await client.heartbeat()
    await client.send(b"first")
    sent = await client.send(b"second", i="UNIQ_KEY\x01ID\x02")
    tool = await StockClient.connect(world, "tool")
    asked = {"consumerGroup": "g", "clientId": client.client_id, "msgId": sent.fields["msgId"]}
    reported = tool.begin(309, asked)
    await world.sleep(1)
    [question] = [frame for frame in client.pushed if frame.code == 309]
    assert (question.flag, question.fields["brokerName"], question.fields["topic"]) == (0, "broker-a", "t")
    [message] = messages_of(question)
    assert (message["body"], message["offset"], message["properties"]["UNIQ_KEY"]) == (b"second", 1, "ID")
    said = b'{"consumeResult":"CR_SUCCESS"}'
    client.write(encode_frame(Frame(0, RESPONSE_BIT, question.opaque, {}, said)))
    assert ((await reported).code, (await reported).body) == (0, said)
    for wrong, remark in (
        ("no id", "is not a message id that a broker assigns"),
        (sent.fields["msgId"][:-1] + "9", "no message 9"),
    ):
        refused = await tool.call(309, {**asked, "msgId": wrong})
        assert (refused.code != 0, remark in (refused.remark or "")) == (True, True), refused.remark
    assert (await tool.call(309, {**asked, "clientId": "nobody"})).code == ResponseCode.CONSUMER_NOT_ONLINE
