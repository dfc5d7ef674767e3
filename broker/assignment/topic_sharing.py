"""Assignment of the queues of one topic to the members of its group, exactly as in RocketMQ, to pop or to pull. Pure.

A group that pulls has one member for each queue, by one of two strategies. POP delivers a message to one member only,
so several members may pop the same queue. `pop_share_queue_num`, N below, is set per group and topic: a member pops
the queues that AVG assigns to it and to the next N members in the sorted member list, which continues at its
start.

    members A B C D, queues 0 1 2 3
    N = 0 or less, or 3 or more    each pops every broker, and the broker chooses the queue
    N = 1                          A 0 1    B 1 2    C 2 3    D 3 0
    members A B C, one queue       each pops it

RocketMQ: QueryAssignmentProcessor.doLoadBalance, allocate4Pop.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.assignment import ALL_QUEUES
from model.errors import InvalidParameter
from model.message_queue import MessageQueue

_AVG, _CIRCLE = "AVG", "AVG_BY_CIRCLE"


def queues_to_pull(
    client_id: str, queues: Sequence[MessageQueue], members: Sequence[str], strategy: str
) -> Sequence[MessageQueue]:
    """The queues of a topic that a member pulls; `queues` and `members` as for `queues_to_pop`.

    Raises:
        InvalidParameter: it is a strategy that only members compute.
    """
    if strategy not in (_AVG, _CIRCLE):
        raise InvalidParameter(
            f"a broker assigns the queues of one topic by {_AVG} or {_CIRCLE}, not by {strategy!r}: "
            "use one of them, or let the members assign their queues"
        )
    if client_id not in members:
        return []
    index = members.index(client_id)
    return queues[index :: len(members)] if strategy == _CIRCLE else _averagely(queues, len(members), index)


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
    size, remainder = divmod(len(queues), members)
    begin = index * size + min(index, remainder)
    return queues[begin : begin + size + (index < remainder)]
