"""Transactions event by event: one that is committed, and two whose producer is killed in the middle.

    python examples/pages/one_transaction.py

Each scene runs in virtual time on a cluster of its own, so that every run gives the same events, to the millisecond.
`docs/transactions.md` explains them.

    python examples/pages/one_transaction.py docs      updates that page
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import anyio

from rlab.client import Message, MessageExt, TransactionState
from rlab.testbed.simulation.cluster.clients import SimulatedTransactionProducer
from rlab.testbed.simulation.cluster.cluster import SimulatedCluster
from rlab.testbed.simulation.cluster.scenes import Scene, SceneStart, filled_with, now, render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "transactions.md"
GROUP, TOPIC = "shop", "payments"


class Shop:
    """A service of two processes with one database, which has the ids of the written orders."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.orders: set[str] = set()

    async def start(self, name: str) -> SimulatedTransactionProducer:
        """Start a process of the service."""
        return await self.cluster.start_transaction_producer(GROUP, self.check, host=name, instance_name=name)

    def check(self, message: MessageExt) -> TransactionState:
        """The state of a transaction of any process."""
        return TransactionState.COMMIT if message.message_id in self.orders else TransactionState.ROLLBACK

    async def order(self, process: SimulatedTransactionProducer, until_the_end_s: float = 0.0) -> None:
        """Write an order and send the message about it, in one transaction; the block ends `until_the_end_s` later."""
        with self.cluster.simulation.on_host(process.host):
            async with process.producer.transaction(Message(TOPIC, b"order 1")) as tx:
                self.orders.add(tx.message_id)
                await anyio.sleep(until_the_end_s)


async def opened(cluster: SimulatedCluster) -> tuple[Shop, SimulatedTransactionProducer, SceneStart]:
    """A shop with its first process, and a consumer of its messages."""
    await cluster.create_topic(TOPIC, queues=1, brokers=["broker-a"])
    await cluster.start_consumer("billing", TOPIC)
    await cluster.wait_converged(1)
    shop = Shop(cluster)
    process = await shop.start("p1")
    await anyio.sleep(4)
    return shop, process, now(cluster)


async def commit(cluster: SimulatedCluster) -> SceneStart:
    """The local branch takes 40 ms, then its block ends."""
    shop, process, began = await opened(cluster)
    await shop.order(process, 0.04)
    await anyio.sleep(0.5)
    return began


async def crash(cluster: SimulatedCluster) -> SceneStart:
    """p1 is killed after the local branch and before the end; p2 of the same group is asked."""
    shop, process, _ = await opened(cluster)
    await shop.start("p2")
    await anyio.sleep(4)
    began = now(cluster)
    await killed(shop, process)
    await anyio.sleep(7)
    assert cluster.consumers[0].bodies == [b"order 1"]
    return began


async def alone(cluster: SimulatedCluster) -> SceneStart:
    """p1 is killed at the same moment, and there is no other process of its group until p2 starts, 12 s later."""
    shop, process, began = await opened(cluster)
    await killed(shop, process)
    await anyio.sleep(12)
    await shop.start("p2")
    await anyio.sleep(0.5)
    return began


async def killed(shop: Shop, process: SimulatedTransactionProducer) -> None:
    """The process writes an order, and is killed before its block ends."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shop.order, process, 10)
        await anyio.sleep(0.04)
        tasks.cancel_scope.cancel()  # a process that dies runs no further line
    await process.crash()


SCENES: dict[str, Scene] = {"commit": commit, "crash": crash, "alone": alone}


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
