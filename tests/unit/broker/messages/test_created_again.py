"""Offsets of a topic that was deleted count for nothing in the topic that was created again under its name."""

from __future__ import annotations

import pytest

from model.errors import InvalidParameter
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from tests.unit.broker.harness import World, simulated, unpacked
from tests.unit.broker.messages.test_pull import offsets, topic


@simulated
async def test_a_pull_with_the_number_of_a_topic_that_was_recreated_is_answered_with_the_new_one(
    world: World,
) -> None:
    a = await topic(world)
    await a.send()
    known = (await a.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0})).header
    number = {name: known[name] for name in ("topic_id", "data_id")}
    assert abs(known["now_ms"] - world.simulation.clock_ms()) <= 1
    assert (await a.pull(**number)).code == ResponseCode.SUCCESS
    held = await a.begin_pull(offset=1, suspend_ms=15_000, **number)
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    assert (await held).code == ResponseCode.TOPIC_NOT_EXIST
    await a.put_topic()
    for _ in range(3):
        await a.send()
    answer = await a.pull(offset=1, **number)
    assert (answer.code, offsets(answer)) == (ResponseCode.PULL_OFFSET_MOVED, (0, 0, 3))
    assert answer.header["topic_id"] > number["topic_id"]
    assert answer.header["data_id"] == number["data_id"] > 0
    other_disk = await a.pull(offset=1, topic_id=answer.header["topic_id"], data_id=1)
    assert other_disk.code == ResponseCode.PULL_OFFSET_MOVED
    for earlier_version in ({}, {"topic_id": answer.header["topic_id"]}):
        assert (await a.pull(offset=1, **earlier_version)).code == ResponseCode.SUCCESS


@simulated
async def test_a_commit_that_counts_in_a_topic_that_was_recreated_is_late_and_ignored(world: World) -> None:
    a = await topic(world)
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    await a.put_topic()
    await a.put_topic("u")
    for name in ("t", "t", "t", "u"):
        await a.send(name)
    number = (await a.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queue_id": 0})).header
    table = world.broker.leases.offsets

    async def commit(topic_ids: list[int], **more: int) -> None:
        header = {"group": "h", "client_id": "x", "topic_ids": topic_ids, **more}
        rows = [["t", 0, 2, -1], ["u", 0, 1, -1]]
        answer = await a.call(RequestCode.UPDATE_CONSUMER_OFFSET, header, rows)
        assert unpacked(answer) == []

    await commit([number["topic_id"] - 1, 0], data_id=number["data_id"])
    assert (table.read("h", "t", 0), table.read("h", "u", 0)) == (None, 1)
    await commit([number["topic_id"], 0], data_id=1)
    assert table.read("h", "t", 0) is None
    await commit([number["topic_id"], 0], data_id=number["data_id"])
    assert table.read("h", "t", 0) == 2
    with pytest.raises(InvalidParameter, match="topic_ids must be as many as the rows, 2, got 1"):
        await commit([7])
