"""Compares the expected and the real owners of a group's queues: decides if a simulated group has converged.

Invariant: the expected owners are computed from the facts (which processes run, which topics they have) and never from
the state of a client. So a group that matches them is correct, not only consistent with itself.

Example: members c1 and c2, one broker with two queues, and c2 has just joined:

    expected       {t:broker-a:0: (c1,), t:broker-a:1: (c2,)}
    owners         {t:broker-a:0: (c1,), t:broker-a:1: (c1,)}
    differences    ["t:broker-a:1 should belong to c2, and belongs to c1"]
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.broker import RunningBroker
from broker.leases.table import QueueKey
from client.allocate import AllocateMessageQueueStrategy
from client.rebalance.plan import allocate_target
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue
from model.names import is_retry_topic
from model.topic_route import Perm, SortedQueues
from testbed.simulation.cluster.clients import SimulatedConsumer

Owners = dict[MessageQueue, tuple[str, ...]]
"""Queue -> client ids, sorted; more than one is a fault, and a queue without an owner is left out."""


def readable_queues(topic: str, brokers: Iterable[RunningBroker]) -> SortedQueues:
    """Every queue of a topic that any of these brokers serves."""
    queues = []
    for broker in brokers:
        entry = broker.broker.topics.table.get(topic)
        if entry is not None and entry.config.perm & Perm.READ:
            queues += [MessageQueue(topic, broker.name, queue_id) for queue_id in range(entry.config.read_queue_nums)]
    return SortedQueues(sorted(queues))


def compute_expected_owners(
    group: str,
    strategy: AllocateMessageQueueStrategy,
    consumers: Iterable[SimulatedConsumer],
    brokers: Iterable[RunningBroker],
    *,
    retry_topics: bool,
) -> Owners:
    """The owner that each queue of a group should have, computed from its live consumers and these running brokers.

    `retry_topics` says whether the queues of retry topics count.
    """
    running = list(brokers)
    members = {
        each.client_id: each.consumer.subscribed_topics() for each in consumers if each.live and each.group == group
    }
    view = GroupView(group=group, version=0, members=dict(sorted(members.items())))
    # All topics of the group, even if only some count: a strategy may assign them together.
    all_topics = dict.fromkeys(topic for topics in members.values() for topic in topics)
    queues = {topic: readable_queues(topic, running) for topic in all_topics}
    owners: Owners = {}
    for client_id, subscribed in sorted(members.items()):
        topics = [topic for topic in subscribed if retry_topics or not is_retry_topic(topic)]
        target = allocate_target(strategy, group, client_id, MessageModel.CLUSTERING, topics, queues, view)
        owners.update({queue: (client_id,) for queue in target})
    return dict(sorted(owners.items()))


def owners_of(group: str, consumers: Iterable[SimulatedConsumer], *, retry_topics: bool) -> Owners:
    """The owners of each queue: the live members that list it as their own."""
    owners: Owners = {}
    live = [each for each in consumers if each.live and each.group == group]
    for consumer in sorted(live, key=lambda each: each.client_id):
        for queue in consumer.consumer.queues:
            if retry_topics or not is_retry_topic(queue.topic):
                owners[queue] = (*owners.get(queue, ()), consumer.client_id)
    return dict(sorted(owners.items()))


def differences(group: str, expected: Owners, owners: Owners, brokers: Iterable[RunningBroker]) -> list[str]:
    """A line for each queue whose owner or lease is not as it should be; empty when the group has converged.

    An owner without a lease on its broker may not commit.
    """
    lines = [
        f"{queue} should belong to {_named(expected.get(queue))}, and belongs to {_named(owners.get(queue))}"
        for queue in sorted({*expected, *owners})
        if expected.get(queue) != owners.get(queue)
    ]
    for broker in brokers:
        for queue, (client_id, *_) in expected.items():
            leased = broker.broker.leases.table.held_by(group, client_id)
            if queue.broker_name == broker.name and QueueKey(queue.topic, queue.queue_id) not in leased:
                lines.append(f"{queue} is not leased to {client_id}")
    return lines


def _named(client_ids: tuple[str, ...] | None) -> str:
    return " and ".join(client_ids) if client_ids else "no member"
