"""One short run, what it says of itself, and that brokers which do wrong are caught."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from broker.pop.ledger import PopLedger, PopWindow
from simulation.runs.pop import PopRunOptions, PopVerdict, main, pop_line, run_pop

SHORT = PopRunOptions(seed=1, messages=60, chaos_s=8.0, pushers=2, poppers=1)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)


def rules(verdict: PopVerdict) -> set[str]:
    return {violation.partition(":")[0] for violation in verdict.violations}


def test_equal_options_give_equal_runs_in_which_everything_is_ended() -> None:
    first, second = run_pop(SHORT), run_pop(SHORT)
    assert first == second
    assert first.violations == []
    assert first.sent == 60
    assert first.deliveries > 60
    assert first.again == first.deliveries - 60 > 0
    assert first.dead > 0


def test_a_broker_that_forgets_acknowledgements_when_it_starts_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: PopLedger, window: PopWindow, token: int, offsets: Sequence[int]) -> list[int]:
        return window.queue.ack(token, offsets)  # and notes nothing

    monkeypatch.setattr(PopLedger, "ack", forgets)
    assert rules(run_pop(PopRunOptions(seed=4, messages=60, chaos_s=20.0))) & {"again", "broken"}


def test_a_broker_that_is_late_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = PopLedger.next_deadline

    def late(self: PopLedger) -> float | None:
        deadline = shipped(self)
        return None if deadline is None else deadline + 0.5

    monkeypatch.setattr(PopLedger, "next_deadline", late)
    assert "hidden" in rules(run_pop(SHORT))


def test_a_verdict_tells_its_seed_and_every_violation() -> None:
    verdict = PopVerdict(7, ["again: a", "lost: b"])
    assert pop_line(verdict).splitlines()[1:] == ["  again: a", "  lost: b"]
    assert pop_line(verdict).startswith("seed 7: FAILED")


def test_the_command_says_what_came_of_all_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first-seed", "1", "--messages", "30", "--chaos", "3", "--processes", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("seed 1: passed")
    assert lines[-1].startswith("2 seeds, 0 failed; 60 sent")
