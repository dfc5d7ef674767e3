"""Assignment of the queues of a topic to the members of a group that pops, exactly as in RocketMQ. Pure.

POP delivers a message to one member only, so several members may pop the same queue. `pop_share_queue_num`, N below,
is set per group and topic: a member pops the queues that AVG assigns to it and those of the next N members in the
sorted member list, which continues at its start.

    members A B C D, queues 0 1 2 3
    N = 0 or less, or 3 or more    each pops every broker, and the broker chooses the queue
    N = 1                          A 0 1    B 1 2    C 2 3    D 3 0
    members A B C, one queue       each pops it

RocketMQ: QueryAssignmentProcessor.allocate4Pop.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.assignment import ALL_QUEUES
from model.message_queue import MessageQueue


def queues_to_pop(
    client_id: str, queues: Sequence[MessageQueue], members: Sequence[str], pop_share_queue_num: int
) -> list[MessageQueue]:
    """The queues of a topic that a member pops, its own first; or `ALL_QUEUES` of each broker, which then chooses.

    `queues` are all of the topic, and `members` the client ids that subscribe to it, both sorted. A client that is not
    among them gets no single queue, but `ALL_QUEUES` like the others, as in RocketMQ.
    """
    if pop_share_queue_num <= 0 or pop_share_queue_num >= len(members) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
        return [MessageQueue(topic, broker_name, ALL_QUEUES) for topic, broker_name in brokers]
    if client_id not in members or not queues:
        return []
    index = members.index(client_id)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    nexts = [(index + i) % len(members) for i in range(pop_share_queue_num + 1)]
    return [queue for index in nexts for queue in _averagely(queues, len(members), index)]


def _averagely(queues: Sequence[MessageQueue], members: int, index: int) -> Sequence[MessageQueue]:
    size, more = divmod(len(queues), members)
    begin = index * size + min(index, more)
    return queues[begin : begin + size + (index < more)]
