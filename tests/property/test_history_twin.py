"""The history check against a twin that looks at all pairs of events, on random small histories."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from traces.check.check import HistoryCheck
from traces.check.ledger import LedgerKind, SentMessage, dispatched_line, ended_line, failed_line, sent_line
from traces.check.limits import HistoryLimits
from traces.check.verdict import Rule

E = EventKind
QUEUE = MessageQueue("t", "b", 0)
CLIENTS = st.sampled_from(["c1", "c2", "c3"])
OF_OWNERS = st.sampled_from([E.LOCK_GRANTED, E.LOCK_EXPIRED, E.QUEUE_RELEASED, E.QUEUE_ACQUIRED, E.QUEUE_DROPPED])
OF_QUEUE = st.sampled_from(
    [
        E.LOCK_GRANTED,
        E.QUEUE_RELEASED,
        E.LOCK_EXPIRED,
        E.QUEUE_ACQUIRED,
        E.QUEUE_DROPPED,
        E.MESSAGES_HANDED_OUT,
        E.OFFSET_COMMITTED,
        E.OFFSET_RESET,
    ]
)
LEDGER = st.sampled_from(LedgerKind)
OWNED = (E.QUEUE_ACQUIRED, E.MESSAGES_HANDED_OUT)
ENDS = (E.QUEUE_DROPPED, E.LOCK_EXPIRED, E.QUEUE_RELEASED)


def found_by_check(events: Sequence[Event], orphan_ms: float = 1e9) -> set[Rule]:
    check = HistoryCheck(HistoryLimits(complete=True, all_consumed=True, double_owner_ms=1e9, orphan_ms=orphan_ms))
    for event in events:
        check.feed(event)
    return {anomaly.rule for anomaly in check.finish().anomalies}


# --- events of one queue ---------------------------------------------------------------------------------------------


@st.composite
def queue_histories(draw: st.DrawFn, kinds: st.SearchStrategy[EventKind] = OF_QUEUE) -> list[Event]:
    return queue_history(draw(st.lists(st.tuples(kinds, CLIENTS, st.integers(0, 5)), max_size=12)))


def queue_history(steps: Sequence[tuple[str, str, int]]) -> list[Event]:
    return [
        Event(float(t), "n", t + 1, kind, "n/1", "g", "t", "b", 0, client, 7, offset, 0)
        for t, (kind, client, offset) in enumerate(steps)
    ]


def committed_before(events: Sequence[Event], j: int) -> int:
    known = [event.offset for event in events[:j] if event.kind in (E.OFFSET_COMMITTED, E.OFFSET_RESET)]
    return known[-1] if known else -1


def reach_before(events: Sequence[Event], j: int) -> int:
    """How far owners have told since the last reset, which sets it."""
    resets = [i for i, event in enumerate(events[:j]) if event.kind == E.OFFSET_RESET]
    since = resets[-1] if resets else 0
    reported = [event.offset for event in events[since:j] if event.kind in (*OWNED, E.OFFSET_RESET)]
    return max(reported, default=-1)


def owns_before(events: Sequence[Event], j: int, client: str) -> bool:
    own_rows = [
        event.kind for event in events[:j] if event.client == client and event.kind in (E.QUEUE_ACQUIRED, *ENDS)
    ]
    return bool(own_rows) and own_rows[-1] == E.QUEUE_ACQUIRED


def twin_of_queue(events: Sequence[Event]) -> set[Rule]:
    broken = set()
    for j, event in enumerate(events):
        committed = committed_before(events, j)
        if event.kind == E.LOCK_GRANTED:
            grants = [i for i in range(j) if events[i].kind == E.LOCK_GRANTED]
            if grants and events[grants[-1]].client != event.client:
                holder = events[grants[-1]].client
                freed = (E.QUEUE_RELEASED, E.LOCK_EXPIRED)
                if not any(each.kind in freed and each.client == holder for each in events[grants[-1] : j]):
                    broken.add(Rule.DOUBLE_OWNER)
        elif event.kind == E.OFFSET_COMMITTED and event.offset < committed:
            broken.add(Rule.NONMONOTONIC_COMMIT)
        elif event.kind == E.MESSAGES_HANDED_OUT and owns_before(events, j, event.client):
            if event.offset < committed:
                broken.add(Rule.NONMONOTONIC_POLL)
        elif event.kind == E.QUEUE_ACQUIRED:
            known = max(reach_before(events, j), committed)
            if 0 <= known < event.offset:
                broken.add(Rule.POLL_SKIP)
            elif event.offset < committed:
                broken.add(Rule.DUPLICATE)
    return broken


@given(queue_histories())
def test_of_one_queue_the_check_finds_what_its_twin_finds(events: list[Event]) -> None:
    judged = {
        Rule.DOUBLE_OWNER,
        Rule.NONMONOTONIC_COMMIT,
        Rule.NONMONOTONIC_POLL,
        Rule.POLL_SKIP,
        Rule.DUPLICATE,
    }
    assert found_by_check(events) & judged == twin_of_queue(events)


def is_owner(events: Sequence[Event], client: str) -> bool:
    """Whether a client owns the queue after these events: it has acquired it, and has the lease."""
    claimed = leased = is_known = is_over = False
    for event in events:
        acquired = event.kind == E.QUEUE_ACQUIRED and not is_over
        if event.client == client:
            claimed = acquired or (claimed and event.kind not in (E.QUEUE_DROPPED, E.QUEUE_RELEASED))
            leased = claimed and (leased or acquired or event.kind == E.LOCK_GRANTED)
            leased = leased and event.kind != E.LOCK_EXPIRED
        # All leases have one token here: once one is over, it takes a grant to acquire the queue.
        is_known = is_known or event.kind in (E.QUEUE_ACQUIRED, E.LOCK_GRANTED)
        is_over = is_known and event.kind != E.LOCK_GRANTED and (is_over or event.kind in ENDS[1:])
    return leased


def longest_orphan(events: Sequence[Event]) -> int:
    """The longest time between an owner and the next one, or the end; an event happens at each time from 0."""
    owned = [any(is_owner(events[: t + 1], client) for client in ("c1", "c2", "c3")) for t in range(len(events))]
    begins = owned.index(True) if True in owned else len(owned)
    gaps = "".join("x" if each else "." for each in owned[begins:]).split("x")
    return max((len(gap) - (number == len(gaps) - 1) for number, gap in enumerate(gaps) if gap), default=0)


REGAINED = [
    (E.QUEUE_ACQUIRED, "c1", 0),
    (E.LOCK_EXPIRED, "c1", 0),
    (E.LOCK_EXPIRED, "c2", 0),
    (E.LOCK_GRANTED, "c1", 0),
]


@example(queue_history(REGAINED), 1)
@given(queue_histories(OF_OWNERS), st.integers(1, 3))
def test_the_check_finds_the_orphans_that_its_twin_finds(events: list[Event], most_ms: int) -> None:
    assert (Rule.ORPHAN in found_by_check(events, most_ms)) == (longest_orphan(events) > most_ms)


# --- a ledger --------------------------------------------------------------------------------------------------------


@st.composite
def ledgers(draw: st.DrawFn) -> list[Event]:
    """Messages 0 to 5 of one lane at offsets of their own: sent or failed once, dispatched and ended at will."""
    offsets = draw(st.permutations(range(6)))
    steps = draw(st.lists(st.tuples(LEDGER, st.integers(0, 5)), max_size=14))
    lines, answered = [], set()
    for t, (kind, number) in enumerate(steps):
        message, place = SentMessage(0, number), (QUEUE, offsets[number])
        if kind in (LedgerKind.SEND_ACKNOWLEDGED, LedgerKind.SEND_FAILED):
            if number in answered:
                continue
            answered.add(number)
            known = kind is LedgerKind.SEND_ACKNOWLEDGED
            lines.append(sent_line(t, message, *place) if known else failed_line(t, message))
        elif kind is LedgerKind.MESSAGE_DISPATCHED:
            lines.append(dispatched_line(t, "g", "c", message, *place))
        else:
            lines.append(ended_line(t, "g", "c", message, *place))
    return lines


def twin_of_ledger(lines: Sequence[Event]) -> set[Rule]:
    of_kind = {kind: [line for line in lines if line.kind == kind] for kind in LedgerKind}
    sends, calls = of_kind[LedgerKind.SEND_ACKNOWLEDGED], of_kind[LedgerKind.MESSAGE_DISPATCHED]
    answered = {line.n for line in sends + of_kind[LedgerKind.SEND_FAILED]}
    done = {line.n for line in of_kind[LedgerKind.MESSAGE_ENDED]}
    broken = set()
    if (calls or done) and {line.n for line in sends} - done:
        broken.add(Rule.LOST_WRITE)
    if sends and done - answered:
        broken.add(Rule.PHANTOM)
    if any(a.n < b.n and a.offset > b.offset and a.t_ms < b.t_ms for a in sends for b in sends):
        broken.add(Rule.OUT_OF_ORDER)
    for line in sends:
        begun = [call for call in calls if call.offset < line.offset]
        beyond = [call for call in calls if call.offset > line.offset]
        own = [call.t_ms for call in calls if call.offset == line.offset]
        first = min((call.t_ms for call in beyond), default=None)
        # The group had begun below it, and it has not come when it is known that somebody was given a later one.
        if first is not None and any(call.t_ms < first for call in begun):
            known = max(first, line.t_ms)
            if not any(t_ms < known for t_ms in own):
                broken.add(Rule.POLL_SKIP)
    return broken


@given(ledgers())
def test_of_single_messages_the_check_finds_what_its_twin_finds(lines: list[Event]) -> None:
    assert found_by_check(lines) == twin_of_ledger(lines)
