"""Loads by hand and by law; `tests/spark/test_trace_tables.py` holds them against a twin on whole traces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.trace.loads import Balance, LoadChange, Mark, balances, jain_index, minimum_moves


def changes(t_ms: float, by: int, **loads: int) -> list[LoadChange]:
    return [LoadChange(t_ms, "t", client, by) for client, n in loads.items() for _ in range(n)]


def test_a_member_that_joins_takes_its_share_and_a_strategy_may_have_moved_more() -> None:
    history = [*changes(0, 1, c1=4), *changes(10, -1, c1=2), *changes(12, 1, c2=2)]
    marks = [Mark("c1/1", 0, 0, 1, ""), Mark("c2/1", 10, 12, 2, "")]
    assert list(balances(history, marks)) == [
        Balance("c1/1", "t", 0, 1, 4, 4, 1.0, 0),
        Balance("c2/1", "t", 12, 2, 4, 2, 1.0, 0),
    ]


def test_what_a_member_had_that_left_has_to_move() -> None:
    history = [*changes(0, 1, c1=2, c2=2), *changes(5, -1, c2=2), *changes(9, 1, c1=2)]
    assert list(balances(history, [Mark("c2/9", 5, 9, 1, "c2")])) == [Balance("c2/9", "t", 9, 1, 4, 2, 1.0, 0)]


def test_a_member_that_has_nothing_counts() -> None:
    [found] = balances(changes(0, 1, c1=3, c2=1), [Mark("c1/1", 0, 7, 3, "")])
    assert (found.members, found.spread) == (3, 3)
    assert found.jain == pytest.approx(16 / 30)


def test_rebalances_may_overlap() -> None:
    history = [*changes(0, 1, c1=1), *changes(5, 1, c2=1), *changes(8, 1, c3=2)]
    marks = [Mark("a", 0, 8, 3, ""), Mark("b", 5, 5, 2, "")]
    assert [(row.cause, row.t_ms, row.queues) for row in balances(history, marks)] == [("b", 5, 2), ("a", 8, 4)]


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(1, 8), st.integers(0, 20))
def test_nothing_has_to_move_exactly_if_everybody_stays_within_an_even_share(
    stayers: list[int], members: int, new: int
) -> None:
    stayers = stayers[:members]
    queues = sum(stayers) + new
    share, larger = divmod(queues, members)
    least = minimum_moves(stayers, queues, members)
    assert new <= least <= queues
    even = all(share <= load <= share + (larger > 0) for load in stayers)
    assert (least == 0) == (new == 0 and even and (len(stayers) == members or share == 0))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 4))
def test_jains_index_is_one_for_equal_loads_and_never_below_one_for_each_member(loads: list[int], idle: int) -> None:
    members = len(loads) + idle
    index = jain_index(loads, members)
    assert 1 / members - 1e-9 <= index <= 1 + 1e-9
    assert (abs(index - 1) < 1e-9) == (len(set(loads)) == 1 and not idle)
