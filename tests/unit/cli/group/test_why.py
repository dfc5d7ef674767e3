from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from model.event_log import encode_events
from tests.unit.traces.why.stories import handed_over
from tests.unit.traces.why.test_messages import after_a_kill


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "t.jsonl"
    path.write_bytes(encode_events(handed_over().events))
    return str(path)


@pytest.mark.parametrize("named", [["t", "b:0"], ["t@b:0"]], ids=["two words", "as tables name it"])
def test_the_last_move_of_a_queue_is_a_waterfall(trace: str, named: list[str]) -> None:
    done = CliRunner().invoke(app, ["group", "why", *named, "--trace", trace])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("group g: t@b:0 went to c2 from c1 because c2 started.")
    assert "c1 began a pass (NOTIFY)" in done.stdout
    assert "in all 16 ms; the queue was not read for 6.0 ms" in done.stdout


def test_the_stages_of_the_document_add_up(trace: str) -> None:
    done = CliRunner().invoke(app, ["group", "why", "t", "b:0", "--trace", trace, "--json"])
    [move] = json.loads(done.stdout)["moves"]
    assert move["took_ms"] == sum(stage["took_ms"] for stage in move["stages"]) == 16
    assert (move["learned"], move["because"], move["missing"]) == ("notified", "c2 started", [])


def test_a_message_is_explained_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(encode_events(after_a_kill().events))
    done = CliRunner().invoke(app, ["group", "why", "--message", "t@b:0+57", "--trace", str(path)])
    assert done.exit_code == 0, done.output
    assert "was dispatched to listeners of g 2 times" in done.stdout
    assert "LOCK_EXPIRED" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["t"], 2, "name a queue as TOPIC BROKER:ID"),
        (["@b:0"], 2, "name a queue as TOPIC BROKER:ID"),
        (["t", "b"], 2, "'b' is not a queue"),
        (["t", "b:" + 5000 * "9"], 2, "is not a queue"),
        (["t", "b:0", "--message", "x"], 2, "and not both"),
        (["t", "b:9"], 1, "no move of t@b:9"),
        (["t", "b:0", "--group", "h"], 1, "no move of t@b:0 in group h"),
        (["--message", "u@b:0+1"], 1, "no event of a group in this trace is about u@b:0"),
        (["--message", "u@b:0+1", "--group", "h"], 1, "no event of group h in this trace is about u@b:0"),
    ],
)
def test_what_cannot_be_explained_is_one_line(trace: str, arguments: list[str], code: int, said: str) -> None:
    done = CliRunner().invoke(app, ["group", "why", *arguments, "--trace", trace])
    assert done.exit_code == code
    assert said in " ".join(done.stderr.split())
