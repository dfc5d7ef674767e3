"""Transactions of stock producers: half messages, ends, and checks in which both kinds stand in for each other."""

from __future__ import annotations

import json
from typing import Any

from model.transaction import TransactionState
from remoting.request_code import RequestCode
from rocketmq.frame import Frame
from tests.unit.broker.harness import World, simulated, unpacked
from tests.unit.broker.transactions.test_checks import asked, join
from tests.unit.broker.transactions.test_service import COMMIT, DONE, ROLLBACK, UNKNOWN, end, half, stored
from tests.unit.rocketmq.stock_client import StockClient, messages_of

HALF = "TRAN_MSG\x01true\x02PGROUP\x01p\x02"
CHECK, END = 39, 37


async def begin(client: StockClient, message_id: str, **more: Any) -> Frame:
    properties = f"{HALF}UNIQ_KEY\x01{message_id}\x02" + str(more.pop("i", ""))
    return await client.send(message_id.encode(), i=properties, **{"f": 4, **more})


def report_end(client: StockClient, sent: Frame, state: int, group: str = "p") -> None:
    """End a transaction as a producer of Java does, from the answer to its half message."""
    fields = sent.fields
    client.tell(
        END,
        {
            "producerGroup": group,
            "tranStateTableOffset": fields["queueOffset"],
            "commitLogOffset": int(fields["msgId"][16:], 16),
            "commitOrRollback": state,
            "fromTransactionCheck": "false",
            "msgId": fields["transactionId"],
            "transactionId": fields["transactionId"],
        },
    )


def report_answer(client: StockClient, check: Frame, state: int) -> None:
    """Answer a check as a producer of Java does, from the check and its message."""
    (message,) = messages_of(check)
    fields = {name: check.fields[name] for name in ("tranStateTableOffset", "commitLogOffset", "transactionId")}
    named = {"producerGroup": message["properties"]["PGROUP"], "msgId": message["properties"]["UNIQ_KEY"]}
    client.tell(END, {**fields, **named, "commitOrRollback": state, "fromTransactionCheck": "true"})


def checks(client: StockClient) -> list[Frame]:
    return [frame for frame in client.pushed if frame.code == CHECK]


@simulated
async def test_a_half_message_is_published_by_its_commit_and_never_by_a_rollback(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    x, y = await begin(client, "x", queue_id=2), await begin(client, "y", queue_id=2)
    assert (x.code, x.fields["queueId"], x.fields["queueOffset"], x.fields["transactionId"]) == (0, "2", "0", "x")
    assert len(x.fields["msgId"]) == 32
    assert await stored(ours, queue_id=2) == []
    report_end(client, y, ROLLBACK)
    report_end(client, x, COMMIT)
    await world.sleep(0.1)
    (message,) = messages_of(await client.pull(queue_id=2, sysFlag=6, subscription="*"))
    assert (message["body"], message["properties"]) == (b"x", {"UNIQ_KEY": "x", "PGROUP": "p"})
    assert len(world.broker.transactions.table) == 0
    assert client.pushed == [], "an end is one-way"


@simulated
async def test_a_transaction_that_stays_open_is_checked_and_the_answer_ends_it(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.heartbeat()
    sent = await begin(client, "x", queue_id=3, i="TAGS\x01red\x02mine\x01ü\x02", h=7)
    report_end(client, sent, UNKNOWN)
    await world.sleep(5.9)
    assert checks(client) == []
    await world.sleep(0.2)
    (check,) = checks(client)
    assert (check.flag, check.opaque > 0) == (2, True)
    assert check.fields == {
        "tranStateTableOffset": "0",
        "commitLogOffset": str(int(sent.fields["msgId"][16:], 16)),
        "msgId": "x",
        "transactionId": "x",
        "offsetMsgId": sent.fields["msgId"],
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
    }
    (message,) = messages_of(check)
    assert (message["topic"], message["queue_id"], message["offset"], message["body"]) == ("t", 3, 0, b"x")
    assert message["properties"] == {"TAGS": "red", "UNIQ_KEY": "x", "mine": "ü", "PGROUP": "p"}
    assert (message["flag"], message["born_ms"], message["port"]) == (7, 1000, 10911)
    report_answer(client, check, COMMIT)
    await world.sleep(0.1)
    assert len(messages_of(await client.pull(queue_id=3))) == 1
    await world.sleep(100)
    assert len(checks(client)) == 1


@simulated
async def test_a_stock_producer_is_checked_for_one_of_ours_that_is_gone(world: World) -> None:
    await world.start_broker()
    client, ours, reader = await StockClient.connect(world), world.peer("a"), world.peer("b")
    await ours.put_topic()
    await client.heartbeat()
    await join(ours)
    await half(ours, "x", "y")
    await ours.close()
    await world.sleep(7)
    first, second = checks(client)
    assert [messages_of(each)[0]["body"] for each in (first, second)] == [b"x", b"y"]
    report_answer(client, first, COMMIT)
    report_answer(client, second, ROLLBACK)
    await world.sleep(0.1)
    assert await stored(reader) == [b"x"]
    assert len(world.broker.transactions.table) == 0


@simulated
async def test_one_of_ours_is_checked_for_a_stock_producer_that_is_gone(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    await client.heartbeat()
    await begin(client, "x")
    client.close()
    await world.sleep(10)
    await join(ours)
    await world.sleep(0.1)
    assert asked(ours) == [(0, 1)]
    assert await end(ours, (0, "x", COMMIT), from_check=True) == [DONE]
    assert await stored(ours) == [b"x"]


@simulated
async def test_a_message_says_itself_when_it_is_checked_first(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    await client.heartbeat()
    await begin(client, "x", i="CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02")
    await world.sleep(59)
    assert checks(client) == []
    await world.sleep(2)
    assert len(checks(client)) == 1


@simulated
async def test_the_inner_producer_of_a_client_is_asked_nothing(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    body = {"clientID": client.client_id, "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}]}
    assert (await client.call(34, {}, json.dumps(body).encode())).code == 0
    assert world.broker.groups.checkers == {}


@simulated
async def test_an_end_that_names_no_half_message_is_refused_and_changes_nothing(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    await begin(client, "x")
    named = {"producerGroup": "p", "tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": COMMIT}
    for more, code, text in (
        ({"msgId": "y"}, 1, "no half message y at 0"),
        ({"msgId": "x", "producerGroup": "other"}, 1, "'other' has no half message"),
        ({"msgId": "x", "tranStateTableOffset": 5}, 1, "no half message x at 5"),
        ({}, 1, "transactionId is missing"),
        ({"msgId": "x", "commitOrRollback": 3}, 29, "a state is 0"),
    ):
        refused = await client.call(END, {**named, **more})
        assert (refused.code, text in (refused.remark or "")) == (code, True), refused.remark
    assert await stored(ours) == []
    done = await client.call(END, {**named, "transactionId": "x"})
    assert (done.code, await stored(ours)) == (0, [b"x"])
    assert (await client.call(END, {**named, "transactionId": "x"})).code == 0, "an end may be repeated"


@simulated
async def test_a_half_message_that_is_delayed_or_a_retry_is_refused(world: World) -> None:
    await world.start_broker()
    client = await StockClient.connect(world)
    for more in ({"i": "DELAY\x013\x02"}, {"i": "TIMER_DELAY_SEC\x015\x02"}, {"topic": "%RETRY%g"}):
        refused = await begin(client, "x", **more)
        assert (refused.code, "has no transaction" in (refused.remark or "")) == (13, True)
    assert len(world.broker.transactions.table) == 0


@simulated
async def test_a_half_message_may_be_reported_by_its_property_alone_and_creates_its_topic(world: World) -> None:
    await world.start_broker()
    client, ours = await StockClient.connect(world), world.peer("a")
    sent = await begin(client, "x", topic="new", f=0)
    assert sent.code == 0
    await end(ours, (0, "x", TransactionState.COMMIT))
    assert await stored(ours, "new") == [b"x"]
    listed = unpacked(await ours.call(RequestCode.GET_ALL_PRODUCER_INFO))
    assert listed == []
