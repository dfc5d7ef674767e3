"""`rlab sim` runs what it is told, says what came of it, and refuses what makes no sense in one line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app

SMALL = """
seed = 3
[load]
messages = 10
[[step]]
at_s = 1.0
do = "crash"
who = "billing-1"
"""


@pytest.fixture(autouse=True)
def logs_stay_on() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)  # the command ends its process, and a test does not


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_a_programme_of_a_file_is_run_and_its_events_are_written(small: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    done = CliRunner().invoke(app, ["sim", str(small), "--events", str(events), "--json"])
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert reported["ok"]
    assert reported["again"] == f"rlab sim {small} --seed 3"
    assert reported["outcome"]["acts"] == {"crash": 1}
    lines = events.read_text(encoding="utf-8").splitlines()
    assert len(lines) == reported["outcome"]["events"]
    assert json.loads(lines[0])["kind"]


def test_the_events_of_several_seeds_are_a_file_for_each(small: Path, tmp_path: Path) -> None:
    folder, alone = tmp_path / "traces", tmp_path / "alone.jsonl"
    done = CliRunner().invoke(app, ["sim", str(small), "--seeds", "2", "--jobs", "2", "--events", str(folder)])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in folder.iterdir()) == ["seed-3.jsonl", "seed-4.jsonl"]
    assert CliRunner().invoke(app, ["sim", str(small), "--seed", "4", "--events", str(alone)]).exit_code == 0
    assert (folder / "seed-4.jsonl").read_bytes() == alone.read_bytes()


def test_a_run_that_breaks_a_promise_has_exit_code_1(small: Path) -> None:
    done = CliRunner().invoke(app, ["sim", str(small), "--quirk", "OVERLAPPING_HANDOVER"])
    assert done.exit_code == 1
    assert done.stdout.startswith("FAILED  the programme, seed 3\n  found      double-owner:")
    assert f"again      rlab sim {small} --seed 3 --quirk OVERLAPPING_HANDOVER" in done.stdout


def test_many_seeds_have_one_verdict(small: Path) -> None:
    done = CliRunner().invoke(app, ["sim", str(small), "--seeds", "3"])
    assert done.exit_code == 0, done.output
    assert "PASSED  3 seeds, 0 failed" in done.stdout
    failed = CliRunner().invoke(app, ["sim", str(small), "--seeds", "2", "--quirk", "OVERLAPPING_HANDOVER", "--json"])
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["found"]["double-owner"] == 2
    assert "seed 4 FAILED" in failed.stderr


def test_a_drawn_programme_is_shown_as_a_file_that_can_be_run(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["sim", "--seed", "7", "--show"])
    path = tmp_path / "seven.toml"
    path.write_text(shown.stdout, encoding="utf-8")
    again = CliRunner().invoke(app, ["sim", str(path), "--show"])
    assert again.stdout == shown.stdout
    assert 'name = "order-7"' in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kind", "nothing"], "error: no kind 'nothing'; there are plain, order, pop, power, calm, transactions"),
        (["no-such-file"], "error: there is no programme no-such-file"),
        (["{small}", "--kind", "pop"], "error: --kind is for drawn programmes; leave it out, or the file"),
        (["--seeds", "2", "--events", "{small}"], "is a file; for several seeds name a folder"),
        (["--events", "x", "--master", "local"], "error: --events writes files of this machine: leave --master out"),
        (["{bad}"], "bad.toml: not a programme: "),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    small: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    done = CliRunner().invoke(app, ["sim", *(word.format(small=small, bad=bad) for word in arguments)])
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
