"""The process on one side of a broker: it sends at a fixed rate, or consumes and measures.

    python -m testbed.bench.peers.side consume aiokafka 127.0.0.1:9092 topic 40000 10000
    python -m testbed.bench.peers.side produce aiokafka 127.0.0.1:9092 topic 20000 40000

The consumer announces itself with its first message, which has the number `HELLO`. At its end, when all messages have
come or no more come, it prints the latencies of all messages from number 10,000 on. Both end with their
parent. The clock is `time.monotonic_ns`, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
import typer

from process.output import print_json
from process.runtime import run, wait_for_eof
from testbed.bench.kit.echo import BODY
from testbed.bench.peers.pace import HELLO, NS, SendTimes, latencies, read_stamp, stamp_body
from testbed.bench.peers.systems.registry import SYSTEMS

IN_FLIGHT = 256
"""Sends that are awaited at the same time; when all of them wait, the following ones are late."""
MANY = 512
"""Largest batch of a consumer that has no other way than batches."""
_TICK_S = 0.001
_LEAD_NS = NS // 5
_POLL_S = 0.05
_QUIET_S = 2.0
_LONGEST_S = 60.0


Clock = Callable[[], int]
"""Nanoseconds, of a clock that all processes of the machine share."""


async def produce(
    name: str, address: str, topic: str, per_s: int, count: int, now_ns: Clock = time.monotonic_ns
) -> None:
    """Send messages at a rate, up to `IN_FLIGHT` of them awaited at the same time."""
    async with SYSTEMS[name].sender(address, topic) as sender:
        loop = asyncio.get_running_loop()
        pace = SendTimes(now_ns() + _LEAD_NS, per_s, count)
        idle: deque[asyncio.Future[None]] = deque()
        n_begun = 0

        def tick() -> None:
            due = pace.due(now_ns())
            for _ in range(min(due - n_begun, len(idle))):
                idle.popleft().set_result(None)
            if due < count:
                loop.call_later(_TICK_S, tick)

        async def work() -> None:
            nonlocal n_begun
            while n_begun < count:
                if n_begun < pace.due(now_ns()):
                    number = n_begun
                    n_begun += 1
                    await sender.send(stamp_body(number, pace.intended_ns(number), len(BODY)))
                else:
                    waiting = loop.create_future()
                    idle.append(waiting)
                    await waiting
            while idle:
                idle.popleft().set_result(None)

        tick()
        async with anyio.create_task_group() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.start_soon(work)


async def consume(
    name: str, address: str, topic: str, count: int, warm: int, now_ns: Clock = time.monotonic_ns
) -> None:
    """Consume what `produce` sends; the first `warm` messages are not measured."""
    system = SYSTEMS[name]
    latency_of: dict[int, int] = {}
    announced = False

    def take(bodies: Sequence[bytes]) -> None:
        nonlocal announced
        now = now_ns()
        for body in bodies:
            number, intended_ns = read_stamp(body)
            if number != HELLO:
                latency_of.setdefault(number, now - intended_ns)
            elif not announced:
                announced = True
                print_json({"kind": "consumer", "name": name, "address": address})

    batch = 1 if "consume" in system.measurements else MANY
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(system.consume, address, topic, "latency", batch, take)
        clock = asyncio.get_running_loop().time
        seen, quiet_since, started = 0, clock(), clock()
        while seen < count:
            await anyio.sleep(_POLL_S)
            now = clock()
            if len(latency_of) > seen or not announced or not latency_of:
                seen, quiet_since = len(latency_of), now
            elif now - quiet_since > _QUIET_S:
                break
            if now - started > _LONGEST_S:
                break
        measured = [latency for number, latency in latency_of.items() if number >= warm]
        print_json(latencies(measured, count - warm))
        tasks.cancel_scope.cancel()


async def _side(task: str, name: str, address: str, topic: str, first: str, second: str) -> None:
    work = produce if task == "produce" else consume
    async with anyio.create_task_group() as tasks:

        async def end_with_parent() -> None:
            await wait_for_eof()
            tasks.cancel_scope.cancel()

        tasks.start_soon(end_with_parent)
        await work(name, address, topic, int(first), int(second))
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    with suppress(typer.Exit):  # a stop was requested
        run(lambda: _side(*sys.argv[1:]))
