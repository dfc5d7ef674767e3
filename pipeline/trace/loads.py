"""How many queues each member has as time goes on: what a rebalance had to move at the least, and how even it left it.

Plain Python over the changes of one group, in the order of time; `rebalances.py` lets Spark call it per group.

    c1 has 4 queues and c2 joins: 2 have to move, and a strategy that moves 3 has moved one for nothing
    c1 2, c2 2 after it: Jain's index 1.0, spread 0;  c1 3, c2 1: index 0.8, spread 2
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_BEGIN, _CHANGE, _END = range(3)


class LoadChange(NamedTuple):
    """A member has a queue of a topic more (`by` is 1) or less (-1) from a time on, in milliseconds."""

    t_ms: float
    topic: str
    client: str
    by: int


class Mark(NamedTuple):
    """A rebalance: what stands at its beginning and its end is wanted.

    Attributes:
        cause: its id.
        began_ms, ended_ms: from its cause to its last change.
        members: of the group afterwards; -1 if nobody said.
        leaver: who is gone afterwards, or "".
    """

    cause: str
    began_ms: float
    ended_ms: float
    members: int
    leaver: str


class Balance(NamedTuple):
    """What the loads say about one rebalance and one topic.

    Attributes:
        cause: of the rebalance.
        topic: the topic.
        t_ms: when it ended.
        members: among whom the queues are shared.
        queues: how many there are.
        min_moves: fewest queues that had to come to another member for an even share.
        jain: Jain's index of the loads at the end, 1 if all are equal.
        spread: queues of the member with most of them less those of the one with fewest.
    """

    cause: str
    topic: str
    t_ms: float
    members: int
    queues: int
    min_moves: int
    jain: float
    spread: int


def balances(changes: Iterable[LoadChange], marks: Sequence[Mark]) -> Iterator[Balance]:
    """Go through the changes of one group once, and look at the loads where a rebalance begins and ends.

    Args:
        changes: in the order of time.
        marks: the rebalances, in any order.

    Yields:
        A row for each rebalance and each topic that has queues after it, in the order of their ends.
    """
    loads: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    before: dict[int, dict[str, list[int]]] = {}
    # A change at the very time of a cause is its effect, and one at the time of its end belongs to it as well.
    points = [(mark.began_ms, _BEGIN, n) for n, mark in enumerate(marks)]
    points += [(mark.ended_ms, _END, n) for n, mark in enumerate(marks)]
    points.sort(reverse=True)

    def look() -> Iterator[Balance]:
        _, which, n = points.pop()
        if which == _BEGIN:
            before[n] = _of_stayers(loads, marks[n].leaver)
        else:
            yield from _balance(marks[n], before.pop(n), loads)

    for change in changes:
        while points and points[-1][:2] < (change.t_ms, _CHANGE):
            yield from look()
        loads[change.topic][change.client] += change.by
    while points:
        yield from look()


def _of_stayers(loads: dict[str, dict[str, int]], leaver: str) -> dict[str, list[int]]:
    return {topic: [n for client, n in of.items() if n and client != leaver] for topic, of in loads.items()}


def _balance(mark: Mark, before: dict[str, list[int]], loads: dict[str, dict[str, int]]) -> Iterator[Balance]:
    for topic in sorted(loads):
        now = [n for n in loads[topic].values() if n > 0]
        if not now:
            continue
        members = max(mark.members, len(now))
        yield Balance(
            mark.cause,
            topic,
            mark.ended_ms,
            members,
            sum(now),
            minimum_moves(before.get(topic, []), sum(now), members),
            jain_index(now, members),
            max(now) - (min(now) if members == len(now) else 0),
        )


def minimum_moves(stayers: Sequence[int], queues: int, members: int) -> int:
    """The fewest queues that have to come to another member until everybody has an even share.

    Args:
        stayers: how many queues each member has that had some before and stays.
        queues: how many there are afterwards.
        members: how many share them.
    """
    share, larger = divmod(queues, members)
    # Whoever has most keeps one more.
    kept = sum(
        min(load, share + (rank < larger)) for rank, load in enumerate(sorted(stayers, reverse=True)) if rank < members
    )
    return max(0, queues - kept)


def jain_index(loads: Sequence[int], members: int) -> float:
    """Jain's index of fairness: 1 if all members have the same, 1/members if one has everything.

    Args:
        loads: of the members that have something.
        members: how many there are.
    """
    return sum(loads) ** 2 / (members * sum(load * load for load in loads))
