"""One connection of a stock client: what it is refused by the edge itself, and that its stream may break."""

from __future__ import annotations

import struct
from typing import cast

import pytest

from model.limits import MAX_REMARK_CHARS
from model.response_code import ResponseCode
from remoting.codec import Peer
from remoting.command import RESPONSE
from remoting.request_code import RequestCode
from rocketmq.edge import RocketmqDialect, ServerFacts, TranslatedRequest, empty_answer
from rocketmq.frame import Frame, FrameDecoder, encode_frame
from tests.unit.broker.harness import World, consumer, simulated
from tests.unit.rocketmq.stock_client import StockClient


@simulated
async def test_a_code_that_no_one_serves_is_refused_and_the_connection_goes_on(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    refused = await client.call(361_000, {})
    assert (refused.code, refused.remark) == (3, " request type 361000 not supported")
    assert (await client.send()).code == 0


@simulated
async def test_an_answer_has_the_form_of_its_request(world: World) -> None:
    await world.start_broker()
    for binary in (True, False):
        client = await StockClient.connect(world, binary=binary)
        assert (await client.send()).binary is binary
        assert (await client.call(9999, {})).binary is binary


@simulated
async def test_a_field_that_is_missing_is_named_in_the_refusal(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    refused = await client.call(310, {"b": "t"}, b"x")
    assert (refused.code, refused.remark) == (1, "request 310: the field queueId is missing")


@simulated
async def test_a_refusal_that_quotes_what_was_sent_is_cut_so_that_its_client_can_read_it(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    refused = await client.call(315, {"statsName": "x" * 100_000, "statsKey": "t"})
    assert len(refused.remark or "") == MAX_REMARK_CHARS


@simulated
async def test_a_one_way_request_is_served_and_not_answered(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.send()
    client.tell(15, {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 1})
    client.tell(9999, {})
    found = await client.call(14, {"consumerGroup": "g", "topic": "t", "queueId": 0})
    assert found.fields == {"offset": "1"}
    assert client.pushed == []


@simulated
async def test_a_stream_that_breaks_is_answered_with_one_refusal_and_closed_and_others_go_on(world: World) -> None:
    await world.start_broker()
    broken, other = await StockClient.connect(world), await StockClient.connect(world, "other")
    await broken.send()
    broken.write(struct.pack(">II", 11 * 2**20, 10 * 2**20))
    await broken.closed
    [refusal] = broken.pushed
    assert refusal.code == 1
    assert "a header of 10485760 bytes" in (refusal.remark or "")
    assert (await other.send()).code == 0


@simulated
async def test_a_refusal_with_a_code_of_our_own_is_a_system_error(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    await ours.put_topic()

    await ours.heartbeat(consumer())
    await ours.token_of(0)
    refused = await client.call(15, {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 0})
    assert refused.code == 1
    assert "is leased" in (refused.remark or "")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ResponseCode.STORAGE_FULL, 14),
        (ResponseCode.NOT_MASTER, 14),
        (ResponseCode.NOT_ENOUGH_REPLICAS, 14),
        (ResponseCode.REPLICATION_TIMEOUT, 12),
        (ResponseCode.FLUSH_DISK_TIMEOUT, 10),
        (ResponseCode.LEASE_LOST, 1),
    ],
)
def test_a_code_of_our_own_becomes_the_code_after_which_a_stock_client_does_the_right_thing(
    ours: ResponseCode, theirs: int
) -> None:
    asked = TranslatedRequest(RequestCode.GET_SERVER_STATE, {}, None, empty_answer)
    edge = RocketmqDialect(ServerFacts(), {99: lambda *_: asked}, {}).codec(cast(Peer, None))
    [command] = edge.feed(encode_frame(Frame(99, 0, 7, {})))
    answer = edge.encode(RESPONSE, ours, command.opaque, {"remark": "why"}, None)
    [frame] = FrameDecoder().feed(answer)
    assert (frame.code, frame.opaque, frame.remark) == (theirs, 7, "why")


@simulated
async def test_a_broker_may_be_without_the_dialect(world: World) -> None:
    await world.start_broker(rocketmq=False)
    client = await StockClient.connect(world)
    client.tell(310, {})
    await client.closed
    assert client.pushed == []
    assert (await world.peer("a").call(RequestCode.GET_SERVER_STATE)).header["kind"] == "broker"


@simulated
async def test_the_first_bytes_may_come_one_by_one(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    frame = bytes.fromhex(
        "00000025 01000021 0069 00 01cf 00000007 00000000 00000000 0000000c 0005 746f706963 00000001 54"
    )
    for n in range(len(frame)):
        client.write(frame[n : n + 1])
        await world.sleep(0.01)
    assert [answer.opaque for answer in client.pushed] == [7]
    assert FrameDecoder().feed(frame)[0].code == 105
