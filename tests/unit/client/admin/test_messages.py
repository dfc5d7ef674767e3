"""An operator finds messages by key and by id, over all brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgpack
import pytest

from broker.messages import query as query_handlers
from client.admin.admin import Admin
from client.admin.messages import FoundMessages
from model.errors import ConnectFailed, InvalidParameter, SystemBusy, TopicNotExist
from model.limits import LOOKUP_TIMEOUT_S, MAX_LOOKUP_MESSAGES
from model.message import Message, MessageExt, encode_payload
from model.message_queue import MessageQueue
from model.record import encode_record
from remoting.command import RESPONSE, Command
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

pytestmark = pytest.mark.simulation


async def send(cluster: SimulatedCluster, *messages: Message) -> list[str]:
    """Send messages one after the other, a millisecond apart at least; returns their ids."""
    producer = await cluster.start_producer()
    ids = []
    for message in messages:
        with cluster.simulation.on_host(producer.host):
            ids.append((await producer.producer.send(message)).message_id)
        await anyio.sleep(0.01)
    return ids


def bodies(found: FoundMessages) -> list[bytes]:
    return [each.message.body for each in found.messages]


def test_messages_are_found_by_key_on_every_broker_the_newest_first(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2)
        await admin.create_topic("u", 2)
        messages = [
            Message("t", b"%d" % n, keys=[f"k{n % 3}", "all"], tags="x", properties={"p": "q"}) for n in range(9)
        ]
        ids = await send(cluster, *messages, Message("u", b"other", keys=["k1"]))
        found = await admin.query_message("t", "k1")
        assert bodies(found) == [b"7", b"4", b"1"]
        assert (found.is_complete, found.unreachable) == (True, ())
        newest = found.messages[0]
        assert newest.due_ms is None
        assert newest.message[4:9] == ("t", b"7", "x", ("k1", "all"), {"p": "q"})
        assert newest.message.message_id == ids[7]
        everything = (await admin.query_message("t", "all")).messages
        assert {each.message.queue.broker_name for each in everything} == {"broker-a", "broker-b"}
        assert bodies(await admin.query_message("t", "nothing")) == []

    administer(scenario, tmp_path)


def test_the_newest_of_all_brokers_are_kept_when_there_are_more_than_wanted(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 2)
        await send(cluster, *[Message("t", b"%d" % n, keys=["k"]) for n in range(9)])
        found = await admin.query_message("t", "k", max_n=4)
        assert bodies(found) == [b"8", b"7", b"6", b"5"]
        assert not found.is_complete
        times = {each.message.body: each.message.stored_ms for each in (await admin.query_message("t", "k")).messages}
        between = await admin.query_message("t", "k", begin_ms=times[b"3"], end_ms=times[b"5"])
        assert bodies(between) == [b"5", b"4", b"3"]

    administer(scenario, tmp_path)


def test_a_search_goes_on_until_the_broker_has_looked_at_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_handlers, "LOOKUP_SLICE_S", -1.0)

    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 1)
        await send(cluster, *[Message("t", b"%d" % n, keys=["k"]) for n in range(9)])
        assert len((await admin.query_message("t", "k")).messages) == 9

    administer(scenario, tmp_path)


def test_an_id_reports_where_a_message_waits_for_its_retry_and_where_it_ended(tmp_path: Path) -> None:
    async def fails(message: MessageExt) -> None:
        raise ValueError("never")

    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 1, brokers=["broker-a"])
        options: dict[str, Any] = {"retry_delay_ms": 2_000, "max_attempts": 1}
        await cluster.start_consumer("g", "t", work=fails, **options)
        await cluster.wait_converged(5.0)
        (message_id,) = await send(cluster, Message("t", b"m", keys=["k"]))
        await anyio.sleep(1)
        waiting, original = (await admin.view_message(message_id)).messages
        assert waiting.message.queue == MessageQueue("%RETRY%g", "broker-a", 0)
        assert (waiting.message.offset, waiting.message.times_delivered) == (-1, 1)
        assert waiting.due_ms is not None
        assert 0 < waiting.due_ms - original.message.stored_ms - 2_000 < 100
        assert (original.message.queue.topic, original.message.offset, original.due_ms) == ("t", 0, None)
        await anyio.sleep(4)
        places = [
            (each.message.queue.topic, each.message.offset, each.message.times_delivered, each.due_ms)
            for each in (await admin.view_message(message_id)).messages
        ]
        assert places == [("%DLQ%g", 0, 1, None), ("%RETRY%g", 0, 1, None), ("t", 0, 0, None)]
        assert {each.message.topic for each in (await admin.query_message("t", "k")).messages} == {"t"}
        assert (await admin.view_message("no-such-id")).messages == ()

    administer(scenario, tmp_path)


def test_a_broker_that_does_not_answer_is_named(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 1)
        await send(cluster, *[Message("t", b"%d" % n, keys=["k"]) for n in range(4)])
        with cluster.simulation.network.stall("broker-b"):
            started = cluster.simulation.loop.time()
            found = await admin.query_message("t", "k")
            assert cluster.simulation.loop.time() - started < LOOKUP_TIMEOUT_S + 1
        assert found.unreachable == ("broker-b",)
        assert {each.message.queue.broker_name for each in found.messages} == {"broker-a"}
        with (
            cluster.simulation.network.stall("broker-a"),
            cluster.simulation.network.stall("broker-b"),
            pytest.raises(ConnectFailed, match="no broker answers: broker-a: "),
        ):
            await admin.view_message("id")

    administer(scenario, tmp_path)


def test_a_broker_that_refuses_is_named_and_a_wrong_question_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        with pytest.raises(TopicNotExist, match="'nope'"):
            await admin.query_message("nope", "k")
        for max_n in (0, MAX_LOOKUP_MESSAGES + 1):
            with pytest.raises(InvalidParameter, match="max_n must be 1 to 64"):
                await admin.view_message("id", max_n=max_n)
        monkeypatch.setattr(query_handlers, "MAX_LOOKUPS", 0)
        with pytest.raises(SystemBusy, match=r"^broker broker-a: 0 searches are in progress"):
            await admin.view_message("id")

    administer(scenario, tmp_path)


def test_a_record_that_is_not_a_message_is_found_as_its_bytes_and_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await admin.create_topic("t", 1, brokers=["broker-a"])
        whole = encode_payload(Message("t", b"m"), 1, "id")
        rows = [
            ["t", 0, due_ms, encode_record(1, 0, offset, 5, 0, 0, 0, payload)]
            for offset, (due_ms, payload) in enumerate([(-1, whole), (-1, b"\xc1"), (9, b"hello")])
        ]
        answer = Command(RESPONSE, 0, 1, {"next_before": -1}, msgpack.packb(rows))
        remoting = admin._cluster.remoting
        real = remoting.request

        async def request(address: str, code: int, *rest: Any) -> Command:
            return answer if code == RequestCode.QUERY_MESSAGE else await real(address, code, *rest)

        monkeypatch.setattr(remoting, "request", request)
        found = (await admin.query_message("t", "k")).messages
        shown = {(each.message.body, bool(each.undecodable), each.message.offset, each.due_ms) for each in found}
        assert shown == {(b"m", False, 0, None), (b"\xc1", True, 1, None), (b"hello", True, -1, 9)}

    administer(scenario, tmp_path)


def test_a_queue_is_read_from_an_offset_from_a_time_or_at_its_end(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=1, brokers=["broker-a"])
        await send(cluster, *(Message("t", str(n).encode()) for n in range(5)))
        queue = MessageQueue("t", "broker-a", 0)

        async def read(**where: int) -> tuple[list[bytes], int]:
            found, following = await admin.read_queue(queue, **where)
            return [message.body for message, _ in found], following

        assert await read(offset=1, max_n=2) == ([b"1", b"2"], 3)
        assert await read(max_n=2) == ([b"3", b"4"], 5)
        third = (await admin.read_queue(queue, offset=2, max_n=1))[0][0][0].stored_ms
        assert (await read(since_ms=third))[0] == [b"2", b"3", b"4"]
        assert await read(offset=9) == ([], 5)
        with pytest.raises(InvalidParameter, match="broker-z"):
            await admin.read_queue(MessageQueue("t", "broker-z", 0))

    administer(scenario, tmp_path)
