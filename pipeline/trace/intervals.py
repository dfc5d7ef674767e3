"""Finds the intervals in which members owned queues, from the events of members and brokers, by columns. Pure.

A *claim* is one member and one queue. Its events are followed in their own order:

    LOCK_GRANTED 7   QUEUE_ACQUIRED 7   FIRST_PULL   HANDED_OUT 34   LOCK_EXPIRED 7   LOCK_GRANTED 8   QUEUE_DROPPED
                     [------------------------ acquired -------------)               [--- resumed ---)

A member owns a queue from QUEUE_ACQUIRED to QUEUE_DROPPED, except from the end of its lease to its next grant. The end
of an older lease changes nothing: each event has the fencing token of its lease.

Spark's own windows would copy ten million rows five times, with their strings, which takes longer than the rest of a
report. Here rows are sorted once, by number, and only those that may begin or end an interval have strings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.events import EventKind

NUMBERS = ("claim", "kind", "t_ms", "by_client", "seq", "version", "offset", "n")
"""Columns of the events. `claim` numbers the pairs of member and queue, `kind` is an index into `KINDS`; `by_client`
is 1 for an event of the member and 0 for one of its broker."""
NAMES = ("group", "topic", "broker", "queue_id", "client")
"""Columns that only a QUEUE_ACQUIRED needs."""
REASONS = ("cause", "detail")
"""Columns that only events of `BOUNDS` need."""
BOUNDS = (EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED, EventKind.LOCK_EXPIRED, EventKind.LOCK_GRANTED)
"""Kinds of events that may begin or end an interval."""
KINDS = (
    *BOUNDS,
    EventKind.FIRST_PULL,
    EventKind.FIRST_MESSAGE,
    EventKind.MESSAGES_HANDED_OUT,
)
SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int64()),
        ("owner", pa.string()),
        ("from_ms", pa.float64()),
        ("to_ms", pa.float64()),
        ("began", pa.string()),
        ("ended", pa.string()),
        ("cause", pa.string()),
        ("end_cause", pa.string()),
        ("token", pa.int64()),
        ("start_offset", pa.int64()),
        ("backlog", pa.int64()),
        ("first_pull_ms", pa.float64()),
        ("first_message_ms", pa.float64()),
        ("handed_out", pa.int64()),
        ("reach", pa.int64()),
    ]
)
"""Columns of the result, explained at `ownership.ownership_of`."""

_Array = np.ndarray[Any, Any]


def intervals_of(events: pa.Table, end_ms: float) -> pa.Table:
    """Find the intervals in the events of some claims; a row each, with `SCHEMA`.

    The events are of `KINDS`, with `NUMBERS`, `NAMES` and `REASONS`, in any order, and complete for each claim. Open
    intervals end with the trace, at `end_ms`.
    """
    if not events.num_rows:
        return SCHEMA.empty_table()
    steps = _Steps(events)
    begins, ends = steps.turns()
    first = np.flatnonzero(begins)
    acquired = steps.latest(steps.is_kind(EventKind.QUEUE_ACQUIRED))[first]
    # The interval that a row belongs to, the one that began last; -1 before the first of its claim.
    interval = np.where(steps.latest(begins) >= 0, np.cumsum(begins) - 1, -1)
    last = np.full(len(first), -1)
    last[interval[ends]] = np.flatnonzero(ends)
    is_open, detail = last < 0, steps.column("detail", last)
    expired = pa.array(steps.is_kind(EventKind.LOCK_EXPIRED)[last])
    # On a reset of offsets the broker ends the lease, usually before the member learns of it and drops the queue.
    ended = pc.if_else(pc.and_(expired, pc.not_equal(detail, "reset")), "expired", detail)
    handed_out, reach = np.zeros(len(first), np.int64), steps.numbers["offset"][first]
    given = np.flatnonzero(steps.is_kind(EventKind.MESSAGES_HANDED_OUT) & (interval >= 0))
    np.add.at(handed_out, interval[given], steps.numbers["n"][given])
    np.maximum.at(reach, interval[given], steps.numbers["offset"][given])
    columns = {
        **{name: steps.column(name, acquired) for name in NAMES},
        "from_ms": steps.numbers["t_ms"][first],
        "to_ms": np.where(is_open, end_ms, steps.numbers["t_ms"][last]),
        "began": pc.if_else(pa.array(steps.is_kind(EventKind.QUEUE_ACQUIRED)[first]), "acquired", "resumed"),
        "ended": pc.if_else(pa.array(is_open), "open", ended),
        "end_cause": pc.if_else(pa.array(is_open), "", steps.column("cause", last)),
        "cause": steps.column("cause", first),
        "token": steps.numbers["version"][first],
        "start_offset": steps.numbers["offset"][first],
        "backlog": steps.backlogs(first),
        "first_pull_ms": steps.first_times(EventKind.FIRST_PULL, interval, len(first)),
        "first_message_ms": steps.first_times(EventKind.FIRST_MESSAGE, interval, len(first)),
        "handed_out": handed_out,
        "reach": reach,
    }
    columns["owner"] = columns.pop("client")
    return pa.Table.from_pydict({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


class _Steps:
    """The events sorted by claim and time; a row is named by its place in that order.

    At equal times events of the broker come first: it grants a lease before the member has it.
    """

    def __init__(self, events: pa.Table) -> None:
        self._events = events = events.combine_chunks()
        numbers = {name: pc.fill_null(events[name], -1).to_numpy() for name in NUMBERS}
        self._order = np.lexsort(tuple(numbers[name] for name in ("seq", "by_client", "t_ms", "claim")))
        self.numbers = {name: values[self._order] for name, values in numbers.items()}
        self._kinds, self._claims = self.numbers["kind"], self.numbers["claim"]
        self._places = np.arange(len(self._order))
        is_first = np.ones(len(self._order), bool)
        is_first[1:] = self._claims[1:] != self._claims[:-1]
        self._first_of_claim = np.maximum.accumulate(np.where(is_first, self._places, 0))

    def is_kind(self, kind: EventKind) -> _Array:
        """Which rows are events of this kind."""
        found: _Array = self._kinds == KINDS.index(kind)
        return found

    def latest(self, wanted: _Array) -> _Array:
        """For each row the latest wanted row of its claim up to there, or -1."""
        latest = np.maximum.accumulate(np.where(wanted, self._places, -1))
        return np.where(latest >= self._first_of_claim, latest, -1)

    def turns(self) -> tuple[_Array, _Array]:
        """Which rows begin an interval, and which end one."""
        version = self.numbers["version"]
        acquired, granted = self.is_kind(EventKind.QUEUE_ACQUIRED), self.is_kind(EventKind.LOCK_GRANTED)
        claimed = self._is(acquired, otherwise=self.is_kind(EventKind.QUEUE_DROPPED))
        lease = self.latest(acquired | granted)
        expired = self.is_kind(EventKind.LOCK_EXPIRED) & (lease >= 0) & (version == version[lease])
        owning = claimed & self._is(acquired | granted, otherwise=expired)
        before = np.zeros_like(owning)
        before[1:] = owning[:-1]
        before &= self._places != self._first_of_claim
        return owning & ~before, before & ~owning

    def _is(self, true: _Array, *, otherwise: _Array) -> _Array:
        """For each row whether the last of either kind was `true`."""
        latest = self.latest(true | otherwise)
        return (latest >= 0) & true[latest]

    def column(self, name: str, rows: _Array) -> pa.Array:
        """A column of some rows; the value for row -1 is meaningless."""
        column = self._events[name].take(pa.array(self._order[rows]))
        return pc.fill_null(column, -1 if name == "queue_id" else "").combine_chunks()

    def first_times(self, kind: EventKind, interval: _Array, intervals: int) -> pa.Array:
        """The time of the first event of a kind in each interval, or null."""
        rows = np.flatnonzero(self.is_kind(kind) & (interval >= 0))[::-1]
        times = np.full(intervals, np.nan)
        times[interval[rows]] = self.numbers["t_ms"][rows]  # reversed, so that the first event is assigned last
        return pa.array(times, from_pandas=True)

    def backlogs(self, first: _Array) -> pa.Array:
        """The lag when the lease of each interval was granted, or null if the broker did not report it.

        Matched by token and not by time, because the clock of the broker may be behind that of the member.
        """
        granted = np.flatnonzero(self.is_kind(EventKind.LOCK_GRANTED) & (self.numbers["n"] >= 0))[::-1]
        waited = dict(zip(self._leases(granted), self.numbers["n"][granted].tolist(), strict=True))
        return pa.array(map(waited.get, self._leases(first)), pa.int64())

    def _leases(self, rows: _Array) -> zip[tuple[int, int]]:
        return zip(self._claims[rows].tolist(), self.numbers["version"][rows].tolist(), strict=True)
