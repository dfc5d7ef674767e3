"""Rebalances event by event: a join, a refused lease, and four ways to leave.

    python examples/pages/one_rebalance.py

Each scene runs in virtual time on a cluster of its own with two brokers and a topic of two queues on each, so that
every run gives the same events, to the millisecond. They are the events that `rlab broker --trace FILE` writes and that
every client sends to the topic SYS_TRACE, without those of the retry topic. `docs/one-rebalance.md` explains them.

    python examples/pages/one_rebalance.py docs      updates that page
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import anyio

from rlab.model.message import MessageExt
from rlab.testbed.simulation.cluster.cluster import SimulatedCluster
from rlab.testbed.simulation.cluster.scenes import Scene, SceneStart, filled_with, now, render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "one-rebalance.md"
SESSION_TIMEOUT_S = 6.0


async def two_members(cluster: SimulatedCluster) -> None:
    """Start two members and wait until the group has been converged for a while."""
    await cluster.create_topic("orders", queues=2)
    for _ in range(2):
        await cluster.start_consumer("billing", "orders", session_timeout_s=SESSION_TIMEOUT_S)
    await cluster.wait_converged(1)
    await anyio.sleep(4)


async def join(cluster: SimulatedCluster) -> SceneStart:
    """c2 joins c1."""
    await cluster.create_topic("orders", queues=2)
    await cluster.start_consumer("billing", "orders")
    await cluster.wait_converged(1)
    await anyio.sleep(4)
    began = now(cluster)
    await cluster.start_consumer("billing", "orders")
    await anyio.sleep(0.5)
    return began


async def refused(cluster: SimulatedCluster) -> SceneStart:
    """c2 joins while a listener of c1 has a message of a queue that c2 should have."""

    async def work(message: MessageExt) -> None:
        await anyio.sleep(2)

    await cluster.create_topic("orders", queues=2)
    await cluster.start_consumer("billing", "orders", work=work)
    await cluster.wait_converged(1)
    await anyio.sleep(4)
    producer = await cluster.start_producer(host="p", instance_name="p")
    queue = next(queue for queue in cluster.owners("billing") if (queue.broker_name, queue.queue_id) == ("broker-b", 1))
    await producer.send("orders", b"takes two seconds", queue=queue)
    began = now(cluster)
    await cluster.start_consumer("billing", "orders", host="c2", instance_name="2")
    await anyio.sleep(2.5)
    return began


async def unregister(cluster: SimulatedCluster) -> SceneStart:
    """c2 is shut down."""
    await two_members(cluster)
    began = now(cluster)
    await cluster.consumers[1].stop()
    await anyio.sleep(0.5)
    return began


async def close(cluster: SimulatedCluster) -> SceneStart:
    """The process of c2 is killed, and its connections close."""
    await two_members(cluster)
    began = now(cluster)
    await cluster.consumers[1].crash()
    await anyio.sleep(0.5)
    return began


async def expiry(cluster: SimulatedCluster) -> SceneStart:
    """The process of c2 hangs: its connections stay open, and nothing arrives over them."""
    await two_members(cluster)
    began = now(cluster)
    cluster.consumers[1].hang()
    await anyio.sleep(SESSION_TIMEOUT_S + 0.5)
    return began


async def restart(cluster: SimulatedCluster) -> SceneStart:
    """broker-b crashes, and is started again at once."""
    await two_members(cluster)
    began = now(cluster)
    await cluster.brokers["broker-b"].crash()
    await cluster.brokers["broker-b"].start()
    await anyio.sleep(1)
    return began


SCENES: dict[str, Scene] = {
    "join": join,
    "refused": refused,
    "unregister": unregister,
    "close": close,
    "expiry": expiry,
    "restart": restart,
}


def filled(page: str) -> str:
    """The page with the output of each scene in its place."""
    return filled_with(SCENES, page)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    if sys.argv[1:] == ["docs"]:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        for scene in SCENES.values():
            print(f"{(scene.__doc__ or '').strip()}\n{render(scene)}\n")
    print(f"{len(SCENES)} scenes")
