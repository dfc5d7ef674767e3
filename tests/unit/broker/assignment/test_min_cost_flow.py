"""The cheapest flow, compared with trying everything on small transport problems."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from broker.assignment.min_cost_flow import MinCostFlow


def costs(size: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(0, 3), min_size=size, max_size=size), min_size=size, max_size=size)


@given(st.integers(1, 5).flatmap(costs))
def test_everyone_gets_something_and_no_other_way_is_cheaper(cost: list[list[int]]) -> None:
    size = len(cost)
    network = MinCostFlow(2 * size)
    arcs = {(a, b): network.add_arc(a, size + b, 1, cost=cost[a][b]) for a in range(size) for b in range(size)}
    surplus = [1] * size + [-1] * size
    network.settle(surplus)
    assert surplus == [0] * (2 * size)
    chosen = [pair for pair, arc in arcs.items() if network.flow(arc)]
    assert sorted(a for a, _ in chosen) == sorted(b for _, b in chosen) == list(range(size))
    cheapest = min(sum(cost[a][b] for a, b in enumerate(way)) for way in permutations(range(size)))
    assert sum(cost[a][b] for a, b in chosen) == cheapest


def test_what_flows_already_is_sent_back_when_that_is_the_only_way() -> None:
    # 0 -> 2 and 1 -> 2 are wanted, 2 takes one; 0 can go to 3 instead.
    network = MinCostFlow(4)
    there = network.add_arc(0, 2, 1, cost=-1, flow=1)
    elsewhere = network.add_arc(0, 3, 5)
    late = network.add_arc(1, 2, 1)
    network.settle([0, 1, 0, -1])
    assert (network.flow(there), network.flow(elsewhere), network.flow(late)) == (0, 1, 1)


def test_many_units_go_at_once() -> None:
    network = MinCostFlow(3)
    first, second = network.add_arc(0, 1, 10**6), network.add_arc(1, 2, 10**6)
    network.settle([10**6, 0, -(10**6)])
    assert network.flow(first) == network.flow(second) == 10**6
