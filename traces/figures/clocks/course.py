"""The course of one clock: its offset from its first event to its last. Pure.

The clock shows `t = true + ahead`. An effect of its event, on a right clock, gives a lower bound of `ahead`; the reason
of its event, on a right clock, gives an upper bound. While one value satisfies all bounds, the clock has that offset;
where no value does, the clock was set or drifts, and another piece of the course begins.

    c1 drops q0 at 12:00:02.000, b releases it at 12:00:00.002       ahead is at least 1,998 ms
    b grants q1 at 12:00:05.000, c1 acquires it at 12:00:07.003      and at most 2,003 ms: the middle is 2,000 ms
    b grants q2 at 12:00:09.000, c1 acquires it at 12:00:09.004      at most 4 ms: c1's clock was set back in between

A piece begins where the clock went back, or at the longest pause of the node, because a clock that is set forward looks
like a pause.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

SLACK_MS = 20.0
"""Bounds may contradict each other by this much, because the times of the other clocks are not known more exactly."""
SET_BACK_MS = 100.0
"""A clock that goes back by less is adjusted smoothly, for instance by NTP, which needs no new piece."""
VAGUE_MS = 1_000.0
"""An offset with a larger uncertainty is vague, and no sound correction; so is a larger step at an unknown place."""

LONG_PAUSE_MS = 30_000.0
"""A longer pause of a node may be a clock that was set forward: even idle members run a pass every 20 s."""


class Bound(NamedTuple):
    """At the event with index `at`, the clock is ahead by at least or at most `ms`."""

    at: int
    ms: float
    is_least: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The events with index `begin` to `end` - 1, in which the clock is `ahead_ms` ahead.

    Attributes:
        is_vague: the offset is not known to `VAGUE_MS`.
        is_placed: whether its beginning is certain, or the step there is small.
        known: the index of its first and of its last bound; events before and after them have this offset for certain
            only if the clock is never set.
        unsure_ms: maximum error of `ahead_ms`, infinite if there are bounds on one side only.
        sure: the first and the last index between which no long pause can hide that the clock was set forward.
        bounds: the bounds that the offset satisfies, by index.
    """

    begin: int
    end: int
    ahead_ms: float
    is_vague: bool = False
    is_placed: bool = True
    known: tuple[int, int] = (0, -1)
    unsure_ms: float = math.inf
    sure: tuple[int, int] = (0, -1)
    bounds: Sequence[Bound] = field(default=(), compare=False)

    def known_beside(self, ahead_ms: float, *, is_next: bool) -> Piece:
        """Return this piece, given that the clock has the offset `ahead_ms` in the next or previous run of its machine.

        The clock was set in one of the two runs: after the last bound that excludes the other offset, or before the
        first.
        """
        excluding = [
            bound.at
            for bound in self.bounds
            if (bound.ms > ahead_ms + SLACK_MS if bound.is_least else bound.ms < ahead_ms - SLACK_MS)
        ]
        first, last = self.known
        if is_next:
            return replace(self, known=(first, min(last, max(excluding, default=-1))))
        return replace(self, known=(max(first, min(excluding, default=self.end)), last))


@dataclass(slots=True)
class _Span:
    """Bounds that a single offset satisfies."""

    bounds: list[Bound]
    least_ms: float = -math.inf
    most_ms: float = math.inf

    def takes(self, bound: Bound) -> bool:
        """Whether an offset within this span satisfies one more bound."""
        if bound.is_least:
            return bound.ms <= self.most_ms + SLACK_MS
        return bound.ms >= self.least_ms - SLACK_MS

    def add(self, bound: Bound) -> None:
        self.bounds.append(bound)
        if bound.is_least:
            self.least_ms = max(self.least_ms, bound.ms)
        else:
            self.most_ms = min(self.most_ms, bound.ms)

    def offset(self, *likely: float) -> tuple[float, bool]:
        """Return the offset (the first possible value of `likely`, else the middle), and whether it is vague."""
        for likely_ms in likely:
            if self.least_ms <= likely_ms <= self.most_ms:
                return likely_ms, False
        if math.isinf(self.most_ms):
            return self.least_ms, True
        if math.isinf(self.least_ms):
            return self.most_ms, True
        return (self.least_ms + self.most_ms) / 2, self.most_ms - self.least_ms > VAGUE_MS


def compute_course(times: Sequence[float], bounds: Sequence[Bound], before_ms: float = 0.0) -> list[Piece]:
    """Return the pieces of a clock that wrote events at these times, in the order of their numbers.

    `before_ms` is the earlier offset of the same machine.
    """
    pieces: list[Piece] = []
    ordered = sorted(bounds)
    begin = n = 0
    for end in _ends(times):
        until = n
        while until < len(ordered) and ordered[until].at < end:
            until += 1
        if begin:
            # The clock was set back by at least this much: it shows an earlier time than at the event before.
            before_ms -= times[begin - 1] - times[begin]
        section = _section(times, begin, end, ordered[n:until], before_ms)
        pieces += section
        before_ms = section[-1].ahead_ms
        begin, n = end, until
    return pieces


def _ends(times: Sequence[float]) -> Iterator[int]:
    """Yield the indexes at which the clock went back, and the end."""
    yield from (index for index in range(1, len(times)) if times[index] < times[index - 1] - SET_BACK_MS)
    yield len(times)


def _section(times: Sequence[float], begin: int, end: int, bounds: Sequence[Bound], before_ms: float) -> list[Piece]:
    """Return the pieces between two events at which the clock visibly went back."""
    spans = _spans(bounds)
    if not spans:
        return [Piece(begin=begin, end=end, ahead_ms=before_ms, is_vague=begin > 0)]
    pieces: list[Piece] = []
    for number, span in enumerate(spans):
        # A machine keeps its offset until its clock is set, and then the clock is most likely right.
        likely = (0.0, before_ms) if begin or number else (before_ms, 0.0)
        ahead_ms, is_vague = span.offset(*likely)
        start, is_placed = begin, True
        if number:
            first, last = _change(spans[number - 1], span)
            start, is_placed = _place(times, first, last, ahead_ms - before_ms)
            known_range = pieces[-1].known
            pieces[-1] = replace(pieces[-1], end=start, known=(known_range[0], min(known_range[1], first - 1)))
        pieces.append(
            Piece(
                begin=start,
                end=end,
                ahead_ms=ahead_ms,
                is_vague=is_vague,
                is_placed=is_placed,
                known=(span.bounds[0].at, span.bounds[-1].at),
                unsure_ms=SLACK_MS + max(span.most_ms - ahead_ms, ahead_ms - span.least_ms),
                bounds=span.bounds,
            )
        )
        before_ms = ahead_ms
    return [replace(piece, sure=_sure(times, piece, span.bounds)) for piece, span in zip(pieces, spans, strict=True)]


def _sure(times: Sequence[float], piece: Piece, bounds: Sequence[Bound]) -> tuple[int, int]:
    """Return the first and last index of a piece that no long pause separates from its bounds.

    Before a step forward the clock is less ahead, which only a lower bound excludes; after it the clock is further
    ahead, which only an upper bound excludes. A bound that is far from the offset excludes neither.
    """
    near = [bound for bound in bounds if abs(bound.ms - piece.ahead_ms) <= LONG_PAUSE_MS] or bounds
    first = min((bound.at for bound in near if bound.is_least), default=near[0].at)
    last = max((bound.at for bound in near if not bound.is_least), default=near[-1].at)
    first, last = min(first, last), max(first, last)
    while first > piece.begin and times[first] - times[first - 1] <= LONG_PAUSE_MS:
        first -= 1
    while last + 1 < piece.end and times[last + 1] - times[last] <= LONG_PAUSE_MS:
        last += 1
    return first, last


def _spans(bounds: Sequence[Bound]) -> list[_Span]:
    """Divide the bounds into the fewest spans that each satisfy their bounds."""
    spans: list[_Span] = []
    for bound in bounds:
        if not spans or not spans[-1].takes(bound):
            spans.append(_Span([]))
        spans[-1].add(bound)
    return spans


def _change(left: _Span, right: _Span) -> tuple[int, int]:
    """Return the indexes between which span `right` begins: after the last bound that only `left` satisfies."""
    last = right.bounds[0].at
    first = left.bounds[0].at + 1
    for bound in reversed(left.bounds):
        if not right.takes(bound):
            first = bound.at + 1
            break
    return min(first, last), last


def _place(times: Sequence[float], first: int, last: int, step_ms: float) -> tuple[int, bool]:
    """Return the index at which the clock was set by `step_ms`, and whether that is certain enough."""
    pauses = {index: times[index] - times[index - 1] for index in range(first, last + 1)}
    position = max(pauses, key=lambda index: (pauses[index], index))
    possible = [index for index, pause_ms in pauses.items() if pause_ms >= step_ms - SLACK_MS]
    return position, abs(step_ms) <= VAGUE_MS or len(possible) == 1 or len(pauses) == 1


def is_set(pieces: Sequence[Piece]) -> bool:
    """Whether a clock was set during its course."""
    return any(
        abs(next_piece.ahead_ms - this_piece.ahead_ms) > SET_BACK_MS for this_piece, next_piece in pairwise(pieces)
    )


def set_between_runs(
    machines: Sequence[str], courses: Mapping[int, list[Piece]], begins_ms: Sequence[float]
) -> dict[str, None]:
    """Return the machines whose clocks were set between two runs; the exact time of the step is unknown."""
    last: dict[str, int] = {}
    set_machines: dict[str, None] = {}
    for clock in sorted(courses, key=lambda each: begins_ms[each]):
        old_clock = last.get(machines[clock])
        last[machines[clock]] = clock
        if old_clock is None:
            continue
        end, begin = courses[old_clock][-1], courses[clock][0]
        if abs(begin.ahead_ms - end.ahead_ms) > SET_BACK_MS:
            set_machines[machines[clock]] = None
            courses[old_clock][-1] = end.known_beside(begin.ahead_ms, is_next=True)
            courses[clock][0] = begin.known_beside(end.ahead_ms, is_next=False)
    return set_machines
