"""What every system has to do for a comparison, run against its real server or a simulated cluster."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from testbed.bench.peers.systems.protocol import System

COUNT = 1_040


async def send_and_consume(system: System, address: str, batch: int) -> None:
    """Store messages in all three ways, and consume all of them, each once."""
    await system.create(address, "topic")
    async with system.sender(address, "topic") as sender:
        await sender.send(b"one")
        await sender.send_batch([b"two", b"three"])
    await system.fill(address, "topic", b"filled", COUNT)
    sizes: list[int] = []
    bodies: list[bytes] = []
    finished = anyio.Event()

    def take(taken: Sequence[bytes]) -> None:
        sizes.append(len(taken))
        bodies.extend(taken)
        if len(bodies) == COUNT + 3:
            finished.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(system.consume, address, "topic", "group", batch, take)
        with anyio.fail_after(30):
            await finished.wait()
        tasks.cancel_scope.cancel()
    assert sorted(bodies) == sorted([b"one", b"two", b"three", *[b"filled"] * COUNT])
    assert max(sizes) == batch
