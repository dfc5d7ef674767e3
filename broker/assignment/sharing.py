"""Assigns the queues of a group, for all topics at once: evenly, and with the fewest moves. Pure.

Invariant: loads are as even as the subscriptions allow (`model/even_loads.py`): members with the same topics differ by
at most one queue, over all topics together. Of all assignments that are so even, this is one that leaves the most
queues with their owners. It needs the previous assignment, which the coordinator of the group keeps.

    before   A 1 2 3 4     B joins    A 1 2, B 3 4           two moves; fewer could not make it even
             A 1 2, B 3 4  C joins    A 1 2, B 3, C 4        one move: 2, 1, 1 is even, and A need not move any
             A 1 2, B 3 4  A leaves   B 3 4 1 2              only the queues without an owner

The even loads are computed first, independent of the previous owners (`level`). Some members may then have one queue
more or less, and each topic goes only to members whose loads are the lowest among its subscribers; by the duality of
flows no other assignment is even. The rest is a cheapest flow: to keep a queue costs nothing, to move one costs one
(`broker/assignment/min_cost_flow.py`). Where all members have the same topics, it is plain arithmetic.

RocketMQ computes on the broker what clients would have computed, one topic at a time and with nothing remembered
(QueryAssignmentProcessor); sticky assignment was asked for there (#2149, #2169).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.assignment.min_cost_flow import MinCostFlow
from model.even_loads import level
from model.message_queue import MessageQueue

_Topics = tuple[str, ...]


def assign(
    previous: Mapping[MessageQueue, str],
    queues_of: Mapping[str, Sequence[MessageQueue]],
    topics_of: Mapping[str, Collection[str]],
) -> dict[MessageQueue, str]:
    """Assign the queues of a group.

    Args:
        previous: queue -> last owner; queues and members that are gone may be in it.
        queues_of: queues that can be read, by topic; a topic that does not exist may be missing.
        topics_of: client id -> topics it subscribes to.

    Returns:
        queue -> client id, sorted by queue. Queues of topics without a subscriber are not in it.
    """
    kinds = _kinds(queues_of, topics_of)
    kept, free = _before(previous, queues_of, kinds)
    owners: dict[MessageQueue, str] = {}
    for one_level in _levels(kept, free, kinds):
        if len(one_level.kinds) == 1:
            _share_among_equals(one_level, kept, free, owners)
        else:
            _share_by_flow(one_level, kept, free, owners)
    return dict(sorted(owners.items()))


def count_moves(previous: Mapping[MessageQueue, str], owners: Mapping[MessageQueue, str]) -> int:
    """How many queues have another owner than before; those without an owner before do not count."""
    return sum(previous.get(queue, owner) != owner for queue, owner in owners.items())


_Kept = dict[str, dict[str, list[MessageQueue]]]
"""Topic -> member -> queues of it that it had and may have."""
_Free = dict[str, list[MessageQueue]]
"""Topic -> queues without an owner."""


def _kinds(
    queues_of: Mapping[str, Sequence[MessageQueue]], topics_of: Mapping[str, Collection[str]]
) -> dict[_Topics, list[str]]:
    """Members by the topics with queues that they subscribe to; members without any are left out."""
    as_listed: dict[frozenset[str], list[str]] = {}
    for client_id, topics in topics_of.items():
        as_listed.setdefault(frozenset(topics), []).append(client_id)
    kinds: dict[_Topics, list[str]] = {}
    for member_topics, members in as_listed.items():
        kinds.setdefault(tuple(sorted(topic for topic in member_topics if queues_of.get(topic))), []).extend(members)
    kinds.pop((), None)
    return {topics: sorted(members) for topics, members in sorted(kinds.items())}


def _before(
    previous: Mapping[MessageQueue, str],
    queues_of: Mapping[str, Sequence[MessageQueue]],
    kinds: Mapping[_Topics, Sequence[str]],
) -> tuple[_Kept, _Free]:
    """Owners of the queues that there are now, and the queues that are free."""
    kept: _Kept = {}
    free: _Free = {}
    for topic in sorted({topic for topics in kinds for topic in topics}):
        takers = {member for topics, members in kinds.items() if topic in topics for member in members}
        of_topic: dict[str, list[MessageQueue]] = {}
        unowned: list[MessageQueue] = []
        for queue in sorted(dict.fromkeys(queues_of[topic])):
            owner = previous.get(queue)
            if owner is not None and owner in takers:
                of_topic.setdefault(owner, []).append(queue)
            else:
                unowned.append(queue)
        kept[topic], free[topic] = of_topic, unowned
    return kept, free


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """Members that get all queues of some topics, each `least` of them or one more."""

    least: int
    kinds: dict[_Topics, list[str]]
    topics: list[str]


def _levels(kept: _Kept, free: _Free, kinds: dict[_Topics, list[str]]) -> list[_Level]:
    """Split the group where no queue can be exchanged without making the loads less even.

    A member that could give a queue, along whatever chain, to one with `least` queues has at most one more than that
    itself. Queues of a topic are never with a member of a higher level than the lowest that wants the topic.
    """
    names = {topics: f"{number:06}" for number, topics in enumerate(kinds)}
    kind_of = {member: names[topics] for topics, members in kinds.items() for member in members}
    quotas: dict[str, dict[str, int]] = {}
    for topic, of_topic in kept.items():
        quotas[topic] = {names[topics]: 0 for topics in kinds if topic in topics}
        for member, queues in of_topic.items():
            quotas[topic][kind_of[member]] += len(queues)
        quotas[topic][next(iter(quotas[topic]))] += len(free[topic])
    sizes = {names[topics]: len(members) for topics, members in kinds.items()}
    even = level(quotas, sizes)
    least = _least_reached(even, sizes)
    result: dict[int, _Level] = {}
    for topics, members in kinds.items():
        least_queues = least[names[topics]]
        result.setdefault(least_queues, _Level(least=least_queues, kinds={}, topics=[])).kinds[topics] = members
    for topic in kept:
        result[min(least[kind] for kind in even[topic])].topics.append(topic)
    return [result[least_queues] for least_queues in sorted(result)]


def _least_reached(even: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> dict[str, int]:
    """By kind, the smallest load at which a chain of gifts from it can end."""
    loads = {kind: sum(of_topic.get(kind, 0) for of_topic in even.values()) // sizes[kind] for kind in sizes}
    least: dict[str, int] = {}
    remaining = list(even)
    for first in sorted(sizes, key=lambda kind: (loads[kind], kind)):
        reached = [first] if first not in least else []
        least.setdefault(first, loads[first])
        for taker in reached:  # grows while it is gone through
            for topic in [topic for topic in remaining if taker in even[topic]]:
                remaining.remove(topic)
                givers = [kind for kind, count in even[topic].items() if count and kind not in least]
                least.update(dict.fromkeys(givers, loads[first]))
                reached += givers
    return least


def _share_among_equals(one_level: _Level, kept: _Kept, free: _Free, owners: dict[MessageQueue, str]) -> None:
    """Give all members the same number, and one more to those that have most now, until no queue is left."""
    [members] = one_level.kinds.values()
    kept_by_member: dict[str, list[MessageQueue]] = {member: [] for member in members}
    spare: list[MessageQueue] = []
    for topic in one_level.topics:
        spare += free[topic]
        for member, queues in kept[topic].items():
            kept_by_member.get(member, spare).extend(queues)  # a member of another level gives all of this topic
    total = len(spare) + sum(map(len, kept_by_member.values()))
    with_one_more = sorted(members, key=lambda member: (-min(len(kept_by_member[member]), one_level.least + 1), member))
    quota = dict.fromkeys(members, one_level.least)
    quota.update(dict.fromkeys(with_one_more[: total - one_level.least * len(members)], one_level.least + 1))
    for member, queues in kept_by_member.items():
        spare += _keep(queues, quota[member], member, owners)
    _deal(sorted(spare), {member: quota[member] - len(kept_by_member[member]) for member in members}, owners)


def _share_by_flow(one_level: _Level, kept: _Kept, free: _Free, owners: dict[MessageQueue, str]) -> None:
    """Move as few queues as possible; see the module header.

    Each topic sends its queues to members: those that are kept straight, the others through the kind of the member.
    Each member needs `least` of them; it may pass one more on to the last node, which needs the remainder.
    """
    kinds = list(one_level.kinds)
    members = [member for of_kind in one_level.kinds.values() for member in of_kind]
    names: list[object] = [*one_level.topics, *kinds, *members, None]
    node = {name: number for number, name in enumerate(names)}
    first_member, last = len(one_level.topics) + len(kinds), len(names) - 1
    counts = {topic: len(free[topic]) + sum(map(len, kept[topic].values())) for topic in one_level.topics}
    total = sum(counts.values())
    network = MinCostFlow(len(names))
    surplus = [0] * len(names)
    surplus[last] = one_level.least * len(members) - total
    keeps: dict[tuple[str, str], int] = {}
    of_topic_and_kind: dict[tuple[str, _Topics], int] = {}
    takes: dict[tuple[_Topics, str], int] = {}
    in_level = set(members)
    for topic in one_level.topics:
        surplus[node[topic]] += counts[topic]
        for member, queues in kept[topic].items():
            if member in in_level:
                count = len(queues)
                keeps[topic, member] = network.add_arc(node[topic], node[member], count, cost=-1, flow=count)
                surplus[node[topic]] -= count
                surplus[node[member]] += count
        for kind in (kind for kind in kinds if topic in kind):
            of_topic_and_kind[topic, kind] = network.add_arc(node[topic], node[kind], total)
    for kind, of_kind in one_level.kinds.items():
        for member in of_kind:
            takes[kind, member] = network.add_arc(node[kind], node[member], total)
    for number in range(first_member, last):
        surplus[number] -= one_level.least
        passed_on = min(1, max(0, surplus[number]))
        network.add_arc(number, last, 1, flow=passed_on)
        surplus[number] -= passed_on
        surplus[last] += passed_on
    network.settle(surplus)

    spare: dict[str, list[MessageQueue]] = {topic: list(free[topic]) for topic in one_level.topics}
    for topic in one_level.topics:
        for member, queues in kept[topic].items():
            count = network.flow(keeps[topic, member]) if member in in_level else 0
            spare[topic] += _keep(queues, count, member, owners)
        spare[topic].sort()
    for kind, of_kind in one_level.kinds.items():
        dealt: list[MessageQueue] = []
        for topic in one_level.topics:
            if topic in kind:
                count = network.flow(of_topic_and_kind[topic, kind])
                dealt += spare[topic][:count]
                del spare[topic][:count]
        _deal(dealt, {member: network.flow(takes[kind, member]) for member in of_kind}, owners)


def _keep(queues: list[MessageQueue], count: int, member: str, owners: dict[MessageQueue, str]) -> list[MessageQueue]:
    """Let a member keep at most `count` of its queues, of as many brokers as possible; returns the others."""
    count = min(count, len(queues))
    kept_indexes = {index * len(queues) // count for index in range(count)}
    owners.update((queues[index], member) for index in sorted(kept_indexes))
    return [queue for index, queue in enumerate(queues) if index not in kept_indexes]


def _deal(queues: Iterable[MessageQueue], capacity: dict[str, int], owners: dict[MessageQueue, str]) -> None:
    """Deal queues one at a time, like cards, so that each member gets some of many brokers."""
    round_of = [member for member, count in capacity.items() if count > 0]
    i = 0
    for queue in queues:
        if i >= len(round_of):
            round_of = [member for member in round_of if capacity[member] > 0]
            i = 0
        member = round_of[i]
        owners[queue] = member
        capacity[member] -= 1
        i += 1
