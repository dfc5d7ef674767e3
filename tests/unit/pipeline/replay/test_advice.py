"""What to choose of all that was tried, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.errors import ConfigError
from pipeline.replay.advice import SORTS, advice, check_sort, counts, rank_rules
from pipeline.replay.costs import Costs
from pipeline.replay.job import TriedRules
from pipeline.replay.rules import Handover
from tests.unit.pipeline.replay.test_replay import rules

REPLAYED = TriedRules(rules(), Costs(40, 9.0, 120.0, 7.0, 30.0, 0.5), 9)
FEW_MOVES = TriedRules(replace(rules(), strategy="BALANCED_STICKY"), Costs(12, 4.0, 120.0, 7.0, 30.0, 0.8), 9)
QUICK = TriedRules(replace(rules(), handover=Handover.OVERLAP), Costs(40, 0.5, 20.0, 90.0, 10.0, 0.5), 9)


def test_the_best_is_the_best_in_the_cost_that_is_asked_for_and_else_in_most_of_them() -> None:
    tried = [REPLAYED, FEW_MOVES, QUICK, REPLAYED._replace(passes=1)]
    assert rank_rules(tried) == [QUICK, FEW_MOVES, REPLAYED], "those with equal costs are one"
    assert rank_rules(tried, "moves")[0] is FEW_MOVES
    assert rank_rules(tried, "duplicates")[:2] == [FEW_MOVES, REPLAYED]
    assert rank_rules(tried, "imbalance")[-1] is FEW_MOVES
    assert {getattr(REPLAYED.costs, cost) for cost in SORTS.values() if cost} == set(REPLAYED.costs)
    with pytest.raises(ConfigError, match="--sort must be one of all, moves"):
        check_sort("speed")


def test_a_front_is_counted_by_configurations_and_by_the_rows_that_remain_of_it() -> None:
    tried = [REPLAYED, FEW_MOVES, QUICK, QUICK._replace(passes=1)]
    front = [False, True, True, True]
    assert counts(tried, front) == "4 configurations; Pareto front: 3, with 2 different costs"
    assert len(rank_rules(each for each, is_on_front in zip(tried, front, strict=True) if is_on_front)) == 2


def test_the_advice_says_what_is_won_and_what_it_costs() -> None:
    assert advice(FEW_MOVES, REPLAYED, "moves") == (
        "Choose BALANCED_STICKY with a rebalance interval of 20 s, a session timeout of 5 s, handover drain and "
        "notifications, because it is the best in moves: 12 moves instead of 40, 4.0 queue-seconds without an owner "
        "instead of 9.0 under the rules of the trace; it costs 0.80 imbalance instead of 0.50."
    )
    assert "because its ranks in all costs together are the best" in advice(QUICK, REPLAYED)
    assert advice(QUICK._replace(costs=QUICK.costs._replace(duplicates=7.0)), REPLAYED).endswith("; it costs nothing.")
    assert advice(REPLAYED, REPLAYED).startswith("Keep the rules of the trace")
