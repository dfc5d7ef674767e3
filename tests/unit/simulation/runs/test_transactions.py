"""One short run, and what it says of itself; tests/simulation/test_transaction_faults.py breaks each rule."""

from __future__ import annotations

import logging

import pytest

from simulation.runs.transactions import TransactionRunOptions, main, run_transactions, transaction_figures


def test_equal_options_give_equal_runs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    first, second = (run_transactions(TransactionRunOptions(seed=4, duration_s=8.0)) for _ in range(2))
    assert first == second
    assert first.violations == []
    assert f"{first.sent:,} transactions, {first.committed:,} committed" in transaction_figures(first)


def test_the_command_runs_its_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1", "--first-seed", "7", "--duration", "3", "--processes", "1"]) == 0
    assert "1 seeds, 0 failed" in capsys.readouterr().out
