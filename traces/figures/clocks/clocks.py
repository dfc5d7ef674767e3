"""The clocks of a trace: reads its events once, and then corrects the time of each event. Pure.

    reader = ClockReader()
    for event in events:                 # in any order
        reader.read(event)
    clocks = reader.finish()
    clocks.faults                        the clock of c1 was 2.0 s ahead
    clocks.correct(event)                the event, with the time that a right clock would have shown
    clocks.uncertainty("c1", t_ms)       "" or why the right time of c1 is unknown at that time

The process that runs the load writes the lines of a ledger with its clock; if there is a ledger, this clock is taken as
right. After the correction no event is before its reason, or before an earlier event of its node. A trace with right
clocks is not changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from model.events import Event
from model.limits import RUN_SEQS
from traces.figures.clocks.course import SET_BACK_MS, VAGUE_MS, Piece, compute_course, is_set, set_between_runs
from traces.figures.clocks.pairs import Pair, PairFinder, Point
from traces.figures.clocks.solve import Timeline, compute_courses, is_consistent

REPORTED_MS = 1_000.0
"""A smaller error is corrected and not reported: without NTP, the clocks of two machines soon differ by more."""
HARMLESS_MS = 2_000.0
"""A constant offset below this never makes an answer unknown, even if the offset is vague."""
STRAY_MS = 60_000.0
"""Events further than this from the times of all other nodes, and from the next own event, have a wrong clock."""
AFTER_MS = 0.001
"""Minimum delay of an effect after its reason, because events with equal times are sorted by the node's name."""
ROUNDS = 8
"""Maximum number of rounds over the pairs that order the last milliseconds; two or three are usually enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFault:
    """A clock that was wrong.

    Attributes:
        ahead_ms: how far it was ahead, negative if it was behind; the largest value if it changed.
        is_set: whether it was set during the trace.
        is_corrected: whether all of its events have their right times.
    """

    node: str
    ahead_ms: float
    is_set: bool = False
    is_corrected: bool = True

    def __str__(self) -> str:
        return f"the clock of {self.node} {'was' if self.is_set else 'is'} {describe_offset(self.ahead_ms)}"


def describe_offset(ahead_ms: float) -> str:
    """Describe the error of a clock: `2 s ahead`."""
    seconds = abs(ahead_ms) / 1000
    text = f"{seconds:,.1f} s" if seconds < 10 else f"{seconds:,.0f} s"
    if seconds >= 7_200:
        text = f"{seconds / 3_600:,.1f} h"
    return f"{text.replace('.0 ', ' ')} {'ahead' if ahead_ms > 0 else 'behind'}"


@dataclass(frozen=True, slots=True)
class _UncertainPeriod:
    from_ms: float
    to_ms: float
    why: str


class Clocks:
    """The clocks of a trace: their errors, and corrected times."""

    def __init__(self) -> None:
        self.faults: tuple[ClockFault, ...] = ()
        self._right: dict[tuple[str, int], tuple[Sequence[int], Sequence[float], Sequence[float]]] = {}
        self._doubts: dict[str, list[_UncertainPeriod]] = {}
        self._corrected: dict[str, tuple[str, float]] = {}  # node -> its error, and how exactly it is known

    @property
    def unknown(self) -> str:
        """Why answers about the order of events are uncertain; "" if every clock is right, or corrected."""
        return next((str(fault) for fault in self.faults if not fault.is_corrected), "")

    @property
    def are_right(self) -> bool:
        """Whether no event needs a correction."""
        return not self._right

    def correct(self, event: Event) -> Event:
        """Return the event with its right time."""
        right_ms = self.right_ms(event.node, event.seq, event.t_ms)
        return event if right_ms == event.t_ms else event._replace(t_ms=right_ms)

    def right_ms(self, node: str, seq: int, t_ms: float) -> float:
        """Return the right time of an event of a node with this number and this time."""
        timeline = self._right.get((node, seq // RUN_SEQS))
        if timeline is None:
            return t_ms
        seqs, times, right = timeline
        index = min(bisect_left(seqs, seq), len(seqs) - 1)
        return right[index] if seqs[index] == seq else t_ms - (times[index] - right[index])

    def ledger_uncertainty(self, node: str, apart_ms: float = 0.0) -> str:
        """Return why an event of a node and a line of a ledger, `apart_ms` apart, may have happened in the other order.

        Corrected times are exact to some milliseconds, and keep the order of reasons and effects. The lines of a ledger
        have no such order: their distance from the events of a node is only known as exactly as the few pairs of the
        ledger allow.
        """
        why, unsure_ms = self._corrected.get(node, ("", 0.0))
        return why if apart_ms <= unsure_ms else ""

    def uncertainty(self, node: str, t_ms: float) -> str:
        """Return why an event of a node with this corrected time may have another right time, or ""."""
        return next((each.why for each in self._doubts.get(node, ()) if each.from_ms <= t_ms <= each.to_ms), "")


def find_clocks(events: Iterable[Event]) -> Clocks:
    """Determine the clocks of these events."""
    reader = ClockReader()
    for event in events:
        reader.read(event)
    return reader.finish()


RIGHT_CLOCKS = Clocks()
"""Clocks of a history that needs no correction, for instance of a simulation, which has the true times."""


class ClockReader:
    """Reads the events of a trace, in any order; an event may occur several times."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._timelines: list[tuple[array[int], array[float]]] = []
        self._brokers: set[int] = set()
        self._ledger: int | None = None
        self._pairs = PairFinder()

    def read(self, event: Event) -> None:
        """Read an event, or a line of a ledger; lines have no numbers, and are ordered by their times."""
        if event.seq < 0:
            self._read_line(event)
            return
        key = (event.node, event.seq // RUN_SEQS)
        clock = self._numbers.get(key)
        if clock is None:
            clock = self._numbers[key] = len(self._timelines)
            self._timelines.append((array("q"), array("d")))
        seqs, times = self._timelines[clock]
        seqs.append(event.seq)
        times.append(event.t_ms)
        if event.node == event.broker:
            self._brokers.add(clock)
        self._pairs.read(event, clock)

    def _read_line(self, line: Event) -> None:
        clock = self._ledger
        if clock is None:
            clock = self._ledger = len(self._timelines)
            self._numbers[line.node, -1] = clock
            self._timelines.append((array("q"), array("d")))
        seqs, times = self._timelines[clock]
        number = round(line.t_ms * 1000)  # not the line number: several ledgers are read one after the other
        seqs.append(number)
        times.append(line.t_ms)
        self._pairs.read_line(line, Point(clock, number, line.t_ms))

    def _runs(self, timelines: Sequence[Timeline]) -> Iterator[Pair]:
        """Yield pairs of a broker's runs: the last event of a run is before the first of the next."""
        runs = sorted(key for key, clock in self._numbers.items() if clock in self._brokers)
        for (node, run), (next_node, next_run) in pairwise(runs):
            if node == next_node:
                this_clock, next_clock = self._numbers[node, run], self._numbers[next_node, next_run]
                last = Point(this_clock, timelines[this_clock][0][-1], timelines[this_clock][1][-1])
                yield Pair(last, Point(next_clock, timelines[next_clock][0][0], timelines[next_clock][1][0]))

    def finish(self) -> Clocks:
        """Determine the clocks from the events; call it once."""
        clocks = Clocks()
        pairs = self._pairs.finish()
        timelines = [_in_order(*timeline) for timeline in self._timelines]
        pairs += self._runs(timelines)
        if is_consistent(pairs) and not any(map(_clock_was_set_back, timelines)):
            return clocks
        machines = [node.partition("@")[0] for node, _ in self._numbers]
        courses = compute_courses(timelines, pairs, machines, self._brokers, self._ledger)
        for clock, timeline in enumerate(timelines):
            if clock not in courses and _clock_was_set_back(timeline):
                courses[clock] = compute_course(timeline[1], [])
        right = _right_times(timelines, courses, pairs, self._ledger)
        strays = _place_strays(timelines, courses, right)
        begins_ms = [right.get(clock, times)[0] for clock, (_, times) in enumerate(timelines)]
        were_set = set_between_runs(machines, courses, begins_ms)
        right.pop(-1 if self._ledger is None else self._ledger, None)
        for (node, run), clock in self._numbers.items():
            seqs, times = timelines[clock]
            if clock in right:
                clocks._right[node, run] = (seqs, times, right[clock])
                farthest = max(courses.get(clock, []), key=lambda piece: abs(piece.ahead_ms), default=None)
                if farthest is not None and farthest.ahead_ms:
                    unsure_ms = max(piece.unsure_ms for piece in courses[clock])
                    unsure_ms = max(unsure_ms, clocks._corrected.get(node, ("", 0.0))[1])
                    clocks._corrected[node] = (str(ClockFault(node=node, ahead_ms=farthest.ahead_ms)), unsure_ms)
            if clock in courses:
                was_set = machines[clock] in were_set or is_set(courses[clock])
                doubts = _uncertain_periods(
                    node, courses[clock], right.get(clock, times), strays.get(clock, ()), was_set
                )
                if doubts:
                    clocks._doubts.setdefault(node, []).extend(doubts)
        faults = [
            fault
            for (node, _), clock in sorted(self._numbers.items())
            if clock in courses and (fault := _fault_of(node, courses[clock])) is not None
        ]
        clocks.faults = tuple(
            {fault.node: fault for fault in sorted(faults, key=lambda each: abs(each.ahead_ms))}.values()
        )
        return clocks


def _in_order(seqs: Sequence[int], times: Sequence[float]) -> Timeline:
    """Sort a timeline by number, without duplicates: queues are read in parallel, and a node may send twice."""
    if all(this_seq < next_seq for this_seq, next_seq in pairwise(seqs)):
        return seqs, times
    first: dict[int, float] = {}
    for seq, t_ms in zip(seqs, times, strict=True):
        first.setdefault(seq, t_ms)
    ordered = sorted(first.items())
    return array("q", [seq for seq, _ in ordered]), array("d", [t_ms for _, t_ms in ordered])


def _clock_was_set_back(timeline: Timeline) -> bool:
    return any(next_ms < time_ms - SET_BACK_MS for time_ms, next_ms in pairwise(timeline[1]))


def _right_times(
    timelines: Sequence[Timeline], courses: Mapping[int, Sequence[Piece]], pairs: Sequence[Pair], fixed: int | None
) -> dict[int, array[float]]:
    """Compute the right times of the events of each wrong clock; the clock `fixed` is never corrected."""
    right: dict[int, array[float]] = {}
    for clock, pieces in courses.items():
        times = timelines[clock][1]
        if any(piece.ahead_ms for piece in pieces):
            shifted = array("d", times)
            for piece in pieces:
                for index in range(piece.begin, piece.end):
                    shifted[index] -= piece.ahead_ms
            for index in range(len(shifted) - 2, -1, -1):  # where two pieces meet, times may overlap by milliseconds
                shifted[index] = min(shifted[index], shifted[index + 1])
            right[clock] = shifted
    for _ in range(ROUNDS):
        if not _order_effects(timelines, pairs, right, fixed):
            break
    return right


def _order_effects(
    timelines: Sequence[Timeline], pairs: Sequence[Pair], right: dict[int, array[float]], fixed: int | None
) -> bool:
    """Delay effects that are slightly before their reasons; returns whether there were any."""
    has_moved = False
    for reason, effect in pairs:
        reason_times, effect_times = right.get(reason.clock), right.get(effect.clock)
        if reason_times is None and effect_times is None:
            continue
        seqs, times = timelines[effect.clock]
        index = bisect_left(seqs, effect.seq)
        reason_ms = (
            reason.t_ms if reason_times is None else reason_times[bisect_left(timelines[reason.clock][0], reason.seq)]
        )
        late_ms = reason_ms + AFTER_MS - (times if effect_times is None else effect_times)[index]
        if 0 < late_ms <= VAGUE_MS and effect.clock != fixed:
            has_moved = True
            _delay(right.setdefault(effect.clock, array("d", times)), index, reason_ms + AFTER_MS)
    return has_moved


def _place_strays(
    timelines: Sequence[Timeline], courses: dict[int, list[Piece]], right: dict[int, array[float]]
) -> dict[int, list[tuple[int, int]]]:
    """Move events that are far from the events of all other nodes into the time range of these.

    They may be all events of a clock that no pair connects with another clock, for instance of a producer; or the
    events after a clock was set, if no pair shows the step. Moved events are never the first or last of the history.
    Returns their places.
    """
    spans = {clock: right.get(clock, timelines[clock][1]) for clock in courses}
    firsts = sorted((times[0], clock) for clock, times in spans.items())[:2]
    lasts = sorted(((times[-1], clock) for clock, times in spans.items()), reverse=True)[:2]
    strays: dict[int, list[tuple[int, int]]] = {}
    for clock, (_, times) in enumerate(timelines):
        own_times = right.get(clock, times)
        begin_ms = next((ms for ms, other in firsts if other != clock), own_times[0])
        end_ms = next((ms for ms, other in lasts if other != clock), own_times[-1])
        head, tail = _stray_head(own_times, begin_ms), _stray_tail(own_times, end_ms)
        if not head and tail == len(own_times):
            continue
        moved = right.setdefault(clock, array("d", own_times))
        late_ms, early_ms = own_times[-1] - end_ms, begin_ms - own_times[0]
        for index in range(tail, len(own_times)):
            moved[index] -= late_ms
        for index in range(min(head, tail)):
            moved[index] += early_ms
        if clock not in courses:
            ahead_ms = late_ms if tail < len(own_times) else -early_ms
            courses[clock] = [Piece(begin=0, end=len(own_times), ahead_ms=ahead_ms)]
        for index in range(len(moved) - 2, -1, -1):
            moved[index] = min(moved[index], moved[index + 1])
        strays[clock] = [(first, end) for first, end in ((0, head), (tail, len(own_times))) if first < end]
    return strays


def _stray_head(times: Sequence[float], begin_ms: float) -> int:
    """Return how many of the first events are far before a time, and far from the event after them."""
    if times[0] >= begin_ms - STRAY_MS:
        return 0
    ends = (index for index in range(1, len(times)) if times[index] - times[index - 1] > STRAY_MS)
    return next(
        (index for index in ends if times[index] >= begin_ms - STRAY_MS), len(times) * (times[-1] < begin_ms - STRAY_MS)
    )


def _stray_tail(times: Sequence[float], end_ms: float) -> int:
    """Return the place from which on events are far after a time, and far from the event before them."""
    if times[-1] <= end_ms + STRAY_MS:
        return len(times)
    if times[0] > end_ms + STRAY_MS:
        return 0
    begins = (index for index in range(len(times) - 1, 0, -1) if times[index] - times[index - 1] > STRAY_MS)
    return next((index for index in begins if times[index - 1] <= end_ms + STRAY_MS), len(times))


def _delay(times: array[float], index: int, until_ms: float) -> None:
    """Delay an event until after its reason, and with it the later events of its node."""
    while index < len(times) and times[index] < until_ms:
        times[index] = until_ms
        index += 1


def _fault_of(node: str, pieces: Sequence[Piece]) -> ClockFault | None:
    """Return the fault of a clock with this course; None if the clock is right, or nearly."""
    farthest = max(pieces, key=lambda piece: abs(piece.ahead_ms))
    is_vague = any(piece.is_vague and abs(piece.ahead_ms) >= HARMLESS_MS for piece in pieces)
    is_vague = is_vague or not all(piece.is_placed for piece in pieces)
    if abs(farthest.ahead_ms) < REPORTED_MS and not is_vague:
        return None
    return ClockFault(node=node, ahead_ms=farthest.ahead_ms, is_set=is_set(pieces), is_corrected=not is_vague)


def _uncertain_ranges(
    pieces: Sequence[Piece], strays: Sequence[tuple[int, int]], was_set: bool
) -> Iterator[tuple[int, int, Piece]]:
    """Yield the ranges of events whose right times are uncertain, as first and end, with the nearest piece."""
    for first, end in strays:
        yield first, end, pieces[0]
    for piece in pieces:
        if piece.is_vague:
            yield piece.begin, piece.end, piece
        if piece.sure[0] <= piece.sure[1]:
            yield piece.begin, piece.sure[0], piece
            yield piece.sure[1] + 1, piece.end, piece
    if was_set:
        known_until = 0
        for piece in pieces:
            first, last = piece.known
            if first <= last:
                yield known_until, first, piece
                known_until = last + 1
        yield known_until, pieces[-1].end, pieces[-1]


def _uncertain_periods(
    node: str, pieces: Sequence[Piece], right: Sequence[float], strays: Sequence[tuple[int, int]], was_set: bool
) -> list[_UncertainPeriod]:
    """Return the periods in which the right times of a clock are uncertain."""
    farthest = max(pieces, key=lambda piece: abs(piece.ahead_ms))
    periods = []
    for first, end, piece in _uncertain_ranges(pieces, strays, was_set):
        if first < end:
            reported = piece if abs(piece.ahead_ms) >= REPORTED_MS else farthest
            why = str(ClockFault(node=node, ahead_ms=reported.ahead_ms, is_set=was_set))
            if abs(reported.ahead_ms) < REPORTED_MS:
                why = f"the clock of {node} may have been set in between"
            periods.append(_UncertainPeriod(right[first], right[end - 1], why))
    return periods
