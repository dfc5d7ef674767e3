"""`rlab report --runs`: means over the runs as a table and as JSON, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.unit.pipeline.runs.runs import simulated_trace


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    found = [tmp_path / f"seed-{number}.jsonl" for number in (1, 2)]
    for seed, path in enumerate(found, 1):
        simulated_trace(path, seed=seed)
    return list(map(str, found))


def test_runs_are_printed_with_their_means(traces: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["report", *traces, "--runs", "--window", "5", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("group billing ")
    assert re.search(r" moves of queues +2 ", done.stdout)
    assert done.stdout.endswith(f"report: {out / 'index.html'}\n")
    assert "run seed-2\n" in done.stderr


def test_runs_are_compared_and_are_a_document(traces: list[str], tmp_path: Path) -> None:
    first, second = traces
    words = ["report", first, "--runs", "--against", second, "--out", str(tmp_path / "out")]
    assert "interval of the change" in CliRunner().invoke(app, words).stdout
    done = CliRunner().invoke(app, [*words, "--json"])
    document = json.loads(done.stdout)
    assert [(run["side"], run["run"], run["group"]) for run in document["runs"]] == [
        ("this", "seed-1", "billing"),
        ("other", "seed-2", "billing"),
    ]
    means = {(row["side"], row["figure"]): row["mean"] for row in document["summary"]}
    assert means["other", "moves"] == document["runs"][1]["moves"] > 4


def test_each_file_in_a_folder_is_a_run(traces: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--runs", "--out", str(tmp_path / "out"), "--json"])
    assert [run["run"] for run in json.loads(done.stdout)["runs"]] == [Path(trace).stem for trace in traces]


def test_what_makes_no_sense_is_one_line(traces: list[str], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "out")]
    nothing = CliRunner().invoke(app, ["report", "--runs", *out])
    assert (nothing.exit_code, nothing.stderr) == (
        2,
        "error: --runs needs the trace of each run: rlab report traces --runs\n",
    )
    gone = CliRunner().invoke(app, ["report", traces[0], "gone.jsonl", "--runs", *out])
    assert gone.stderr == "error: there is no trace gone.jsonl\n"
    twice = CliRunner().invoke(app, ["report", traces[0], traces[0], "--runs", *out])
    assert twice.stderr == f"error: {traces[0]} is there twice: it would count as two runs\n"
    assert not (tmp_path / "out").exists()
