"""End-to-end latency at a fixed rate: one process sends, one consumes, one broker between them."""

from __future__ import annotations

import itertools
import json
import math
import time
from subprocess import DEVNULL
from typing import Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from process.children import MODULE, Child, spawn
from testbed.bench.kit.echo import BODY
from testbed.bench.peers.pace import HELLO, Latencies, stamp_body
from testbed.bench.peers.systems.protocol import System

WARM_S = 0.5
_HELLO_S = 0.1
_READY_S = 30.0
_RESULT_S = 90.0
_MAX_LINE_BYTES = 4096
_topics = itertools.count(1)

LOST = Latencies(p50=math.inf, p99=math.inf, p999=math.inf, missing=0)
"""The figures of a system whose producer or consumer failed at this rate, as when its connection was closed."""


async def measure_latency(system: System, address: str, per_s: int, seconds: float) -> Latencies:
    """Send at a rate for `WARM_S` and then for `seconds`, which are measured.

    Raises:
        TimeoutError: the consumer gets no messages at all.
        ServiceNotAvailable: it did not start.

    Cancellation: both processes are stopped.
    """
    topic = f"latency-{next(_topics)}"
    warm, count = round(per_s * WARM_S), round(per_s * (WARM_S + seconds))
    await system.create(address, topic)
    consumer = await _start("consume", system, address, topic, count, warm)
    try:
        await _greet(system, address, topic, consumer)
        producer = await _start("produce", system, address, topic, per_s, count)
        try:
            with anyio.move_on_after(_RESULT_S):
                await producer.process.wait()
            if producer.process.returncode:
                return LOST
            return await _result(consumer)
        finally:
            await _stop(producer)
    finally:
        await _stop(consumer)


async def _start(task: str, system: System, address: str, topic: str, first: int, second: int) -> Child:
    arguments = (task, system.name, address, topic, str(first), str(second))
    # Complaints of an overrun client are not a result; its exit code shows whether it failed.
    return Child(task, await spawn([*MODULE, "testbed.bench.peers.side", *arguments], stderr=DEVNULL))


async def _stop(child: Child) -> None:
    with anyio.CancelScope(shield=True):
        await child.stop()


async def _greet(system: System, address: str, topic: str, consumer: Child) -> None:
    """Send greetings until the consumer has got one: it is a member with all queues then."""
    ready = anyio.Event()

    async def wait_ready() -> None:
        await consumer.wait_ready()
        ready.set()

    with anyio.fail_after(_READY_S):
        async with system.sender(address, topic) as sender, anyio.create_task_group() as tasks:
            tasks.start_soon(wait_ready)
            while not ready.is_set():
                await sender.send(stamp_body(HELLO, time.monotonic_ns(), len(BODY)))
                with anyio.move_on_after(_HELLO_S):
                    await ready.wait()


async def _result(consumer: Child) -> Latencies:
    assert consumer.process.stdout is not None, "its stdout is a pipe"
    try:
        line = await BufferedByteReceiveStream(consumer.process.stdout).receive_until(b"\n", _MAX_LINE_BYTES)
    except (anyio.EndOfStream, anyio.IncompleteRead):
        return LOST
    document: dict[str, Any] = json.loads(line)
    return Latencies(**document)
