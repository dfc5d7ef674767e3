"""Rates of our gRPC edge, from one client of the testbed: `python -m tests.interop.grpc.rates [MESSAGES]`.

It needs a machine without other work. A broker of this project runs in a process of its own, with files in memory where
there is room.

    one by one     receives of 32, and an AckMessage for each message, 32 at a time, as RocketMQ's clients do
    32 entries     receives of 32, and one AckMessage for all of them
    idle           share of a core that the broker needs for one push consumer without messages, beyond none
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from remoting.address import parse_address
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, to_duration
from testbed.load.grpc import GrpcClientConnection
from tests.interop.grpc.run import create_here
from tests.interop.servers import Daemons, say

GROUP, TOPIC = MESSAGES["Resource"](name="rates-g"), MESSAGES["Resource"](name="rates")
BATCH, TIMEOUT_S, IDLE_S = 32, 10.0, 20.0
CLIENT = "rates@1"
Acknowledge = Callable[[GrpcClientConnection, list[Any]], Awaitable[None]]


def receive_request(poll_ms: int = 0, **how: Any) -> Any:
    """A receive of the topic; a simple consumer's unless it is told otherwise."""
    return MESSAGES["ReceiveMessageRequest"](
        group=GROUP,
        message_queue=MESSAGES["MessageQueue"](topic=TOPIC, id=-1),
        filter_expression=MESSAGES["FilterExpression"](type=proto.TAG, expression="*"),
        batch_size=BATCH,
        long_polling_timeout=to_duration(poll_ms),
        **(how or {"invisible_duration": to_duration(60_000)}),
    )


def ack_request(messages: list[Any]) -> Any:
    """An acknowledgement of messages."""
    systems = [each.system_properties for each in messages]
    entries = [
        MESSAGES["AckMessageEntry"](message_id=each.message_id, receipt_handle=each.receipt_handle) for each in systems
    ]
    return MESSAGES["AckMessageRequest"](group=GROUP, topic=TOPIC, entries=entries)


async def one_by_one(client: GrpcClientConnection, messages: list[Any]) -> None:
    """Acknowledge each message in a call of its own."""
    async with anyio.create_task_group() as tasks:
        for each in messages:
            tasks.start_soon(client.ask, "AckMessage", ack_request([each]), CLIENT, TIMEOUT_S)


async def in_one_call(client: GrpcClientConnection, messages: list[Any]) -> None:
    """Acknowledge all messages in one call."""
    await client.ask("AckMessage", ack_request(messages), CLIENT, TIMEOUT_S)


async def fill(client: GrpcClientConnection, n: int) -> None:
    """Send messages of 256 bytes, 64 at a time in one call."""
    for first in range(0, n, 64):
        messages = [
            MESSAGES["Message"](
                topic=TOPIC,
                body=bytes(256),
                system_properties=MESSAGES["SystemProperties"](message_id=f"{number:034x}", message_type=proto.NORMAL),
            )
            for number in range(first, min(first + 64, n))
        ]
        [answer] = await client.ask("SendMessage", MESSAGES["SendMessageRequest"](messages=messages), CLIENT, TIMEOUT_S)
        assert answer.status.code == proto.OK, answer.status


async def rate_of(client: GrpcClientConnection, pid: int, n: int, acknowledge: Acknowledge) -> str:
    """Messages a second, received and acknowledged, and the processor time of the broker for each."""
    await fill(client, n)
    done, began, cpu_began_s = 0, time.time(), cpu_s(pid)
    while done < n:
        answers = await client.ask("ReceiveMessage", receive_request(), CLIENT, TIMEOUT_S)
        messages = [each.message for each in answers if each.HasField("message")]
        assert messages, f"{answers[0].status} after {done} messages"
        await acknowledge(client, messages)
        done += len(messages)
    rate, of_broker_us = done / (time.time() - began), 1e6 * (cpu_s(pid) - cpu_began_s) / done
    return f"{rate:,.0f} messages/s, {of_broker_us:,.0f} us of the broker for each"


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def idle_share(client: GrpcClientConnection, pid: int) -> tuple[float, float]:
    """Share of a core that the broker needs without a consumer, and with one push consumer that waits."""
    shares = []
    for is_consuming in (False, True):
        began = cpu_s(pid)
        with anyio.move_on_after(IDLE_S):
            while is_consuming:
                await client.ask("ReceiveMessage", receive_request(20_000, auto_renew=True), CLIENT, 30.0)
            await anyio.sleep_forever()
        shares.append((cpu_s(pid) - began) / IDLE_S)
    return shares[0], shares[1]


async def measure(address: str, pid: int, n: int) -> None:
    """Measure all of it, and print it."""
    client = await GrpcClientConnection.to_server(*parse_address(address))
    await client.ask("ReceiveMessage", receive_request(), CLIENT, TIMEOUT_S)
    for name, acknowledge in (("one by one", one_by_one), ("32 entries", in_one_call)):
        say(f"{name}: {await rate_of(client, pid, n, acknowledge)}")
    without, with_one = await idle_share(client, pid)
    say(f"idle: {without:.2%} of a core without a consumer, {with_one:.2%} with one push consumer")
    client.close()


def main(n: int) -> None:
    """Run a broker, and measure it."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        daemons = Daemons(Path(directory), 1)
        try:
            create_here(daemons.name_server)(TOPIC.name, "NORMAL")
            route = asyncio.run(broker_address(daemons.name_server))
            asyncio.run(measure(route, daemons.processes[-1].pid, n))
        finally:
            daemons.stop()


async def broker_address(name_server: str) -> str:
    """The address of the broker of the topic."""
    client = await GrpcClientConnection.to_server(*parse_address(name_server))
    [route] = await client.ask("QueryRoute", MESSAGES["QueryRouteRequest"](topic=TOPIC), CLIENT, TIMEOUT_S)
    client.close()
    [endpoint] = route.message_queues[0].broker.endpoints.addresses
    return f"{endpoint.host}:{endpoint.port}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 20_000)
