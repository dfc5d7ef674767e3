"""Lines of `rlab sim`."""

from __future__ import annotations

from model.events import Event, EventKind
from testbed.runs.report import counts, failed_line, outcome_lines, repeat_command, witness_line
from testbed.simulation.engine.checkers import Finding
from testbed.simulation.engine.programme import Programme
from testbed.simulation.engine.run import Outcome
from testbed.simulation.engine.sweep import Case
from testbed.simulation.kernel.run import EPOCH_MS

FOUND = tuple(Finding("orphan", f"queue {n}") for n in range(7))


def outcome(findings: tuple[Finding, ...] = ()) -> Outcome:
    return Outcome(
        seed=7,
        findings=findings,
        digest="ab12",
        events=1_234,
        took_s=36.04,
        converged_s=(2.25, 0.5),
        sent=100,
        failed_sends=1,
        deliveries=103,
        again=3,
        dead_letters=2,
        round_trips=999,
        acts={"crash": 2, "cut": 1},
    )


def test_a_run_shows_its_verdict_its_figures_and_how_to_repeat_it() -> None:
    assert outcome_lines(outcome(), Programme(name="plain-7"), "rlab sim --seed 7") == [
        "PASSED  plain-7, seed 7",
        "  time       36.0 virtual seconds; converged 2.25, 0.50 s after the repair",
        "  messages   100 sent, 1 failed, 103 delivered, 3 again, 2 dead",
        "  steps      crash 2, cut 1",
        "  events     1,234, SHA-256 ab12",
        "  again      rlab sim --seed 7",
    ]


def test_a_run_that_failed_shows_its_first_findings() -> None:
    lines = outcome_lines(outcome(FOUND), Programme(), "again")
    assert lines[0] == "FAILED  the programme, seed 7"
    assert lines[1] == "  found      orphan: queue 0"
    assert lines[6] == "             and 2 more"
    assert failed_line(outcome(FOUND), "rlab sim") == "seed 7 FAILED: orphan: queue 0; again: rlab sim"


def test_counts_are_words() -> None:
    assert counts({}) == ""
    assert counts({"cut": 1_000}) == "cut 1,000"


def test_a_run_is_repeated_by_a_command() -> None:
    assert repeat_command(Case(seed=7, kind="pop", quirks=("A", "B")), None) == (
        "rlab sim --seed 7 --kind pop --quirk A --quirk B"
    )
    assert repeat_command(Case(seed=7, text="x"), "my file.toml") == "rlab sim 'my file.toml' --seed 7"


def test_the_first_finding_shows_its_witness() -> None:
    granted = Event(
        EPOCH_MS + 1_500, "broker-a", 7, EventKind.LOCK_GRANTED, "", "g", "t", "broker-a", 0, "c1", 3, 12, 4
    )
    line = "   1.500 s  broker-a LOCK_GRANTED g t@broker-a:0 c1 offset 12 n 4"
    assert witness_line(granted) == line
    lines = outcome_lines(outcome((Finding("orphan", "x", (granted,)), FOUND[0])), Programme(), "again")
    assert lines[3] == f"  shown by   {line}"
    stopped = Event(EPOCH_MS, "c1", 1, EventKind.CLIENT_STOP, "", "g", client="c1", detail="shutdown")
    assert witness_line(stopped) == "   0.000 s  c1 CLIENT_STOP g shutdown"
