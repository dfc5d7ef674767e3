from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.figures.loads import Loads, needed_moves


def test_a_member_that_joins_takes_its_share_and_a_strategy_may_have_moved_more() -> None:
    assert needed_moves([4, 0], [2, 2]) == 2
    assert needed_moves([3, 2, 2, 0], [2, 2, 2, 1]) == 1


def test_queues_that_no_one_had_and_those_of_a_member_that_left_have_to_move() -> None:
    assert needed_moves([], [2, 1]) == 3
    assert needed_moves([2], [4]) == 2


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), max_size=30), st.sets(st.sampled_from("abcd"))
)
def test_evenness_is_that_of_the_loads_of_present_members(moves: list[tuple[str, str]], gone: set[str]) -> None:
    loads = Loads()
    for source, target in moves:
        loads.move(source if loads.of.get(source) else None, target)
    for client in sorted(gone):
        loads.set_present(client, False)
    here = [n for client, n in loads.of.items() if client not in gone]
    assert (loads.queues, loads.holders) == (sum(here), len(here))
    members = len(here) + 1
    assert loads.spread(members) == max(here, default=0)
    assert loads.spread(len(here)) == max(here, default=0) - min(here, default=0)
    squares = sum(n * n for n in here)
    assert loads.jain(members) == pytest.approx(sum(here) ** 2 / (members * squares) if here else 1.0)
    for client in sorted(gone):
        loads.set_present(client, True)
    assert loads.queues == sum(loads.of.values()) == len(moves) - _between(moves)


def _between(moves: list[tuple[str, str]]) -> int:
    """Moves that took a queue from a member that had one: they made no new queue."""
    had: dict[str, int] = {}
    taken = 0
    for source, target in moves:
        if had.get(source):
            had[source] -= 1
            taken += 1
        had[target] = had.get(target, 0) + 1
    return taken
