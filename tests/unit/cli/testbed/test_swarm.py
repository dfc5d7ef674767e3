from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.main import app
from cli.testbed.swarm import converged_line, status_line, summary_document, summary_table
from testbed.swarm.observer import Convergence, SwarmSummary
from traces.figures.records import GroupTotals

RLAB = [sys.executable, "-m", "cli.main"]
SUMMARY = SwarmSummary(
    ok=True,
    sent=5_957,
    failed_sends=1,
    received_unique=5_958,
    lost=0,
    duplicates=2,
    consumers=8,
    queues=16,
    rebalances=12,
    queues_moved=85,
    needed=70,
    balance_ms_p50=41.13,
    balance_ms_p95=None,
    double_owner_ms=0.0,
    orphan_ms=2_558.5,
)


def test_a_convergence_is_reported_in_a_line() -> None:
    found = Convergence(
        what="2 joined, 1 left",
        trigger="START+NOTIFY",
        members=8,
        rebalances=3,
        moves=30,
        needed=21,
        converged_ms=1_227.4,
    )
    assert converged_line(found) == (
        "2 joined, 1 left: converged in 1,227 ms, 30 queues moved (21 needed), 8 members (START+NOTIFY)"
    )
    assert converged_line(found, pulls=False) == "2 joined, 1 left: 8 members"


def test_the_state_of_the_messages_is_reported_in_a_line() -> None:
    by_message = "sent 5,957, received 5,958, lag 0, duplicates 2, 8 consumers"
    assert status_line(SUMMARY) == f"{by_message}, 16 queues"
    assert status_line(SUMMARY, pulls=False) == by_message


@pytest.mark.parametrize(("ok", "verdict"), [(True, "PASSED"), (False, "FAILED")])
def test_the_summary_is_a_table(ok: bool, verdict: str) -> None:
    file = io.StringIO()
    table = summary_table(replace(SUMMARY, ok=ok))
    Console(file=file, width=80).print(table)
    rows = [" ".join(line.split()) for line in file.getvalue().splitlines()]
    assert rows[0] == verdict
    assert "messages acknowledged 5,957" in rows
    assert "time to balance, median 41.1 ms" in rows
    assert "time to balance, 95th percentile -" in rows


@pytest.mark.parametrize(
    ("changes", "verdict", "rows"),
    [
        ({"unread": 7}, "unread", ["lost 0", "unread, still in queues 7"]),
        ({"unread": 7, "unknown": 5}, "unknown", ["lost 0", "not received, and queues could not be read 5"]),
        ({"unread": 7, "lost": 1}, "failed", ["lost 1", "unread, still in queues 7"]),
        ({"unread": 7, "converged": False}, "failed", ["unread, still in queues 7"]),
        ({"unread": 7, "broken": ("double-owner: c1 and c2",)}, "failed", ["unread, still in queues 7"]),
    ],
)
def test_unread_messages_are_distinguished_from_lost_ones(changes: Any, verdict: str, rows: list[str]) -> None:
    summary = replace(SUMMARY, ok=False, **changes)
    file = io.StringIO()
    Console(file=file, width=80).print(summary_table(summary))
    lines = [" ".join(line.split()) for line in file.getvalue().splitlines()]
    assert lines[0] == verdict.upper()
    assert set(rows) <= set(lines)
    assert summary_document(summary)["verdict"] == verdict


def test_what_broke_stands_below_the_figures() -> None:
    file = io.StringIO()
    line = "double-owner: c1 and c2 owned t@b:0 at the same time for 0.7 s."
    Console(file=file, width=100).print(summary_table(replace(SUMMARY, ok=False, broken=(line,))))
    assert file.getvalue().splitlines()[-1].strip() == line
    assert summary_document(replace(SUMMARY, broken=(line,)))["broken"] == [line]


def test_who_shares_messages_is_reported_nothing_about_queues() -> None:
    file = io.StringIO()
    Console(file=file, width=80).print(summary_table(SUMMARY, pulls=False))
    assert [" ".join(line.split()) for line in file.getvalue().splitlines()] == [
        "PASSED",
        "messages acknowledged 5,957",
        "sends failed 1",
        "received 5,958",
        "lost 0",
        "duplicates 2",
    ]
    by_message, by_queue = (summary_document(SUMMARY, pulls=shares) for shares in (False, True))
    assert by_queue["rebalances"] == 12
    assert (by_message["rebalances"], by_message["balance_ms_p50"], by_message["received_unique"]) == (
        None,
        None,
        5_958,
    )


def test_the_figures_of_the_whole_run_leave_out_what_only_brokers_report() -> None:
    document = summary_document(replace(SUMMARY, in_all=GroupTotals(group="g", moves=7, orphan_ms=2.5)))
    in_all = document["in_all"]
    assert isinstance(in_all, dict)
    assert (in_all["moves"], in_all["orphan_ms"]) == (7, 2.5)
    assert not {"backlog_max", "possible_duplicates"} & in_all.keys()


@pytest.mark.parametrize(
    "flags", [["--rate", "0"], ["--consumers", "-1"], ["--size", "19"], ["--processes", "0"], ["--duration", "-1"]]
)
def test_impossible_figures_are_usage_errors(flags: list[str]) -> None:
    assert CliRunner().invoke(app, ["swarm", *flags]).exit_code == 2


@contextmanager
def cluster(tmp_path: Path) -> Iterator[str]:
    """A cluster in processes of its own; gives the address of its name server."""
    command = [*RLAB, "cluster", "--port", "0", "--brokers", "1", "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


@pytest.mark.process
def test_a_swarm_of_processes_lives_for_its_time_and_one_without_an_end_until_it_is_stopped(tmp_path: Path) -> None:
    with cluster(tmp_path) as address:
        command = [*RLAB, "swarm", "--namesrv", address, "--consumers", "3", "--rate", "100"]
        done = subprocess.run(
            [*command, "--duration", "1.5", "--processes", "2", "--churn", "0.5", "--json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["ok"]
        assert document["sent"] == document["received_unique"] > 50
        assert document["lost"] == document["duplicates"] == document["double_owner_ms"] == 0
        assert "joined: converged in" in done.stderr

        unread = subprocess.run(
            [*command, "--topic", "other", "--group", "other", "--consumers", "0", "--duration", "0.5"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (unread.returncode, "UNREAD" in unread.stdout, unread.stderr) == (3, True, "")
        assert "unread, still in queues" in unread.stdout

        with subprocess.Popen([*command, "--duration", "0"], stdout=subprocess.PIPE, text=True) as endless:
            assert endless.stdout is not None
            assert "sent 0" in next(line for line in endless.stdout if "joined: converged in" not in line)
            endless.send_signal(signal.SIGTERM)
            rest, _ = endless.communicate(timeout=20)
    assert endless.returncode == 0
    assert "PASSED" in rest
