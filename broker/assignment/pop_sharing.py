"""The queues that each member pops, of a group that pops a topic: RocketMQ's rule, to the letter. Pure.

A message that is popped is with one member whatever the queues are with, so that members may share them. How many do
is set for the group and topic: each member pops its own share and the shares of the next N members, in a circle.

    members A B C D, queues 0 1 2 3
    N = 0 or less, or 3 or more    all of them pop all queues of each broker, which chooses among them
    N = 1                          A 0 1    B 1 2    C 2 3    D 3 0
    members A B C, one queue       each pops it

RocketMQ: QueryAssignmentProcessor.allocate4Pop; own shares are those of AVG.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.assignment import ALL_QUEUES
from model.message_queue import MessageQueue


def pop_share(
    client_id: str, queues: Sequence[MessageQueue], members: Sequence[str], pop_share_queue_num: int
) -> list[MessageQueue]:
    """The queues that a member pops of a topic.

    Args:
        client_id: the member; one that is not among the members gets what RocketMQ gives it.
        queues: of the topic, sorted.
        members: that subscribe to it, sorted.
        pop_share_queue_num: N of the module header.

    Returns:
        Queues, its own first; or one for each broker, whose id `ALL_QUEUES` says that the broker chooses.
    """
    if pop_share_queue_num <= 0 or pop_share_queue_num >= len(members) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
        return [MessageQueue(topic, broker_name, ALL_QUEUES) for topic, broker_name in brokers]
    if client_id not in members or not queues:
        return []
    index = members.index(client_id)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    shares = [_averagely(queues, len(members), (index + i) % len(members)) for i in range(pop_share_queue_num + 1)]
    return [queue for share in shares for queue in share]


def _averagely(queues: Sequence[MessageQueue], members: int, index: int) -> Sequence[MessageQueue]:
    size, more = divmod(len(queues), members)
    begin = index * size + min(index, more)
    return queues[begin : begin + size + (index < more)]
