"""A custom strategy: assigns queues to members in proportion to a weight in their client id.

    python examples/custom_strategy.py

A strategy is a pure function of all queues, all members and the caller's client id. Each member runs it on its own, so
all members must use the same strategy. It is correct if the results of all members cover every queue exactly once, for
any number of queues and members. Check that first, as `check` does here, and then try it in a group, here in virtual
time. In a real cluster it is `PushConsumer(..., strategy=AllocateMessageQueueByWeight())`; for `rlab consume --strategy
BY_WEIGHT`, and for `rlab group show` to know the targets of its members, its package registers it as an entry point
(`docs/strategies.md`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rlab.client.allocate import AllocateMessageQueueStrategy, position_of
from rlab.model.message_queue import MessageQueue
from rlab.testbed.simulation.cluster.cluster import SimulatedCluster
from rlab.testbed.simulation.kernel.run import Simulation, run_simulation


class AllocateMessageQueueByWeight:
    """Consecutive blocks, as long as the members' weights: `host@name*3` gets three times as much as `host@name`."""

    name = "BY_WEIGHT"

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`."""
        index = position_of(consumer_group, current_cid, mq_all, cid_all)
        if index is None:
            return []
        # Each block ends where the next one begins, so every queue is in exactly one block, for any weights.
        weights = [weight_of(client_id) for client_id in cid_all]
        weight_before = sum(weights[:index])
        begin = len(mq_all) * weight_before // sum(weights)
        end = len(mq_all) * (weight_before + weights[index]) // sum(weights)
        return list(mq_all[begin:end])


def weight_of(client_id: str) -> int:
    """The number after the last `*` of a client id, or 1."""
    _, star, weight = client_id.rpartition("*")
    return int(weight) if star and weight.isdecimal() and int(weight) > 0 else 1


def check(strategy: AllocateMessageQueueStrategy) -> int:
    """Assert that each queue has exactly one owner, for many groups; returns the number of groups."""
    groups = 0
    for members in range(1, 8):
        client_ids = sorted(f"host{number}@c*{1 + number % 4}" for number in range(members))
        for count in range(1, 30):
            queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(count)]
            shares = [strategy.allocate("g", client_id, queues, client_ids) for client_id in client_ids]
            assert sorted(queue for share in shares for queue in share) == queues, (count, client_ids)
            groups += 1
    return groups


async def scenario(simulation: Simulation) -> str:
    """Assign 16 queues to two members of weight 1 and one of weight 2."""
    strategy = AllocateMessageQueueByWeight()
    with tempfile.TemporaryDirectory() as directory:
        async with SimulatedCluster(simulation, Path(directory), brokers=2) as cluster:
            await cluster.create_topic("orders", queues=8)
            for name in ("small-1", "small-2", "large*2"):
                await cluster.start_consumer("billing", "orders", strategy=strategy, instance_name=name)
            await cluster.wait_converged(1.0)
            return ", ".join(f"{each.client_id.partition('@')[2]} has {len(each.queues)}" for each in cluster.consumers)


if __name__ == "__main__":
    print(f"checked: one owner for each queue in {check(AllocateMessageQueueByWeight())} groups")
    print(run_simulation(scenario))
