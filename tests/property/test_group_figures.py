"""The figures of a group against a twin that knows the whole history."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from model.events import Event, EventKind
from traces.figures.group import GroupFigures, Row
from traces.figures.loads import needed_moves
from traces.figures.records import Ownership, Rebalance, order_of

E = EventKind
CLIENTS = ("c1", "c2", "c3")
OF_BROKER = (
    *(E.LOCK_GRANTED, E.LOCK_EXPIRED, E.QUEUE_RELEASED),
    *(E.OFFSET_RESET, E.MEMBER_JOIN, E.MEMBER_LEAVE),
)
OF_QUEUE = (
    *(E.QUEUE_ACQUIRED, E.QUEUE_DROPPED, E.LOCK_GRANTED, E.LOCK_EXPIRED, E.QUEUE_RELEASED, E.OFFSET_RESET),
    *(E.FIRST_PULL, E.MESSAGES_HANDED_OUT),
)
OF_MEMBER = (E.CLIENT_START, E.CLIENT_STOP, E.MEMBER_JOIN, E.MEMBER_LEAVE, E.REBALANCE_BEGIN, E.REBALANCE_END)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """What three members and a broker may tell of two queues, in any order: also what never happens."""
    events, t_ms = [], 0
    for seq in range(1, draw(st.integers(2, 40))):
        t_ms += draw(st.integers(0, 4))
        kind, client = draw(st.sampled_from([*OF_QUEUE, *OF_QUEUE, *OF_MEMBER])), draw(st.sampled_from(CLIENTS))
        columns = {"version": draw(st.integers(0, 3))}
        if kind in OF_QUEUE:
            columns |= {"queue_id": draw(st.integers(0, 1)), "offset": draw(st.integers(0, 9))}
            columns |= {"n": draw(st.integers(-1, 5))}
        node = "b" if kind in OF_BROKER else client
        cause = draw(st.sampled_from(["", "c1/1", "b/1", "c2/2"])) or f"{node}/{seq}"
        detail = "t=*" if kind is E.MEMBER_JOIN and draw(st.booleans()) else "x"
        events.append(
            Event(float(t_ms), node, seq, kind, cause, "g", "t", "b", client=client, detail=detail, **columns)
        )
    return sorted(events, key=order_of)


# --- the twin --------------------------------------------------------------------------------------------------------


@dataclass
class Stay:
    """One ownership of the twin, with the places of its events in the history."""

    owner: str
    began: int
    token: int
    start: int
    acquired: bool
    ended: int = 10**9
    over: int = 10**9
    reports: list[tuple[int, int]] = field(default_factory=list)  # place, offset
    served: list[tuple[int, int]] = field(default_factory=list)

    def reach(self) -> int:
        return max([self.start, *(offset for _, offset in self.reports)])


def ended_tokens(events: list[Event], queue_id: int) -> list[int]:
    """Before each event, the newest token of a lease that is over: a member that acquires the queue with it is late."""
    newest, found, is_known = -2, [], False
    for event in events:
        found.append(newest)
        if event.queue_id == queue_id:
            is_known = is_known or event.kind in (E.QUEUE_ACQUIRED, E.LOCK_GRANTED, E.OFFSET_RESET)
            if event.kind in (E.QUEUE_RELEASED, E.LOCK_EXPIRED) and is_known:
                newest = max(newest, event.version)
            elif event.kind == E.LOCK_GRANTED and event.version <= newest:
                newest = event.version - 1
    return found


def stays_of(events: list[Event], queue_id: int) -> list[Stay]:
    stays: list[Stay] = []
    over = ended_tokens(events, queue_id)
    for client in CLIENTS:
        claimed = leased = False
        token, own = -9, None
        for place, event in enumerate(events):
            if (event.client, event.queue_id) != (client, queue_id):
                continue
            before = claimed and leased
            released = event.kind == E.QUEUE_RELEASED and claimed and event.version == token
            if event.kind == E.QUEUE_ACQUIRED and 0 <= event.version <= over[place]:
                continue
            if event.kind == E.QUEUE_ACQUIRED:
                claimed, leased, token = True, True, event.version
            elif event.kind == E.LOCK_GRANTED and claimed:
                leased, token = True, event.version
            elif event.kind == E.LOCK_EXPIRED and event.version == token and claimed:
                leased = False
                if own is not None and event.n >= 0:
                    own.served.append((place, event.offset + event.n))
            elif event.kind == E.QUEUE_DROPPED or released:
                claimed = False
            elif event.kind == E.MESSAGES_HANDED_OUT and own is not None:
                own.reports.append((place, event.offset))
            if claimed and leased and not before:
                if own is not None:
                    own.over = min(own.over, place)
                own = Stay(client, place, event.version, event.offset, event.kind == E.QUEUE_ACQUIRED)
                stays.append(own)
            elif before and not (claimed and leased) and own is not None:
                own.ended = place
            if (event.kind == E.QUEUE_DROPPED or released) and own is not None:
                own.over, own = min(own.over, place), None
    return sorted(stays, key=lambda stay: stay.began)


def again_of(stay: Stay, stays: list[Stay], resets: list[tuple[int, int]]) -> tuple[int, int, int]:
    """Redelivered, duplicates, possible duplicates."""
    if not stay.acquired:
        return 0, 0, 0

    def highest(marks: str) -> int:
        found = [-1]
        last = max((place for place, _ in resets if place < stay.began), default=-1)
        barred = max((token for place, token in resets if place < stay.began), default=-2)
        for other in stays:
            for place, offset in getattr(other, marks) if other.began < stay.began else ():
                if place < stay.began:
                    bar = max((token for at, token in resets if at < place), default=-2)
                    if place > last and other.token > bar:
                        found.append(max(offset, other.start if marks == "reports" else offset))
                elif place < stay.over and other.token > barred:
                    found.append(max(offset, other.start if marks == "reports" else offset))
        return max(found)

    reported, served = highest("reports"), highest("served")
    reach = stay.reach()
    most = max([reach, *(offset for _, offset in stay.served)])
    duplicates = max(0, min(reported, reach) - stay.start)
    return (
        max(0, reported - stay.start),
        duplicates,
        max(0, min(max(reported, served), most) - stay.start) - duplicates,
    )


def wanting_after(events: list[Event]) -> list[bool]:
    """After each event, whether a member wants the topic: one that the broker knows to want something else does not."""
    members: dict[str, bool] = {}
    stopped: set[str] = set()
    wanting = []
    for event in events:
        client, is_known = event.client, event.client in members
        if event.kind == E.CLIENT_START:
            stopped.discard(client)
            members.setdefault(client, True)
        elif event.kind == E.MEMBER_JOIN and client not in stopped:
            members[client] = event.detail == "t=*"
        elif event.kind == E.QUEUE_ACQUIRED and client not in stopped and not is_known:
            members[client] = True
        elif event.kind in (E.CLIENT_STOP, E.MEMBER_LEAVE):
            members.pop(client, None)
            if event.kind == E.CLIENT_STOP:
                stopped.add(client)
        wanting.append(any(members.values()))
    return wanting


def times_of(events: list[Event], stays: list[Stay], end_ms: int) -> tuple[float, float]:
    """Time without an owner and time with two or more, from event to event."""
    orphan = double = 0.0
    times = [*(event.t_ms for event in events[1:]), float(end_ms)]
    for place, (event, until_ms, wanted) in enumerate(zip(events, times, wanting_after(events), strict=True)):
        owners = sum(stay.began <= place < stay.ended for stay in stays)
        had_one = any(stay.began <= place for stay in stays)
        double += (until_ms - event.t_ms) * (owners > 1)
        orphan += (until_ms - event.t_ms) * (had_one and not owners and wanted)
    return orphan, double


# --- the laws --------------------------------------------------------------------------------------------------------


def run(events: list[Event], end_ms: float) -> tuple[GroupFigures, list[Row], dict[str, Any]]:
    figures = GroupFigures("g")
    rows = [row for event in events for row in figures.feed(event)]
    figures.advance(end_ms)
    before = asdict(figures.totals())
    return figures, rows + figures.finish(end_ms), before


@given(histories())
def test_the_figures_are_those_of_a_twin_that_has_the_whole_history_before_it(events: list[Event]) -> None:
    end_ms = int(events[-1].t_ms) + 7
    figures, rows, _ = run(events, end_ms)
    totals = figures.totals()
    orphan = double = moves = 0.0
    again = [0, 0, 0]
    for queue_id in (0, 1):
        stays = stays_of(events, queue_id)
        found = [row for row in rows if isinstance(row, Ownership) and row.queue_id == queue_id]
        found.sort(key=lambda row: (row.from_ms, row.owner))
        twin: list[tuple[Any, ...]] = [
            (
                stay.owner,
                events[stay.began].t_ms,
                events[stay.ended].t_ms if stay.ended < len(events) else end_ms,
                *again_of(stay, stays, [(n, e.version) for n, e in enumerate(events) if is_reset(e, queue_id)]),
            )
            for stay in stays
        ]
        assert sorted(
            (row.owner, row.from_ms, row.to_ms, row.redelivered, row.duplicates, row.possible_duplicates)
            for row in found
        ) == sorted(twin)
        orphan_ms, double_ms = times_of(events, stays, end_ms)
        orphan, double = orphan + orphan_ms, double + double_ms
        owners = [stay.owner for stay in stays if stay.acquired]
        moves += sum(a != b for a, b in itertools.pairwise(["", *owners]))
        again = [again[n] + sum(row[3 + n] for row in twin) for n in range(3)]
    assert (totals.orphan_ms, totals.double_ms, totals.moves) == (orphan, double, moves)
    assert (totals.redelivered, totals.duplicates, totals.possible_duplicates) == (again[0], again[1], again[2])


def is_reset(event: Event, queue_id: int) -> bool:
    return event.kind == E.OFFSET_RESET and event.queue_id == queue_id


@given(histories())
def test_rows_and_totals_agree_and_nothing_is_lost_when_what_is_open_ends(events: list[Event]) -> None:
    figures, rows, before = run(events, 1_000.0)
    totals = asdict(figures.totals())
    assert {name: totals[name] for name in before if name != "orphan_ms"} == {
        name: value for name, value in before.items() if name != "orphan_ms"
    }
    assert abs(totals["orphan_ms"] - before["orphan_ms"]) < 1e-9
    rebalances = [row for row in rows if isinstance(row, Rebalance)]
    owned = [row for row in rows if isinstance(row, Ownership)]
    assert sum(row.moves for row in rebalances) == sum(row.moved for row in owned) == totals["moves"]
    assert sum(row.needed for row in rebalances) == totals["needed"]
    assert len({row.cause for row in rebalances}) == len(rebalances)
    for row in rebalances:
        assert row.needed <= row.moves
        own = [each for each in owned if each.cause == row.cause]
        assert row.moves == sum(each.moved for each in own)
        assert abs(row.orphan_ms - sum(each.orphan_ms for each in own)) < 1e-9
        assert row.duplicates == sum(each.duplicates for each in own)
        assert abs(row.pause_ms - sum(each.pause_ms for each in own)) < 1e-9


loads = st.lists(st.integers(0, 6), max_size=5)


@given(loads, loads)
def test_the_needed_moves_are_the_fewest_over_all_pairings_of_loads(before: list[int], after: list[int]) -> None:
    padded = before + [0] * (len(after) - len(before))
    fewest = min(
        sum(max(0, wanted - had) for had, wanted in zip(order, after, strict=False))
        for order in itertools.permutations(padded)
    )
    assert needed_moves(before, after) == fewest
