"""Finds by how much each node's clock was wrong, from pairs of events: a reason, and its effect at another node. Pure.

The true time is unknown. So one clock is assumed to be right, and the others are computed from it one after the other,
beginning with the one that the pairs bound most closely. The chosen clock is the one with which most clocks agree:
right clocks agree with each other, while each wrong clock has its own error.

    three members and two brokers, c1 is 2 s ahead       with b1 as the right one, four of five have no offset
                                                         with c1 as the right one, only c1 has no offset
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from traces.figures.clocks.course import LONG_PAUSE_MS, Bound, Piece, compute_course
from traces.figures.clocks.pairs import Pair, Point

MAX_CHOICES = 8
"""Number of clocks that are tried as the right one: the clocks with most pairs, which include the brokers."""
AGREES_MS = 500.0
"""A clock with a smaller offset agrees: clocks of machines without NTP soon differ by more."""

Timeline = tuple[Sequence[int], Sequence[float]]
"""The numbers of a clock's events, in order, and their times."""


class Courses:
    """The courses of clocks, relative to the clock that is assumed to be right."""

    def __init__(self, timelines: Sequence[Timeline], neighbors_by_clock: Sequence[Sequence[Pair]]) -> None:
        self.of: dict[int, list[Piece]] = {}
        self._timelines = timelines
        self._neighbours = neighbors_by_clock
        self._begins: dict[int, list[int]] = {}

    def set(self, clock: int, pieces: list[Piece]) -> None:
        """Add the course of a clock."""
        self.of[clock] = pieces
        self._begins[clock] = [piece.begin for piece in pieces]

    def at(self, point: Point) -> int:
        """Return the index of an event among the events of its clock."""
        return bisect_left(self._timelines[point.clock][0], point.seq)

    def true_ms(self, point: Point) -> float:
        """Return the right time of an event, by the course of its clock."""
        pieces = self.of[point.clock]
        if len(pieces) == 1:
            return point.t_ms - pieces[0].ahead_ms
        return point.t_ms - pieces[bisect_right(self._begins[point.clock], self.at(point)) - 1].ahead_ms

    def has_other(self, pair: Pair, clock: int) -> bool:
        """Whether the other clock of a pair has a course."""
        return (pair.effect.clock if pair.reason.clock == clock else pair.reason.clock) in self.of

    def is_sure(self, pair: Pair, clock: int) -> bool:
        """Whether the other clock of a pair has a course, and no long pause separates its event from the bounds."""
        other = pair.effect if pair.reason.clock == clock else pair.reason
        if other.clock not in self.of:
            return False
        position = self.at(other)
        return any(piece.sure[0] <= position <= piece.sure[1] for piece in self.of[other.clock])

    def is_all_sure(self, clock: int) -> bool:
        """Whether no long pause separates any event of a clock from the bounds."""
        return all(piece.sure == (piece.begin, piece.end - 1) for piece in self.of[clock])

    def bounds(self, clock: int) -> list[Bound]:
        """Return the bounds of a clock from pairs with sure events of other clocks, or else from all pairs."""
        pairs = [pair for pair in self._neighbours[clock] if self.is_sure(pair, clock)]
        pairs = pairs or [pair for pair in self._neighbours[clock] if self.has_other(pair, clock)]
        return [self.bound(pair, clock) for pair in pairs]

    def bound(self, pair: Pair, clock: int) -> Bound:
        """Return the bound that a pair gives for a clock, by the course of the other clock."""
        if pair.effect.clock == clock:
            return Bound(self.at(pair.effect), pair.effect.t_ms - self.true_ms(pair.reason), False)
        return Bound(self.at(pair.reason), pair.reason.t_ms - self.true_ms(pair.effect), True)

    def follow(self, ledger: int, pairs: Sequence[Pair]) -> None:
        """Assume the clock of a ledger to be right, whatever the others agree on; they bound it less exactly."""
        bounds = [self.bound(pair, ledger) for pair in pairs if self.has_other(pair, ledger)]
        first, *others = compute_course(self._timelines[ledger][1], bounds)
        unsure_ms = math.inf if others else first.unsure_ms
        for clock, pieces in self.of.items():
            self.of[clock] = [
                replace(piece, ahead_ms=piece.ahead_ms - first.ahead_ms, unsure_ms=piece.unsure_ms + unsure_ms)
                for piece in pieces
            ]

    @property
    def agreeing(self) -> int:
        """The number of clocks that agree with the right one in all of their pieces."""
        return sum(all(abs(piece.ahead_ms) < AGREES_MS for piece in pieces) for pieces in self.of.values())

    @property
    def hidden_steps(self) -> int:
        """The number of steps back by more than a long pause after which the clock does not show an earlier time.

        That requires a pause of all nodes as long as the step, so it is likelier that another clock was set forward.
        """
        return sum(
            this_piece.ahead_ms - next_piece.ahead_ms > LONG_PAUSE_MS
            and self._timelines[clock][1][next_piece.begin] >= self._timelines[clock][1][next_piece.begin - 1]
            for clock, pieces in self.of.items()
            for this_piece, next_piece in pairwise(pieces)
        )


def is_consistent(pairs: Iterable[Pair]) -> bool:
    """Whether no effect is before its reason: then no clock can be shown to be wrong."""
    return all(effect.t_ms >= reason.t_ms for reason, effect in pairs)


def compute_courses(
    timelines: Sequence[Timeline],
    pairs: Sequence[Pair],
    machines: Sequence[str],
    preferred: set[int],
    ledger: int | None = None,
) -> dict[int, list[Piece]]:
    """Compute the course of each clock that has pairs.

    `machines` has the machine of each clock: clocks of one machine are the same, or were so before a restart. If
    equally many clocks agree with two clocks, a `preferred` one (a broker's) is assumed to be right. In the end all
    courses are shifted to the times of a `ledger`, because its lines have no numbers by which they could be corrected.
    """
    neighbors_by_clock: list[list[Pair]] = [[] for _ in timelines]
    of_ledger = [pair for pair in pairs if ledger in (pair.reason.clock, pair.effect.clock)]
    for pair in pairs:
        if ledger in (pair.reason.clock, pair.effect.clock):
            continue  # such a pair bounds a clock only to seconds; `follow` uses them, last
        neighbors_by_clock[pair.reason.clock].append(pair)
        neighbors_by_clock[pair.effect.clock].append(pair)
    courses: dict[int, list[Piece]] = {}
    for group in _connected(neighbors_by_clock):
        choices = sorted(group, key=lambda clock: (-len(neighbors_by_clock[clock]), clock))[:MAX_CHOICES]
        tried = [(clock, _solve(clock, group, timelines, neighbors_by_clock, machines)) for clock in choices]
        _, best = max(tried, key=lambda each: (each[1].agreeing, -each[1].hidden_steps, each[0] in preferred))
        if ledger is not None:
            best.follow(ledger, of_ledger)
        courses |= best.of
    return courses


def _connected(neighbors_by_clock: Sequence[Sequence[Pair]]) -> Iterator[list[int]]:
    """Yield the groups of clocks that pairs connect, without the clocks that have no pair."""
    seen: set[int] = set()
    for first, pairs in enumerate(neighbors_by_clock):
        if first in seen or not pairs:
            continue
        group, to_visit = [], [first]
        seen.add(first)
        while to_visit:
            clock = to_visit.pop()
            group.append(clock)
            for pair in neighbors_by_clock[clock]:
                for other in (pair.reason.clock, pair.effect.clock):
                    if other not in seen:
                        seen.add(other)
                        to_visit.append(other)
        yield sorted(group)


def _solve(
    right: int,
    group: Sequence[int],
    timelines: Sequence[Timeline],
    neighbors_by_clock: Sequence[Sequence[Pair]],
    machines: Sequence[str],
) -> Courses:
    """Compute the courses of a group of clocks, assuming that `right` is right."""
    courses = Courses(timelines, neighbors_by_clock)
    n = len(timelines[right][0])
    courses.set(right, [Piece(begin=0, end=n, ahead_ms=0.0, unsure_ms=0.0, sure=(0, n - 1))])
    unsolved = {clock: _KnownBounds() for clock in group if clock != right}
    clock, of_machine, unsure = right, {machines[right]: [0.0]}, dict[int, float]()
    while unsolved:
        for pair in neighbors_by_clock[clock]:
            other = pair.effect.clock if pair.reason.clock == clock else pair.reason.clock
            if other in unsolved and courses.is_sure(pair, other):
                unsolved[other].add(courses.bound(pair, other))
        clock = min(unsolved, key=lambda each: (unsolved[each].rank, each))
        others = of_machine.setdefault(machines[clock], [0.0])
        courses.set(clock, compute_course(timelines[clock][1], courses.bounds(clock), others[-1]))
        if not courses.is_all_sure(clock):
            unsure[clock] = others[-1]
        others.append(courses.of[clock][-1].ahead_ms)
        del unsolved[clock]
    for clock, before_ms in unsure.items():  # events after a pause may have pairs with clocks that were solved later
        courses.set(clock, compute_course(timelines[clock][1], courses.bounds(clock), before_ms))
    return courses


class _KnownBounds:
    """The bounds of a clock's offset from the clocks that are solved so far."""

    __slots__ = ("least_ms", "most_ms")

    def __init__(self) -> None:
        self.least_ms, self.most_ms = -math.inf, math.inf

    def add(self, bound: Bound) -> None:
        if bound.is_least:
            self.least_ms = max(self.least_ms, bound.ms)
        else:
            self.most_ms = min(self.most_ms, bound.ms)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key: the width of the bounds; contradictory bounds are late, clocks without bounds last."""
        width_ms = self.most_ms - self.least_ms
        is_unknown = math.isinf(self.least_ms) and math.isinf(self.most_ms)
        return is_unknown, width_ms if width_ms >= 0 else math.inf
