"""A broker that is killed with messages in flight, as a process on real files: what it has answered stays so."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import anyio
import msgpack
import pytest

from client.pop.message import PopMessage
from client.pop.requests import decode_batches
from model.message import Message, encode_payload
from model.response_code import ResponseCode
from remoting.client import RemotingClient, raise_for_code
from remoting.command import Command
from remoting.request_code import RequestCode
from tests.tcp.rlab_process import daemon

pytestmark = [pytest.mark.process, pytest.mark.tcp]

N = 64
INVISIBLE_MS, LONG_MS = 3_000, 3_600_000
GROUP = {"group": "g", "client_id": "c"}


async def call(address: str, code: RequestCode, header: dict[str, Any], body: Any = None) -> Command:
    async with RemotingClient({}) as remoting:
        packed = None if body is None else msgpack.packb(body)
        return await remoting.request(address, code, header, packed, 30.0)


async def fill(address: str) -> None:
    topic = {"topic": "t", "read_queue_nums": 1, "write_queue_nums": 1, "perm": 6}
    await call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
    payload = encode_payload(Message("t", b"m"), 0, "id")
    await call(address, RequestCode.SEND_BATCH_MESSAGE, {"topic": "t", "queue_id": 0}, [[0, payload]] * N)


async def pop(address: str, invisible_ms: int = INVISIBLE_MS, suspend_ms: int = 30_000) -> list[PopMessage]:
    header = {**GROUP, "topic": "t", "queue_id": -1, "max_n": 32, "invisible_ms": invisible_ms}
    more = {"suspend_ms": suspend_ms, "consume_from": "FIRST_OFFSET"}
    async with RemotingClient({}) as remoting:
        connection = await remoting.connect(address)
        answer = await connection.request(RequestCode.POP_MESSAGE, {**header, **more}, None, 40.0)
    if answer.code == ResponseCode.PULL_NOT_FOUND:
        return []
    return decode_batches("b", raise_for_code(answer).body or b"")


async def ack(address: str, messages: list[PopMessage]) -> list[int]:
    """Returns the offsets of the dead ones."""
    rows = [["t", 0, message.token, [message.offset]] for message in messages]
    answer = await call(address, RequestCode.BATCH_ACK_MESSAGE, GROUP, rows)
    dead: list[Any] = msgpack.unpackb(answer.body or b"")  # type: ignore[assignment]
    return [offset for _, _, offset in dead]


def test_a_killed_broker_forgets_no_acknowledgement_and_loses_no_message_that_was_in_flight(tmp_path: Path) -> None:
    arguments = ("broker", "--name", "b", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")

    async def before(address: str) -> tuple[list[PopMessage], list[PopMessage]]:
        await fill(address)
        short, long = await pop(address), await pop(address, invisible_ms=LONG_MS)
        assert await ack(address, short[::2]) == []
        return short, long

    async def after(address: str, short: list[PopMessage], long: list[PopMessage]) -> None:
        assert await ack(address, short[::2]) == [message.offset for message in short[::2]], "they are done with"
        assert await ack(address, long[:16]) == [], "their handles are as good as before"
        again: list[PopMessage] = []
        while len(again) < len(short) // 2:
            again += await pop(address, invisible_ms=LONG_MS)  # which is no race with what follows
        assert sorted(message.offset for message in again) == [message.offset for message in short[1::2]]
        assert {message.attempts for message in again} == {2}
        assert await ack(address, short[1:2]) == [short[1].offset], "another has it by now"
        assert await ack(address, again) == []
        assert await pop(address, suspend_ms=0) == [], "the others are invisible for an hour"
        assert await ack(address, long[16:]) == []
        answer = await call(address, RequestCode.QUERY_CONSUMER_OFFSET, {"group": "g", "topic": "t", "queue_id": 0})
        assert answer.header["offset"] == N

    with daemon(*arguments, cwd=tmp_path) as broker:
        short, long = anyio.run(before, broker.address)
        broker.signal(signal.SIGKILL)
    with daemon(*arguments, cwd=tmp_path) as broker:
        anyio.run(after, broker.address, short, long)
        broker.signal(signal.SIGKILL)
    with daemon(*arguments, cwd=tmp_path) as broker:
        assert anyio.run(ack, broker.address, long) == [message.offset for message in long]
