from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.testbed.demo import logs_into
from client.allocate import AllocateMessageQueueAveragely
from model.event_log import decode_events
from model.events import EventKind
from model.own_name import PREFIX
from testbed.demo.state import DemoState, Tone

DEMO = [sys.executable, "-m", "cli.main", "demo"]


def test_what_is_kept_goes_into_a_new_directory(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--keep", str(tmp_path)])
    assert done.exit_code == 2
    assert "--keep needs a new directory" in done.stderr


def test_a_trace_that_cannot_be_written_ends_it_before_it_begins(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--trace", str(tmp_path / "no" / "trace.jsonl")])
    assert done.exit_code == 2
    assert "cannot write the trace file" in done.stderr


@pytest.mark.parametrize("flags", [["--rate", "0"], ["--pace", "-1"], ["--pace", "61"]])
def test_impossible_figures_are_usage_errors(flags: list[str]) -> None:
    assert CliRunner().invoke(app, ["demo", *flags]).exit_code == 2


def test_while_it_runs_log_records_become_notes_and_go_nowhere_else() -> None:
    state = DemoState("g", "t", AllocateMessageQueueAveragely(), ("c1",), lambda: 0.0)
    before = logging.getLogger().handlers
    logger = logging.getLogger(f"{PREFIX}client")
    with logs_into(state, logging.WARNING):
        logger.info("nothing")
        logger.warning("heartbeat to %s failed", "b")
    with logs_into(state, logging.ERROR):
        logger.warning("left out")
    assert [(note.text, note.tone) for note in state.notes] == [("heartbeat to b failed", Tone.WARNING)]
    assert logging.getLogger().handlers is before


@pytest.mark.process
def test_the_demo_passes_and_prints_one_document(tmp_path: Path) -> None:
    keep = tmp_path / "run"
    done = subprocess.run(
        [*DEMO, "--json", "--pace", "0", "--rate", "500", "--keep", str(keep)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ok"]
    assert document["lost"] == document["double_owner_ms"] == 0
    assert document["sent"] == document["received_unique"] > 1_000
    assert len(document["rebalances"]) == 11
    assert "broker-b restarts: converged in" in done.stderr
    assert "warning" not in done.stderr
    assert sorted(path.name for path in keep.iterdir()) == ["broker-a", "broker-b", "trace.jsonl"]
    kinds = {event.kind for event in decode_events((keep / "trace.jsonl").read_bytes())[0]}
    assert {EventKind.MEMBER_LEAVE, EventKind.LOCK_EXPIRED, EventKind.BROKER_DOWN} <= kinds


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_and_nothing_is_left(tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        [*DEMO, "--pace", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with process:
        assert process.stdout is not None
        assert "c1 starts: converged in" in process.stdout.readline()
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert errors == "error: stopped before it was finished\n"
    assert list(tmp_path.iterdir()) == []
