from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgpack
import pytest

from broker.store.disk.options import StoreOptions
from broker.topics import damage
from model.events import EventKind
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, consumer, payload_of, records, simulated

SMALL = StoreOptions(segment_bytes=1_000, tail_bytes=0)


async def stored(world: World, n: int = 40) -> tuple[Peer, list[Path]]:
    """Store messages in queue 0 of topic t, stop the broker, and return the files with messages."""
    await world.start_broker(store=SMALL)
    a = world.peer("a")
    await a.put_topic()
    for _ in range(n):
        await a.send()
    await world.stop_broker()
    return a, [path for path in sorted(world.data_dir.glob("*.log")) if payload_of(b"m") in path.read_bytes()]


async def reported_damage(peer: Peer) -> Any:
    answer = await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    info: Any = msgpack.unpackb(answer.body or b"", strict_map_key=False)
    return info["damaged"]


def test_what_is_missing_is_said_at_the_start_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def scenario(world: World) -> None:
        _, segments = await stored(world)
        segments[1].unlink()
        world.events.clear()
        caplog.clear()
        await world.start_broker(store=SMALL)
        up, event, *_ = world.events
        assert (up.kind, event.kind) == (EventKind.BROKER_UP, EventKind.MESSAGES_DAMAGED)
        assert (event.topic, event.queue_id, event.detail) == ("t", 0, segments[1].name)
        lost = range(event.offset, event.offset + event.n)
        assert f"offsets {lost[0]} to {lost[-1]} of t:0, {event.n} in all, are damaged or missing" in caplog.text
        assert str(segments[1]) in caplog.text
        b = world.peer("b")
        assert await reported_damage(b) == {"t": {0: event.n}}
        got, offset, damaged = [], 0, 0
        while offset < 40:
            answer = await b.pull(offset=offset)
            got += [record.queue_offset for record in records(answer)]
            damaged += answer.header.get("damaged", 0)
            offset = answer.header["next_offset"]
        assert got == [offset for offset in range(40) if offset not in lost]
        assert damaged == event.n
        [moved] = world.of_kind(EventKind.OFFSET_MOVED)
        assert (moved.group, moved.n, moved.offset, moved.detail) == ("g", event.n, lost[-1] + 1, "damaged")
        await b.heartbeat(consumer())
        stats = await b.call(RequestCode.GET_CONSUME_STATS, {"group": "g"})
        assert stats.header["damaged"] == [["t", 0, event.n]]
        assert world.of_kind(EventKind.MESSAGES_DAMAGED) == [event], "what is known is said once"

    scenario(tmp_path)


@simulated
async def test_a_flipped_bit_is_said_at_the_first_read_and_the_pull_that_finds_nothing_else_is_not_held(
    world: World,
) -> None:
    _, segments = await stored(world)
    content = bytearray(segments[-1].read_bytes())
    content[-1] ^= 1
    segments[-1].write_bytes(content)
    await world.start_broker(store=SMALL)
    b = world.peer("b")
    assert await reported_damage(b) == {}
    answer = await b.pull(offset=39, suspend_ms=30_000)
    assert (answer.code, answer.header["next_offset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 40)
    assert answer.header["damaged"] == 1
    [event] = world.of_kind(EventKind.MESSAGES_DAMAGED)
    assert (event.offset, event.n, event.detail) == (39, 1, segments[-1].name)
    assert await reported_damage(b) == {"t": {0: 1}}


def test_many_ranges_are_events_each_and_few_lines_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "MAX_DAMAGE_LINES", 2)

    @simulated
    async def scenario(world: World) -> None:
        _, segments = await stored(world, 150)
        assert len(segments) > 5
        for path in segments[::2]:
            path.unlink()
        caplog.clear()
        await world.start_broker(store=SMALL)
        events = world.of_kind(EventKind.MESSAGES_DAMAGED)
        assert [event.detail for event in events] == [path.name for path in segments[::2]]
        lines = [line for line in caplog.messages if "damaged or missing" in line or "ranges more" in line]
        assert len(lines) == 3
        assert f"{sum(event.n for event in events)} messages in all: rlab broker verify {world.data_dir}" in lines[-1]

    scenario(tmp_path)


def test_a_missing_file_of_ends_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def scenario(world: World) -> None:
        await stored(world, 3)
        (world.data_dir / "ENDS").unlink()
        for expected in (1, 0):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                await world.start_broker(store=SMALL)
            assert caplog.text.count("ENDS is missing") == expected
            await world.stop_broker()

    scenario(tmp_path)


@simulated
async def test_messages_of_a_deleted_topic_are_not_missed(world: World) -> None:
    await world.start_broker(store=SMALL)
    a = world.peer("a")
    await a.put_topic()
    for _ in range(40):
        await a.send()
    segments = [path for path in sorted(world.data_dir.glob("*.log")) if payload_of(b"m") in path.read_bytes()]
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    await world.stop_broker()
    segments[1].unlink()
    await world.start_broker(store=SMALL)
    assert world.of_kind(EventKind.MESSAGES_DAMAGED) == []


BODY = b"0123456789" * 20


def flip(world: World) -> None:
    """Flip a byte in the middle of the first copy of the body that is stored."""
    [path] = [path for path in world.data_dir.glob("*.log") if BODY in path.read_bytes()]
    data = bytearray(path.read_bytes())
    data[data.index(BODY) + 100] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("is_delivered", [False, True])
def test_damage_of_a_delayed_message_is_reported_as_one_of_the_topic_that_it_waits_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_delivered: bool
) -> None:
    @simulated
    async def scenario(world: World) -> None:
        await world.start_broker()
        a = world.peer("a")
        await a.put_topic("orders")
        await a.put_topic("others")
        header = {"queue_id": 0, "tag_hash": 0}
        # It waits before the other, so the start reads both.
        later = {**header, "topic": "others", "delay_ms": 60_000}
        await a.call(RequestCode.SEND_MESSAGE, later, payload_of(b"x", "others"))
        await a.call(RequestCode.SEND_MESSAGE, {**header, "topic": "orders", "delay_ms": 5_000}, payload_of(BODY))
        if is_delivered:
            await world.sleep(6)
        await world.stop_broker()
        flip(world)
        world.events.clear()
        caplog.clear()
        await world.start_broker()
        await world.sleep(6)
        found = [(each.topic, each.n) for each in world.of_kind(EventKind.MESSAGES_DAMAGED) if each.topic == "orders"]
        assert len(world.of_kind(EventKind.MESSAGES_DAMAGED)) == 1, "each message counts once"
        assert found == ([] if is_delivered else [("orders", 1)])
        assert ("1 delayed messages for topic 'orders' are damaged or missing in" in caplog.text) != is_delivered

    scenario(tmp_path)


def test_damage_of_a_half_message_is_reported_with_its_topic_and_producer_group(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @simulated
    async def scenario(world: World) -> None:
        await world.start_broker()
        a = world.peer("a")
        await a.put_topic("orders")
        rows = [["orders", 0, 0, 1_000, payload_of(BODY, "orders")]]
        await a.call(RequestCode.SEND_HALF_MESSAGE, {"group": "pays"}, rows)
        await world.stop_broker()
        flip(world)
        world.events.clear()
        caplog.clear()
        await world.start_broker()
        await world.sleep(6)
        answer = await a.call(RequestCode.END_TRANSACTION, {"group": "pays"}, [[0, "", 8]])
        assert answer.body is not None
        assert "1 half messages for topic 'orders' of producer group 'pays' are damaged or missing in" in caplog.text
        events = [each for each in world.of_kind(EventKind.MESSAGES_DAMAGED) if each.group == "pays"]
        assert [(each.topic, each.n) for each in events] == [("orders", 1)]

    scenario(tmp_path)
