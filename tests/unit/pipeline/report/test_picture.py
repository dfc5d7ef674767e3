from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.data import GroupSection, read_report
from pipeline.report.picture import FIRST_PULL, HANDED_OVER, NONE, NOTICED, advice, make_picture, move_steps
from tests.unit.pipeline.report.report_tables import write

STARTED_MS, SPAN_MS = 1_000_000.0, 9_000.0


def section(tmp_path: Path) -> GroupSection:
    return read_report(write(tmp_path / "tables")).groups[0]


def test_the_picture_has_the_owners_in_the_form_of_one_that_lives(tmp_path: Path) -> None:
    found = make_picture(section(tmp_path), STARTED_MS, SPAN_MS)

    assert (found["queues"], found["clients"]) == (["t@b:0", "t@b:1"], ["ip@c1", "ip@c2"])
    assert found["changes"] == [0, 0, 0, 1, 0, 1, 0, 1, 5_100, 1, NONE, 0, 5_400, 1, 1, 1]
    assert found["members"] == [40, 2, 5_400, 2, 6_000, 2], "also of the one that moved nothing"
    assert found["now"] == SPAN_MS
    json.dumps(found)


def test_two_owners_at_once_are_counted(tmp_path: Path) -> None:
    group = section(tmp_path)
    longer = [{**row, "to_ms": 5_500.0} if row["to_ms"] == 5_100 else row for row in group.intervals]

    found = make_picture(replace(group, intervals=longer), STARTED_MS, SPAN_MS)

    assert found["changes"][8:] == [5_400, 1, 1, 2, 5_500, 1, 1, 1]


def test_a_rebalance_has_its_moves_and_the_steps_of_its_slowest_queue(tmp_path: Path) -> None:
    first, second = make_picture(section(tmp_path), STARTED_MS, SPAN_MS)["rebalances"]

    assert "steps" not in first, "its queues had no owner before"
    assert second["queue_moves"] == [1, 0, 1, 5_400, 300]
    assert [step[:2] for step in second["steps"]] == [[NOTICED, 100], [HANDED_OVER, 300], [FIRST_PULL, 10]]
    assert (second["slow"], second["slowest_queue"]) == (HANDED_OVER, "t@b:1")
    assert "listeners" in second["advice"]


def test_the_steps_add_up_to_the_first_pull() -> None:
    before = {"to_ms": 40.0, "ended": "expired"}
    row = {"from_client": "c1", "from_ms": 70.0, "first_pull_ms": 75.0}

    assert [elapsed for _, elapsed, _ in move_steps({"began_ms": 10.0}, row, before)] == [30, 30, 5]
    assert move_steps({"began_ms": 10.0}, row, None) == []
    kept = {"to_ms": 90.0, "ended": "revoked"}
    assert [elapsed for _, elapsed, _ in move_steps({"began_ms": 10.0}, row, kept)] == [60, 0, 5], "two owners at once"


@pytest.mark.parametrize(
    ("step", "rebalance", "says"),
    [
        (NOTICED, {"trigger": "TIMER", "detail": ""}, "No notification"),
        (NOTICED, {"trigger": "NOTIFY", "detail": "expiry"}, "session_timeout_s"),
        (NOTICED, {"trigger": "LOCK+ROUTE", "detail": ""}, "route_poll_interval_s"),
        (NOTICED, {"trigger": "NOTIFY", "detail": ""}, "came late"),
        (HANDED_OVER, {"trigger": "NOTIFY", "detail": "close"}, "300 ms"),
        (HANDED_OVER, {"trigger": "NOTIFY", "detail": ""}, "listeners"),
        (FIRST_PULL, {"trigger": "TIMER", "detail": ""}, "c2 began to pull late"),
    ],
)
def test_a_slow_step_comes_with_what_to_do_about_it(step: str, rebalance: dict[str, Any], says: str) -> None:
    assert says in advice(step, rebalance, {"owner": "c2"})
