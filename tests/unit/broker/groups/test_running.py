"""What a member knows of itself, asked by an operator through the broker."""

from __future__ import annotations

from model.limits import RELAY_TIMEOUT_S
from model.response_code import ResponseCode
from rocketmq.frame import RESPONSE_BIT, Frame, encode_frame
from tests.unit.broker.harness import World, consumer, simulated
from tests.unit.rocketmq.stock_client import StockClient


@simulated
async def test_what_a_stock_member_knows_of_itself_is_asked_and_told_byte_for_byte(world: World) -> None:
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
        told = tool.begin(307, asked)
        await world.sleep(0.1)
        question = client.pushed.pop()
        assert (question.code, question.flag, question.fields) == (307, 0, asked)
        client.write(encode_frame(Frame(code, RESPONSE_BIT, question.opaque, {}, body, "no" if code else None)))
        answer = await told
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
