from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from model.events import Event, EventKind
from traces.figures.transactions import COUNTED, TransactionTotals, count_transactions

KINDS = [*COUNTED, EventKind.MEMBER_JOIN.value]


def event(kind: str, group: str = "p", n: int = 1) -> Event:
    return Event(0.0, "b", 1, kind, "b/1", group, n=n)


def test_an_event_may_report_of_several_transactions_and_a_check_is_one_whatever_its_number() -> None:
    events = [event("HALF_STORED", n=3), event("TRANSACTION_CHECKED", n=7), event("TRANSACTION_COMMITTED", n=2)]
    assert count_transactions(events) == [TransactionTotals(group="p", half=3, committed=2, checks=1)]


def test_without_transactions_there_is_no_row() -> None:
    assert count_transactions([event("MEMBER_JOIN")]) == []


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from("pq"), st.integers(1, 9))))
def test_every_figure_is_the_sum_over_its_own_events(rows: list[tuple[str, str, int]]) -> None:
    found = {totals.group: totals for totals in count_transactions(event(*row) for row in rows)}
    for group in "pq":
        for kind, name in COUNTED.items():
            own = [n for each, of, n in rows if (each, of) == (kind, group)]
            expected = len(own) if name == "checks" else sum(own)
            assert getattr(found.get(group, TransactionTotals(group=group)), name) == expected
