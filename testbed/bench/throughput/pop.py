"""pop-32, pop-consumer and pop-memory: rates and memory of POP.

    pop-32          messages/s that one Python client pops, decodes and acknowledges, 32 at a time, against the bare
                    echo with 64 in flight. A pop and an acknowledgement are answered after they are stored.
    pop-consumer    the same with a whole `PopConsumer`: `receive` and `ack`, one after the other, by eight tasks
    pop-memory      the broker's memory for each invisible message, of a million. Another group has popped and
                    acknowledged all of them before, so that the memory of reading them is not counted.

When all messages are popped, the next group begins with the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from client import PopConsumer
from client.pop.message import PopMessage, group_by_delivery
from client.pop.requests import decode_batches
from model.heartbeat import ConsumeFrom
from model.limits import MAX_INVISIBLE_MS, MAX_POP_BATCH
from model.response_code import ResponseCode
from remoting.client import RemotingClient, raise_for_code
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.wire.pop import ANY_QUEUE
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.processes import cluster_processes, rss_bytes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Round, Sizes, Window, Work, in_turns, make_result, rate
from testbed.bench.throughput.pull import QUEUES, fill, filled_cluster
from testbed.bench.throughput.send import make_round

WORKERS = 8
_POP, _ACK = int(RequestCode.POP_MESSAGE), int(RequestCode.BATCH_ACK_MESSAGE)
_CLIENT_ID = "127.0.0.1@bench"
_INVISIBLE_MS = 60_000


async def bench_pop(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure pops with their acknowledgements."""
    async with filled_cluster(sizes, progress) as (cluster, _, echo), RemotingClient({}) as remoting:
        connection = await remoting.connect(cluster.broker.address)
        name = f"pop-{MAX_POP_BATCH}"
        turns = await in_turns(make_round(popping(connection), WORKERS, sizes, progress, name), echo, sizes.repeat)
        consumed = await in_turns(consuming(cluster.name_server, sizes, progress), echo, sizes.repeat)
    return [make_result(name, turns), make_result("pop-consumer", consumed)]


def popping(connection: Connection) -> Work:
    """A worker that pops, decodes and acknowledges messages for the current group."""
    number = 0

    async def work(window: Window) -> None:
        nonlocal number
        done = 0
        while window.open:
            group_number = number
            messages = await pop(connection, f"bench-{group_number}", _INVISIBLE_MS)
            if messages:
                await ack(connection, f"bench-{group_number}", messages)
                done += len(messages)
            elif number == group_number:
                number += 1
        window.done += done

    return work


async def pop(connection: Connection, group: str, invisible_ms: int) -> list[PopMessage]:
    """Pop and decode messages of any queue; returns an empty list if there are none."""
    header = {
        "group": group,
        "topic": TOPIC,
        "queue_id": ANY_QUEUE,
        "client_id": _CLIENT_ID,
        "max_n": MAX_POP_BATCH,
        "invisible_ms": invisible_ms,
        "suspend_ms": 0,
        "consume_from": ConsumeFrom.FIRST_OFFSET.value,
        "retry": False,
    }
    answer = await connection.request(_POP, header)
    if answer.code == ResponseCode.PULL_NOT_FOUND:
        return []
    return decode_batches("bench", raise_for_code(answer).body or b"")


async def ack(connection: Connection, group: str, messages: Sequence[PopMessage]) -> None:
    """Acknowledge messages in one request."""
    body = msgpack.packb(
        [[run.queue.topic, run.queue.queue_id, run.token, run.offsets] for run in group_by_delivery(messages)]
    )
    dead: Any = raise_for_code(await connection.request(_ACK, {"group": group, "client_id": _CLIENT_ID}, body)).body
    assert dead == b"\x90", "a handle was dead"


def consuming(name_server: str, sizes: Sizes, progress: Progress) -> Round:
    """Rounds of a `PopConsumer`, each in a new group."""
    number = 0

    async def measure() -> float:
        nonlocal number
        progress("pop-consumer")
        number += 1
        async with PopConsumer(name_server, f"consumer-{number}", consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
            await consumer.subscribe(TOPIC)
            await consumer.ack(await consumer.receive())  # connects, and looks the queues up

            async def work(window: Window) -> None:
                while window.open:
                    messages = await consumer.receive(wait_s=0)
                    if not messages:
                        window.close()
                    await consumer.ack(messages)
                    window.done += len(messages)

            return await rate(work, WORKERS, sizes.seconds)

    return measure


async def bench_pop_memory(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure memory of messages in flight; see `bench_pop`."""
    async with cluster_processes({TOPIC: QUEUES}, "--no-trace-topic") as cluster, RemotingClient({}) as remoting:
        progress("filling the queues")
        await fill(cluster.name_server, sizes.in_flight // QUEUES)
        connection = await remoting.connect(cluster.broker.address)
        progress("popping and acknowledging all")
        while messages := await pop(connection, "before", _INVISIBLE_MS):
            await ack(connection, "before", messages)
        rss_before = await rss_bytes(cluster.broker)
        progress("popping all")
        count = 0
        while messages := await pop(connection, "bench", MAX_INVISIBLE_MS):
            count += len(messages)
        after = await rss_bytes(cluster.broker)
    return [
        Result(name="pop-memory", value=(after - rss_before) / count, unit="B/message", note=f"{count:,} in flight")
    ]
