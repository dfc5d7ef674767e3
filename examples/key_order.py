"""Processing order by queue and by key: balances of four accounts in one queue, consumed in three ways.

    python examples/key_order.py

Each message has the new balance of an account, and the listener takes some time to report it to the account's owner.
Balances of one account must not overtake each other; balances of different accounts may. Without an order they do; with
order="queue" each message waits for all messages before it; with order="key" (the account) only for earlier messages of
its account. The example runs in virtual time, and the last line shows the gain. `docs/ordering.md` explains it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio

from rlab.client import ConsumeFrom
from rlab.client.options import ConsumeOrder
from rlab.model.message import MessageExt
from rlab.testbed.simulation.cluster.cluster import SimulatedCluster
from rlab.testbed.simulation.kernel.run import Simulation, run_simulation

ACCOUNTS, BALANCES = ("anna", "ben", "carla", "dora"), 10


class Letters:
    """Balances reported to the owners of accounts."""

    def __init__(self, simulation: Simulation) -> None:
        self.reported: list[tuple[str, int]] = []
        self.everything = anyio.Event()
        self._random = simulation.random

    async def report(self, message: MessageExt) -> None:
        """The listener: takes 5 to 15 ms."""
        await anyio.sleep(0.005 + 0.01 * self._random.random())
        self.reported.append((message.keys[0], int(message.body)))
        if len(self.reported) == len(ACCOUNTS) * BALANCES:
            self.everything.set()

    @property
    def overtaken(self) -> int:
        """Balances that were reported after a later one of the same account."""
        return sum(
            any(later > balance for owner, later in self.reported[:position] if owner == account)
            for position, (account, balance) in enumerate(self.reported)
        )


async def scenario(simulation: Simulation) -> dict[ConsumeOrder, tuple[float, int]]:
    """Send everything once, and consume it with each order by a group of one member; returns (seconds, overtaken)."""
    results_by_order = {}
    with tempfile.TemporaryDirectory() as directory:
        async with SimulatedCluster(simulation, Path(directory), brokers=1) as cluster:
            await cluster.create_topic("balances", queues=1)
            producer = await cluster.start_producer()
            for balance in range(BALANCES):
                for account in ACCOUNTS:
                    # The key chooses the queue as well, so messages of one account are always in one queue.
                    await producer.send("balances", b"%d" % balance, key=account)
            for order in ConsumeOrder:
                letters, began = Letters(simulation), simulation.loop.time()
                await cluster.start_consumer(
                    f"letters-{order}",
                    "balances",
                    work=letters.report,
                    order=order,
                    consume_from=ConsumeFrom.FIRST_OFFSET,
                )
                await letters.everything.wait()
                results_by_order[order] = simulation.loop.time() - began, letters.overtaken
    return results_by_order


if __name__ == "__main__":
    results = run_simulation(scenario)
    for order, (took_s, overtaken) in results.items():
        print(f'order="{order}": {took_s * 1000:4.0f} ms, {overtaken} balances overtaken by a later one')
    gain = results[ConsumeOrder.QUEUE][0] / results[ConsumeOrder.KEY][0]
    print(f"by key {gain:.1f} times as fast as by queue, and {results[ConsumeOrder.KEY][1]} overtaken")
