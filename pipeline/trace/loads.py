"""Loads of members over time: the fewest moves that a rebalance needed, and how even the loads were after it. Pure.

Plain Python over the changes of one group, in order of time; `rebalances.py` lets Spark call it per group.

    c1 has 4 queues and c2 joins: 2 have to move, and a strategy that moves 3 moves one too many
    c1 2, c2 2 after it: Jain's index 1.0, spread 0;  c1 3, c2 1: index 0.8, spread 2
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_BEGIN, _CHANGE, _END = range(3)


class LoadChange(NamedTuple):
    """From a time on, in milliseconds, a member has one queue of a topic more (`by` is 1) or less (-1)."""

    t_ms: float
    topic: str
    client: str
    by: int


class Mark(NamedTuple):
    """A rebalance at whose begin and end the loads are wanted.

    Attributes:
        began_ms, ended_ms: from its cause to its last change.
    """

    cause: str  # id of its cause
    began_ms: float
    ended_ms: float
    members: int  # of the group afterwards; -1 if unknown
    leaver: str  # the member that left, or ""


class Balance(NamedTuple):
    """The loads of one topic at the end of a rebalance."""

    cause: str
    topic: str
    t_ms: float  # end of the rebalance
    members: int
    queues: int
    min_moves: int  # fewest queues that had to move for an even assignment
    jain: float  # Jain's index of the loads, 1 if all are equal
    spread: int  # largest load minus smallest load


def balances(changes: Iterable[LoadChange], marks: Sequence[Mark]) -> Iterator[Balance]:
    """Measure the loads where a rebalance begins and ends, from the changes of one group in order of time.

    Yields a row for each rebalance and each topic with queues after it, in order of their ends.
    """
    loads: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    before: dict[int, dict[str, list[int]]] = {}
    # A change at exactly the time of the begin or the end belongs to the rebalance.
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
    """The fewest queues that have to move to another member for an even assignment.

    `stayers` are the loads before of the members that stay; `queues` and `members` are counted afterwards.
    """
    share, larger = divmod(queues, members)
    # The members with the largest loads keep one more.
    kept = sum(
        min(load, share + (rank < larger)) for rank, load in enumerate(sorted(stayers, reverse=True)) if rank < members
    )
    return max(0, queues - kept)


def jain_index(loads: Sequence[int], members: int) -> float:
    """Jain's index of fairness: 1 if all `members` have the same load, 1/members if one has everything.

    `loads` may leave out members without a queue.
    """
    return sum(loads) ** 2 / (members * sum(load * load for load in loads))
