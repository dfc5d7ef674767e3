"""Messages are found by key and by id, wherever they are, and a search keeps nobody waiting."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from broker.messages import query as query_handlers
from broker.store.disk.options import StoreOptions
from model.errors import InvalidParameter, ServerError
from model.limits import MAX_LOOKUP_MESSAGES, MAX_LOOKUPS
from model.message import Message, encode_payload
from model.record import HEADER
from model.response_code import ResponseCode
from remoting.command import Command
from remoting.request_code import RequestCode
from tests.unit.broker.harness import FailingDisk, Peer, World, records, simulated, unpacked

SMALL = StoreOptions(segment_records=5)
STEP_S = 2**-6


async def send(peer: Peer, key: str, message_id: str = "id", topic: str = "t", **header: Any) -> None:
    payload = encode_payload(Message(topic, b"body", keys=[key, "all"]), 0, message_id)
    header = {"topic": topic, "queue_id": 0, "tag_hash": 0, **header}
    await peer.call(RequestCode.SEND_MESSAGE, header, payload)


async def by_key(peer: Peer, key: str, topic: str = "t", **header: Any) -> Command:
    return await peer.call(RequestCode.QUERY_MESSAGE, {"topic": topic, "key": key, "max_n": 64, **header})


async def by_id(peer: Peer, message_id: str, **header: Any) -> Command:
    return await peer.call(RequestCode.VIEW_MESSAGE_BY_ID, {"message_id": message_id, "max_n": 64, **header})


def places(answer: Command) -> list[tuple[str, int, int]]:
    """(topic, queue id, offset) of each row."""
    return [(topic, queue_id, HEADER.unpack_from(record)[4]) for topic, queue_id, _, record in unpacked(answer)]


async def set_up(world: World, **options: Any) -> Peer:
    await world.start_broker(**{"store": SMALL, **options})
    a = world.peer("a")
    await a.put_topic("t", read=1)
    return a


@simulated
async def test_a_message_is_found_by_its_key_in_its_topic_alone(world: World) -> None:
    a = await set_up(world)
    await a.put_topic("u", read=1)
    for number in range(12):
        await send(a, f"k{number}")
    await send(a, "k3", topic="u")
    answer = await by_key(a, "k3")
    assert places(answer) == [("t", 0, 3)]
    assert answer.header["next_before"] == -1
    assert places(await by_key(a, "k3", topic="u")) == [("u", 0, 0)]
    assert places(await by_key(a, "k99")) == places(await by_key(a, "k3", topic="nowhere")) == []


@simulated
async def test_what_is_found_is_the_stored_record(world: World) -> None:
    a = await set_up(world)
    await send(a, "k")
    (row,) = unpacked(await by_key(a, "k"))
    assert row == ["t", 0, -1, (await a.pull()).body]


@simulated
async def test_the_time_narrows_the_search_to_the_millisecond(world: World) -> None:
    a = await set_up(world)
    times_ms = []
    for _ in range(12):
        await world.sleep(1)
        times_ms.append(int(world.simulation.clock_ms()))
        await send(a, "k")
    stored = {record.queue_offset: record.stored_ms for record in records(await a.pull())}
    answer = await by_key(a, "k", begin_ms=stored[3], end_ms=stored[7])
    assert places(answer) == [("t", 0, offset) for offset in (7, 6, 5, 4, 3)]
    assert places(await by_key(a, "k", begin_ms=stored[11] + 1)) == []
    assert places(await by_key(a, "k", end_ms=0)) == []


@simulated
async def test_more_than_was_asked_for_is_reported_when_asked_again(world: World) -> None:
    a = await set_up(world)
    for _ in range(12):
        await send(a, "k")
    found: list[tuple[str, int, int]] = []
    header: dict[str, Any] = {}
    while True:
        answer = await by_key(a, "k", **{"max_n": 5, **header})
        assert len(places(answer)) <= 5
        found += places(answer)
        if answer.header["next_before"] < 0:
            break
        header = {"before": answer.header["next_before"]}
    assert found == [("t", 0, offset) for offset in range(11, -1, -1)]


@simulated
async def test_an_answer_that_would_be_too_long_is_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_handlers, "MAX_LOOKUP_BYTES", 100)
    a = await set_up(world)
    for _ in range(3):
        await send(a, "k")
    answer = await by_key(a, "k")
    assert places(answer) == [("t", 0, 2), ("t", 0, 1)]
    assert places(await by_key(a, "k", before=answer.header["next_before"])) == [("t", 0, 0)]


@simulated
async def test_an_id_reports_every_place_of_a_message_the_newest_first(world: World) -> None:
    a = await set_up(world)
    await send(a, "k", "id-1")
    await send(a, "k", "id-2")
    back = {"group": "g", "topic": "t", "queue_id": 0, "offset": 0, "max_attempts": 1, "delay_ms": 2_000}
    await a.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)
    waiting, original = unpacked(await by_id(a, "id-1"))
    assert waiting[:3] == ["%RETRY%g", 0, int(HEADER.unpack_from(waiting[3])[5]) + 2_000]
    assert HEADER.unpack_from(waiting[3])[8] == 1  # times delivered
    assert original[:3] == ["t", 0, -1]
    await world.sleep(3)
    assert places(await by_id(a, "id-1")) == [("%RETRY%g", 0, 0), ("t", 0, 0)]
    await a.call(RequestCode.CONSUMER_SEND_MSG_BACK, {**back, "topic": "%RETRY%g"})
    assert places(await by_id(a, "id-1")) == [("%DLQ%g", 0, 0), ("%RETRY%g", 0, 0), ("t", 0, 0)]
    of_topic = [("%DLQ%g", 0, 0), ("%RETRY%g", 0, 0), ("t", 0, 1), ("t", 0, 0)]
    assert places(await by_key(a, "k")) == of_topic
    assert places(await by_key(a, "k", topic="%DLQ%g")) == of_topic[:1]
    assert places(await by_id(a, "id-3")) == []


@simulated
async def test_the_trace_is_found_by_its_own_name_alone_and_not_by_an_id_that_is_guessed(world: World) -> None:
    a = await set_up(world)
    await send(a, "k", "broker-a/1", topic="SYS_TRACE")
    assert places(await by_id(a, "broker-a/1")) == []
    assert places(await by_key(a, "k", topic="SYS_TRACE")) == [("SYS_TRACE", 0, 0)]


@simulated
async def test_messages_of_a_deleted_topic_are_not_found(world: World) -> None:
    a = await set_up(world)
    await send(a, "k", "old")
    await a.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    await a.put_topic("t", read=1)
    await send(a, "k", "new")
    assert places(await by_id(a, "old")) == []
    assert [len(unpacked(await by_key(a, "k"))), len(unpacked(await by_id(a, "new")))] == [1, 1]


@simulated
async def test_they_are_found_after_a_restart_and_from_the_tables_that_earlier_searches_left(world: World) -> None:
    a = await set_up(world)
    for number in range(12):
        await send(a, f"k{number}")
    await world.stop_broker()
    await world.start_broker(store=SMALL)
    a = world.peer("a")
    assert list(world.data_dir.glob("*.keys")) == []
    for _ in range(2):
        assert places(await by_key(a, "k1")) == [("t", 0, 1)]
        assert len(list(world.data_dir.glob("*.keys"))) == 3


@simulated
async def test_payloads_that_are_not_messages_are_passed_over(world: World) -> None:
    a = await set_up(world)
    for payload in (b"", b"\xc1", b"\x93\x01\x02\x03", bytes(50)):
        await a.call(RequestCode.SEND_MESSAGE, {"topic": "t", "queue_id": 0, "tag_hash": 0}, payload)
    await send(a, "k")
    assert places(await by_key(a, "k")) == [("t", 0, 4)]


@simulated
async def test_a_search_that_takes_long_is_answered_with_what_it_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_handlers, "LOOKUP_SLICE_S", -1.0)
    a = await set_up(world)
    for _ in range(12):
        await send(a, "k")
    answers = [await by_key(a, "k")]
    while answers[-1].header["next_before"] >= 0:
        answers.append(await by_key(a, "k", before=answers[-1].header["next_before"]))
    assert [place for answer in answers for place in places(answer)] == [("t", 0, n) for n in range(11, -1, -1)]
    assert len(answers) >= 12


def slow_threads(world: World, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let every step of a search take a while, as in a real thread; returns when each began."""
    loop, began = world.simulation.loop, []

    def run_in_executor(executor: None, func: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        if func is next:  # and not a sync
            began.append(loop.time())
        future = loop.create_future()
        loop.call_later(STEP_S, lambda: future.set_result(func(*arguments)))
        return future

    monkeypatch.setattr(loop, "run_in_executor", run_in_executor)
    return began


@simulated
async def test_others_are_served_while_a_search_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.store.keys.search._STEP_RECORDS", 1)
    a = await set_up(world, trace=False)
    for _ in range(12):
        await send(a, "k")
    began = slow_threads(world, monkeypatch)
    search = await a.begin(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "nothing", "max_n": 1})
    await world.sleep(5 * STEP_S)
    asked = world.now
    await a.send()
    assert world.now - asked < STEP_S
    assert places(await search) == []
    assert len(began) > 12


@pytest.mark.parametrize("someone_sends", [True, False])
@simulated
async def test_a_search_makes_way_for_anyone_who_sends(
    world: World, monkeypatch: pytest.MonkeyPatch, someone_sends: bool
) -> None:
    monkeypatch.setattr("broker.store.keys.search._STEP_RECORDS", 1)
    a = await set_up(world, trace=False)
    for _ in range(40):
        await send(a, "k")
    began = slow_threads(world, monkeypatch)
    search = await a.begin(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "nothing", "max_n": 1})
    for _ in range(40):
        await a.pull(offset=0)
        if someone_sends:
            await a.send()
        await world.sleep(STEP_S / 4)
    rests = [later - earlier for earlier, later in itertools.pairwise(began[:8])]
    assert min(rests) == pytest.approx(STEP_S * 4 if someone_sends else STEP_S, rel=0.1)
    await search


@simulated
async def test_too_many_searches_at_a_time_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    a = await set_up(world)
    for _ in range(12):
        await send(a, "k")
    slow_threads(world, monkeypatch)
    header = {"topic": "t", "key": "k", "max_n": 64}
    asked = [await a.begin(RequestCode.QUERY_MESSAGE, header) for _ in range(MAX_LOOKUPS + 2)]
    answers = [await answer for answer in asked]
    assert [len(places(answer)) for answer in answers if answer.code == 0] == [12] * MAX_LOOKUPS
    refused = [answer for answer in answers if answer.code != 0]
    assert [answer.code for answer in refused] == [ResponseCode.SYSTEM_BUSY] * 2
    assert f"{MAX_LOOKUPS} searches are in progress on broker broker-a" in refused[0].header["remark"]
    assert len(places(await by_key(a, "k"))) == 12


@simulated
async def test_a_search_ends_when_anyone_who_asked_hangs_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = await set_up(world), world.peer("b")
    for _ in range(12):
        await send(a, "k")
    began = slow_threads(world, monkeypatch)
    for _ in range(MAX_LOOKUPS):
        _ = await b.begin(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k", "max_n": 64})
    await world.sleep(2 * STEP_S)
    await b.close()
    await world.sleep(60)
    assert len(began) < 5
    assert len(places(await by_key(a, "k"))) == 12


@simulated
async def test_a_broker_that_stops_waits_for_the_step_and_no_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = await set_up(world)
    for _ in range(12):
        await send(a, "k")
    slow_threads(world, monkeypatch)
    _ = await a.begin(RequestCode.QUERY_MESSAGE, {"topic": "t", "key": "k", "max_n": 64})
    await world.sleep(2 * STEP_S)
    monkeypatch.undo()
    await world.stop_broker()


@simulated
async def test_a_disk_that_cannot_be_read_fails_the_search_and_not_the_next(world: World) -> None:
    disk = FailingDisk()
    a = await set_up(world, files=disk)
    await send(a, "k")
    disk.read_errno = errno.EIO
    with pytest.raises(ServerError, match=r"cannot search .*Input/output error.*: check the disk"):
        await by_key(a, "k")
    disk.read_errno = None
    assert places(await by_key(a, "k")) == [("t", 0, 0)]


@pytest.mark.parametrize("max_n", [0, MAX_LOOKUP_MESSAGES + 1])
@simulated
async def test_the_number_of_messages_is_bounded(world: World, max_n: int) -> None:
    a = await set_up(world)
    with pytest.raises(InvalidParameter, match="'max_n' must be 1 to 64"):
        await by_key(a, "k", max_n=max_n)
