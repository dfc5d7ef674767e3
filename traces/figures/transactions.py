"""Transactions of a trace by producer group: their number, and their outcomes. Pure.

Brokers report several transactions in one event, but each check in its own event. A trace may begin or end in the
middle of transactions, so it may show more commits than half messages.

    HALF_STORED n=3, TRANSACTION_CHECKED n=1, TRANSACTION_COMMITTED n=2    ->  half 3, checks 1, committed 2
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from model.events import Event, EventKind


@dataclass(slots=True, kw_only=True)
class TransactionTotals:
    """The transactions of one producer group.

    Attributes:
        half: half messages that were stored.
        checks: the number of checks that brokers sent to the group.
        given_up: transactions that were never ended.
    """

    group: str
    half: int = 0
    committed: int = 0
    rolled_back: int = 0
    checks: int = 0
    given_up: int = 0


COUNTED = {
    EventKind.HALF_STORED.value: "half",
    EventKind.TRANSACTION_COMMITTED.value: "committed",
    EventKind.TRANSACTION_ROLLED_BACK.value: "rolled_back",
    EventKind.TRANSACTION_CHECKED.value: "checks",
    EventKind.TRANSACTION_GIVEN_UP.value: "given_up",
}
"""Kind of an event -> the figure that it counts for."""
SINGLE = EventKind.TRANSACTION_CHECKED.value
"""An event of this kind is one check: its `n` is the number of the check, while `n` of other kinds is a count."""


def count_transactions(events: Iterable[Event]) -> list[TransactionTotals]:
    """Return the totals of each producer group, sorted by name; the order of the events does not matter."""
    totals_of: dict[str, TransactionTotals] = {}
    for event in events:
        name = COUNTED.get(event.kind)
        if name is not None:
            totals = totals_of.setdefault(event.group, TransactionTotals(group=event.group))
            setattr(totals, name, getattr(totals, name) + (1 if event.kind == SINGLE else event.n))
    return sorted(totals_of.values(), key=lambda totals: totals.group)
