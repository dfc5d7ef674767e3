"""Finds the clocks that are right, and the courses of the others, from pairs of events. Pure.

Nobody knows the true time. Some clock has to be taken as right, and the others follow one after the other, those that
are known best first. The choice is that with which the most clocks agree: right clocks agree with each other, and wrong
ones are each wrong in their own way.

    three members and two brokers, c1 is 2 s ahead       with b1 as the right one, four of five have no offset
                                                         with c1 as the right one, only c1 has none
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from traces.figures.clocks.course import LONG_PAUSE_MS, Bound, Piece, course_of
from traces.figures.clocks.pairs import Pair, Point

MAX_CHOICES = 8
"""Clocks that are tried as the right one: those with the most pairs, among which are the brokers."""
AGREES_MS = 500.0
"""A clock that is ahead or behind by less agrees: machines without NTP differ by more soon."""

Timeline = tuple[Sequence[int], Sequence[float]]
"""The numbers of a clock's events, in order, and their times."""


class Courses:
    """The courses of clocks, relative to one that is taken as right."""

    def __init__(self, timelines: Sequence[Timeline], neighbours: Sequence[Sequence[Pair]]) -> None:
        self.of: dict[int, list[Piece]] = {}
        self._timelines = timelines
        self._neighbours = neighbours
        self._begins: dict[int, list[int]] = {}

    def set(self, clock: int, pieces: list[Piece]) -> None:
        """Add the course of a clock."""
        self.of[clock] = pieces
        self._begins[clock] = [piece.begin for piece in pieces]

    def at(self, point: Point) -> int:
        """The place of an event among those of its clock."""
        return bisect_left(self._timelines[point.clock][0], point.seq)

    def true_ms(self, point: Point) -> float:
        """The right time of an event, by the course of its clock."""
        pieces = self.of[point.clock]
        if len(pieces) == 1:
            return point.t_ms - pieces[0].ahead_ms
        return point.t_ms - pieces[bisect_right(self._begins[point.clock], self.at(point)) - 1].ahead_ms

    def has_other(self, pair: Pair, clock: int) -> bool:
        """Whether the other clock of a pair has a course."""
        return (pair.effect.clock if pair.reason.clock == clock else pair.reason.clock) in self.of

    def is_sure(self, pair: Pair, clock: int) -> bool:
        """Whether the other clock of a pair has a course, and its event no long pause between it and the bounds."""
        other = pair.effect if pair.reason.clock == clock else pair.reason
        if other.clock not in self.of:
            return False
        at = self.at(other)
        return any(piece.sure[0] <= at <= piece.sure[1] for piece in self.of[other.clock])

    def is_all_sure(self, clock: int) -> bool:
        """Whether that holds for all events of a clock."""
        return all(piece.sure == (piece.begin, piece.end - 1) for piece in self.of[clock])

    def bounds(self, clock: int) -> list[Bound]:
        """What its pairs say of a clock: those with sure events of other clocks, without any all of them."""
        pairs = [pair for pair in self._neighbours[clock] if self.is_sure(pair, clock)]
        pairs = pairs or [pair for pair in self._neighbours[clock] if self.has_other(pair, clock)]
        return [self.bound(pair, clock) for pair in pairs]

    def bound(self, pair: Pair, clock: int) -> Bound:
        """What a pair says of a clock, by the course of the other one."""
        if pair.effect.clock == clock:
            return Bound(self.at(pair.effect), pair.effect.t_ms - self.true_ms(pair.reason), False)
        return Bound(self.at(pair.reason), pair.reason.t_ms - self.true_ms(pair.effect), True)

    def follow(self, ledger: int, pairs: Sequence[Pair]) -> None:
        """Take the clock of a ledger as right, whatever the others agree on; it is bounded by them less exactly."""
        bounds = [self.bound(pair, ledger) for pair in pairs if self.has_other(pair, ledger)]
        first, *others = course_of(self._timelines[ledger][1], bounds)
        unsure_ms = math.inf if others else first.unsure_ms
        for clock, pieces in self.of.items():
            self.of[clock] = [
                replace(piece, ahead_ms=piece.ahead_ms - first.ahead_ms, unsure_ms=piece.unsure_ms + unsure_ms)
                for piece in pieces
            ]

    @property
    def agreeing(self) -> int:
        """Clocks that agree with the right one from begin to end."""
        return sum(all(abs(piece.ahead_ms) < AGREES_MS for piece in pieces) for pieces in self.of.values())

    @property
    def hidden(self) -> int:
        """Clocks that were set back by more than a long pause, and yet never show an earlier time than before.

        That takes a pause of all nodes that is as long as the step: it is likelier that another clock was set forward.
        """
        return sum(
            before.ahead_ms - after.ahead_ms > LONG_PAUSE_MS
            and self._timelines[clock][1][after.begin] >= self._timelines[clock][1][after.begin - 1]
            for clock, pieces in self.of.items()
            for before, after in pairwise(pieces)
        )


def is_consistent(pairs: Iterable[Pair]) -> bool:
    """Whether no effect is before its reason: then all clocks are right, as far as anybody can say."""
    return all(effect.t_ms >= reason.t_ms for reason, effect in pairs)


def courses_of(
    timelines: Sequence[Timeline],
    pairs: Sequence[Pair],
    machines: Sequence[str],
    preferred: set[int],
    ledger: int | None = None,
) -> dict[int, list[Piece]]:
    """The course of each clock that has pairs.

    `machines` are those of the clocks: clocks of one machine are one, or were before it was started again. Where as
    many agree with two clocks, a `preferred` one is taken as right: that of a broker. The times of a `ledger` are those
    of all others in the end, because its lines have no numbers by which they could be corrected.
    """
    neighbours: list[list[Pair]] = [[] for _ in timelines]
    of_ledger = [pair for pair in pairs if ledger in (pair.reason.clock, pair.effect.clock)]
    for pair in pairs:
        if ledger in (pair.reason.clock, pair.effect.clock):
            continue  # they bound clocks by seconds, and come last
        neighbours[pair.reason.clock].append(pair)
        neighbours[pair.effect.clock].append(pair)
    found: dict[int, list[Piece]] = {}
    for group in _connected(neighbours):
        choices = sorted(group, key=lambda clock: (-len(neighbours[clock]), clock))[:MAX_CHOICES]
        tried = [(clock, _solve(clock, group, timelines, neighbours, machines)) for clock in choices]
        _, best = max(tried, key=lambda each: (each[1].agreeing, -each[1].hidden, each[0] in preferred))
        if ledger is not None:
            best.follow(ledger, of_ledger)
        found |= best.of
    return found


def _connected(neighbours: Sequence[Sequence[Pair]]) -> Iterator[list[int]]:
    """The clocks in groups that pairs connect; those without any are in none."""
    seen: set[int] = set()
    for first, pairs in enumerate(neighbours):
        if first in seen or not pairs:
            continue
        group, ahead = [], [first]
        seen.add(first)
        while ahead:
            clock = ahead.pop()
            group.append(clock)
            for pair in neighbours[clock]:
                for other in (pair.reason.clock, pair.effect.clock):
                    if other not in seen:
                        seen.add(other)
                        ahead.append(other)
        yield sorted(group)


def _solve(
    right: int,
    group: Sequence[int],
    timelines: Sequence[Timeline],
    neighbours: Sequence[Sequence[Pair]],
    machines: Sequence[str],
) -> Courses:
    """The courses of a group of clocks, of which one is right."""
    courses = Courses(timelines, neighbours)
    n = len(timelines[right][0])
    courses.set(right, [Piece(begin=0, end=n, ahead_ms=0.0, unsure_ms=0.0, sure=(0, n - 1))])
    left = {clock: _Known() for clock in group if clock != right}
    clock, of_machine, unsure = right, {machines[right]: [0.0]}, dict[int, float]()
    while left:
        for pair in neighbours[clock]:
            other = pair.effect.clock if pair.reason.clock == clock else pair.reason.clock
            if other in left and courses.is_sure(pair, other):
                left[other].take(courses.bound(pair, other))
        clock = min(left, key=lambda each: (left[each].rank, each))
        others = of_machine.setdefault(machines[clock], [0.0])
        courses.set(clock, course_of(timelines[clock][1], courses.bounds(clock), others[-1]))
        if not courses.is_all_sure(clock):
            unsure[clock] = others[-1]
        others.append(courses.of[clock][-1].ahead_ms)
        del left[clock]
    for clock, before_ms in unsure.items():  # what lies behind a pause may have pairs with clocks that came later
        courses.set(clock, course_of(timelines[clock][1], courses.bounds(clock), before_ms))
    return courses


class _Known:
    """How exactly one offset of a clock is known so far."""

    __slots__ = ("least_ms", "most_ms")

    def __init__(self) -> None:
        self.least_ms, self.most_ms = -math.inf, math.inf

    def take(self, bound: Bound) -> None:
        if bound.is_least:
            self.least_ms = max(self.least_ms, bound.ms)
        else:
            self.most_ms = min(self.most_ms, bound.ms)

    @property
    def rank(self) -> tuple[bool, float]:
        """Whether nothing is known, and then the width; bounds that contradict each other come late."""
        width_ms = self.most_ms - self.least_ms
        is_unknown = math.isinf(self.least_ms) and math.isinf(self.most_ms)
        return is_unknown, width_ms if width_ms >= 0 else math.inf
