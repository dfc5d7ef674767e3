"""What RocketMQ's own gRPC clients sent to a broker once, sent to a simulated broker: `tests/interop/grpc/record.py`.

Receipt handles of the recording are of other deliveries, so acknowledgements are answered that the handle is dead.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hpack import Decoder
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame

from remoting.request_code import RequestCode
from rocketmq.grpc import proto
from rocketmq.grpc.http2.call import CallEvent
from rocketmq.grpc.http2.connection import Http2
from rocketmq.grpc.proto import MESSAGES
from tests.unit.broker.harness import HOST, World, simulated

pytestmark = pytest.mark.simulation

RECORDED = Path(__file__).parents[1] / "interop" / "grpc" / "recorded"
N_TOPICS, FIFO_TOPICS = 20, (11, 12)
SERVED = {
    *("QueryRoute", "Telemetry", "Heartbeat", "SendMessage", "ReceiveMessage", "AckMessage"),
    *("ChangeInvisibleDuration", "QueryAssignment", "NotifyClientTermination"),
}
"""What the clients call in the recorded features."""
Line = tuple[int, int, bytes]
"""Milliseconds, connection, bytes."""


def lines_of(client: str) -> list[Line]:
    rows = map(json.loads, (RECORDED / f"{client}.jsonl").read_text().splitlines())
    return [(at_ms, connection, base64.b64decode(data)) for at_ms, connection, data in rows]


def calls_of(lines: list[Line]) -> dict[tuple[int, int], tuple[str, bool]]:
    """Connection and stream -> the RPC, and whether its client waits for the end of the answer."""
    found: dict[tuple[int, int], tuple[str, bool]] = {}
    servers: dict[int, Http2] = {}
    for _, connection, data in lines:
        server = servers.setdefault(connection, Http2())
        for kind, call in server.receive(data):
            at = (connection, call.stream_id)
            if kind is CallEvent.ENDED:
                server.send(call, (), end=True)
            if kind is CallEvent.ENDED or at not in found:
                found[at] = (call.method, kind is CallEvent.ENDED)
            elif kind is CallEvent.CANCELLED:
                found[at] = (call.method, False)
    return found


class Received(asyncio.Protocol):
    """The frames that the broker sends over one connection."""

    def __init__(self) -> None:
        self.data = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def frames(self) -> list[Frame]:
        data, found = memoryview(self.data), []
        while data:
            frame, length = Frame.parse_frame_header(data[:9])
            frame.parse_body(data[9 : 9 + length])
            found.append(frame)
            data = data[9 + length :]
        return found


async def replayed(world: World, lines: list[Line]) -> dict[int, Received]:
    """Send the bytes at their times; connection -> the answers."""
    await world.start_broker()
    operator = world.peer("operator")
    for number in range(N_TOPICS):
        await operator.put_topic(f"rec-{number}", read=2, write=2)
    for number in FIFO_TOPICS:
        group = {"group": f"rec-{number}-g", "fifo": True}
        await operator.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group)
    began, found = world.now, dict[int, Received]()
    for at_ms, connection, data in sorted(lines, key=lambda line: line[0]):
        await world.sleep_until(began + at_ms / 1000)
        if connection not in found:
            with world.simulation.on_host("stock"):
                _, found[connection] = await asyncio.get_running_loop().create_connection(Received, HOST, 10911)
            world.at_end.append(found[connection].transport.close)
        found[connection].transport.write(data)
    await world.sleep(25)
    return found


def results_of(
    answers: dict[int, Received], calls: dict[tuple[int, int], tuple[str, bool]]
) -> Counter[tuple[str, int]]:
    """RPC and result -> how many calls; each call has ended whose client waits for the end."""
    results: Counter[tuple[str, int]] = Counter()
    for connection, received in answers.items():
        headers, messages, statuses = Decoder(), dict[int, bytes](), dict[int, str]()
        for frame in received.frames():
            assert not isinstance(frame, GoAwayFrame), frame.additional_data
            if isinstance(frame, HeadersFrame):
                fields = {str(name): str(value) for name, value in headers.decode(frame.data)}
                statuses[frame.stream_id] = fields.get("grpc-status", "")
            elif isinstance(frame, DataFrame):
                messages[frame.stream_id] = messages.get(frame.stream_id, b"") + frame.data
        for stream_id, data in messages.items():
            method, waits = calls[connection, stream_id]
            assert not waits or statuses[stream_id] == "0", (method, stream_id)
            kind = "TelemetryCommand" if method == "Telemetry" else f"{method}Response"
            first = MESSAGES[kind].FromString(data[5 : 5 + int.from_bytes(data[1:5])])
            results[method, first.status.code] += 1
    return results


@pytest.mark.parametrize("client", ["py5", "node5"])
@simulated
async def test_every_call_of_a_stock_client_is_answered_as_it_expects(world: World, client: str) -> None:
    lines = lines_of(client)
    calls = calls_of(lines)
    assert {method for method, _ in calls.values()} == SERVED
    results = results_of(await replayed(world, lines), calls)
    allowed = {method: {proto.OK} for method in SERVED}
    allowed["ReceiveMessage"].add(proto.MESSAGE_NOT_FOUND)
    for method in ("AckMessage", "ChangeInvisibleDuration"):
        allowed[method] = {proto.INVALID_RECEIPT_HANDLE}
    assert {method for method, _ in results} == SERVED
    assert not [each for each in results if each[1] not in allowed[each[0]]], results
    assert results["ReceiveMessage", proto.OK] >= 3, "messages were delivered"
