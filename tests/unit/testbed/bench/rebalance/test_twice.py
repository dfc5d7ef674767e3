from __future__ import annotations

import json
from pathlib import Path

from model.events import EventKind
from testbed.bench.kit.report import GOALS, MET, MISSED
from testbed.bench.rebalance.twice import GROUP, Repeats, make_results, max_redelivered


def test_the_worst_kill_counts_and_the_broker_may_say_neither_too_few_nor_far_too_many() -> None:
    results = {
        result.name: result
        for result in make_results("orderly", [Repeats(5, 7), Repeats(9, 8), Repeats(2, 40)], 25_000)
    }
    assert {name: result.value for name, result in results.items()} == {
        "twice-orderly": 9,
        "twice-orderly-untold": 1,
        "twice-orderly-excess": 34,
    }
    assert results["twice-orderly"].note == "of 25,000; 5 (up to 7), 9 (up to 8), 2 (up to 40)"
    assert [GOALS[name].verdict(result) for name, result in results.items()] == [MET, MISSED, MISSED]


def test_what_may_have_come_twice_is_what_the_leases_left_that_ended_without_a_release(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    events = [
        {"kind": EventKind.LOCK_EXPIRED, "group": GROUP, "n": 4},
        {"kind": EventKind.LOCK_EXPIRED, "group": GROUP, "n": 3},
        {"kind": EventKind.LOCK_EXPIRED, "group": "other", "n": 9},
        {"kind": EventKind.OFFSET_COMMITTED, "group": GROUP, "n": 9},
    ]
    trace.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    assert max_redelivered(trace) == 7
