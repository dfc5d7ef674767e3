from __future__ import annotations

from random import Random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.kit.interval import MIN_ROUNDS, Interval
from testbed.bench.kit.rounds import (
    MeasuredTurns,
    Turn,
    Window,
    in_turns,
    make_result,
    median_turn,
    percentile,
    random_order,
    rate,
)
from testbed.simulation.kernel.run import Simulation, run_simulation


def test_a_round_lasts_as_long_as_it_should_and_counts_what_all_its_workers_did() -> None:
    ended_at: list[float] = []
    done = 0

    async def work(window: Window) -> None:
        nonlocal done
        own = 0
        while window.open:
            await anyio.sleep(0.1)
            own += 1
        window.done += own
        done += own
        ended_at.append(anyio.current_time())

    async def main(simulation: Simulation) -> float:
        return await rate(work, 3, 0.95)

    measured = run_simulation(main)
    assert ended_at == pytest.approx([1.0] * 3)  # what is under way at the end is finished, and counts
    assert done == 30
    assert measured > 0


def test_a_worker_that_fails_ends_the_round() -> None:
    async def fail(window: Window) -> None:
        raise ConnectionError("gone")

    async def main(simulation: Simulation) -> None:
        with pytest.raises(ExceptionGroup):
            await rate(fail, 2, 60.0)
        assert simulation.loop.time() < 1

    run_simulation(main)


def test_the_sides_take_turns_in_random_order_after_one_uncounted_round_each() -> None:
    order: list[str] = []

    async def value() -> float:
        order.append("v")
        return float(len(order))

    async def baseline() -> float:
        order.append("b")
        return float(len(order))

    async def main(simulation: Simulation) -> MeasuredTurns:
        return await in_turns(value, baseline, 40)

    turns = run_simulation(main)
    assert "".join(order[:2]) == "bv"
    pairs = ["".join(order[n : n + 2]) for n in range(2, len(order), 2)]
    assert 8 <= pairs.count("vb") == 40 - pairs.count("bv") <= 32
    assert turns == [
        Turn(first, first + 1) if pair == "vb" else Turn(first + 1, first)
        for first, pair in zip(range(3, 83, 2), pairs, strict=True)
    ]
    assert turns.host is None or 0 <= turns.host.withheld <= 1


@given(st.lists(st.integers(), max_size=6), st.randoms(use_true_random=False))
def test_a_round_has_every_system_once(systems: list[int], random: Random) -> None:
    assert sorted(random_order(systems, random)) == sorted(systems)


def test_the_median_turn_is_reported_whole_so_that_its_ratio_fits_its_rates() -> None:
    turns = [Turn(10, 100), Turn(90, 100), Turn(30, 60), Turn(40, 100)]
    assert median_turn(turns) == Turn(40, 100)
    assert median_turn(turns[:3]) == Turn(30, 60)
    result = make_result("send-64", turns)
    assert (result.value, result.baseline_value, result.ratio) == (40, 100, 0.4)
    assert result.interval is None


def test_enough_turns_have_an_interval() -> None:
    turns = MeasuredTurns([Turn(8, 10), Turn(9, 10), Turn(10, 10)] * (MIN_ROUNDS // 3))
    assert make_result("send-64", turns).interval == Interval(0.8, 1.0)


def test_a_percentile_is_one_of_the_times() -> None:
    times = [float(n) for n in range(200, 0, -1)]
    assert [percentile(times, share) for share in (0.5, 0.99, 1.0)] == [100.0, 198.0, 200.0]
    assert percentile([7.0], 0.99) == 7.0


FIGURES = st.lists(st.floats(0, 1e6), min_size=1).map(sorted)


@given(FIGURES, st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_figure_that_this_share_does_not_exceed(
    ordered: list[float], share: float
) -> None:
    found = percentile(ordered, share)
    assert sum(one <= found for one in ordered) >= share * len(ordered)
    assert sum(one < found for one in ordered) < share * len(ordered)
