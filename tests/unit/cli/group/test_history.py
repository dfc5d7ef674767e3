from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.group.history import move_line
from cli.main import app
from model.event_log import encode_events
from tests.unit.traces.figures.group_events import moved_story
from tests.unit.traces.why.stories import handed_over, moves_of


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "t.jsonl"
    path.write_bytes(encode_events(moved_story().events))
    return str(path)


def test_each_rebalance_is_a_row_with_its_cause_and_its_cost(trace: str) -> None:
    done = CliRunner().invoke(app, ["group", "history", "g", "--trace", trace])
    assert done.exit_code == 0, done.output
    assert "c2 started" in done.stdout
    rows = json.loads(CliRunner().invoke(app, ["group", "history", "g", "--trace", trace, "--json"]).stdout)
    last = rows["rebalances"][-1]
    assert (last["because"], last["moves"], last["orphan_ms"], last["balance_ms"]) == ("c2 started", 1, 10.0, 60.0)
    one = CliRunner().invoke(app, ["group", "history", "g", "--trace", trace, "--json", "--last", "1"]).stdout
    assert json.loads(one)["rebalances"] == [last]


def test_a_group_that_is_not_in_the_trace_is_one_line(trace: str) -> None:
    done = CliRunner().invoke(app, ["group", "history", "h", "--trace", trace])
    assert (done.exit_code, done.stderr) == (1, "error: the trace has no event of group h\n")


def test_a_move_that_is_watched_is_a_line() -> None:
    *_, move = moves_of(handed_over())
    assert move_line(move) == (
        "00:00:00.100  t@b:0 went to c2 from c1 because c2 started. It took 16 ms, 6.0 ms unread."
    )
