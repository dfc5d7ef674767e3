"""Order by queue and by key: balances of four accounts in one queue, consumed in three ways.

    python examples/key_order.py

Each message says the new balance of an account, and whoever passes it on to the account's owner takes some time. The
balances of one account must not overtake each other; those of different accounts may. Without an order they do; in the
order of the queue everybody waits for everybody; in the order of keys (the account) each waits for its own only. It
runs in virtual time, and the last line says what that gained. `docs/ordering.md` explains it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio

from client import ConsumeFrom
from client.options import ConsumeOrder
from model.message import MessageExt
from simulation.cluster.cluster import SimulatedCluster
from simulation.kernel.run import Simulation, run_simulation

ACCOUNTS, BALANCES = ("anna", "ben", "carla", "dora"), 10


class Letters:
    """What owners of accounts are told."""

    def __init__(self, simulation: Simulation) -> None:
        self.told: list[tuple[str, int]] = []
        self.everything = anyio.Event()
        self._random = simulation.random

    async def tell(self, message: MessageExt) -> None:
        """The listener: takes 5 to 15 ms."""
        await anyio.sleep(0.005 + 0.01 * self._random.random())
        self.told.append((message.keys[0], int(message.body)))
        if len(self.told) == len(ACCOUNTS) * BALANCES:
            self.everything.set()

    @property
    def overtaken(self) -> int:
        """Balances that were told after a later one of the same account."""
        return sum(
            any(later > balance for owner, later in self.told[:place] if owner == account)
            for place, (account, balance) in enumerate(self.told)
        )


async def scenario(simulation: Simulation) -> dict[ConsumeOrder, tuple[float, int]]:
    """Send everything once, and let a group of one member consume it in each way; returns (seconds, overtaken)."""
    came_of_it = {}
    with tempfile.TemporaryDirectory() as directory:
        async with SimulatedCluster(simulation, Path(directory), brokers=1) as cluster:
            await cluster.create_topic("balances", queues=1)
            producer = await cluster.start_producer()
            for balance in range(BALANCES):
                for account in ACCOUNTS:
                    # The key chooses the queue, too: with more queues than one, an account's messages share one.
                    await producer.send("balances", b"%d" % balance, key=account)
            for order in ConsumeOrder:
                letters, began = Letters(simulation), simulation.loop.time()
                await cluster.start_consumer(
                    f"letters-{order}",
                    "balances",
                    work=letters.tell,
                    order=order,
                    consume_from=ConsumeFrom.FIRST_OFFSET,
                )
                await letters.everything.wait()
                came_of_it[order] = simulation.loop.time() - began, letters.overtaken
    return came_of_it


if __name__ == "__main__":
    results = run_simulation(scenario)
    for order, (took_s, overtaken) in results.items():
        print(f'order="{order}": {took_s * 1000:4.0f} ms, {overtaken} balances overtaken by a later one')
    gain = results[ConsumeOrder.QUEUE][0] / results[ConsumeOrder.KEY][0]
    print(f"by key {gain:.1f} times as fast as by queue, and {results[ConsumeOrder.KEY][1]} overtaken")
