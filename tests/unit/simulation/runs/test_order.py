"""One short run, what it says of itself, and that runs without an order are caught."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from client.options import ConsumeOrder
from simulation.runs.order import OrderOptions, OrderVerdict, main, order_figures, run_order

SHORT = OrderOptions(seed=1, keys=12, changes=3, consumers=2, producers=2)


def test_equal_options_give_equal_runs_in_which_everything_is_settled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    first, second = run_order(SHORT), run_order(SHORT)
    assert first == second
    assert first.violations == []
    assert first.sent == 48
    assert first.settled >= 2 * 48
    assert first.changes >= 3


@pytest.mark.parametrize("kept", [ConsumeOrder.KEY, ConsumeOrder.QUEUE])
def test_a_group_without_the_order_that_is_asked_for_is_caught(
    kept: ConsumeOrder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    without = OrderOptions(seed=1, keys=12, changes=3, orders=(("some", ConsumeOrder.NONE, kept),))
    rules = {violation.partition(":")[0] for violation in run_order(without).violations}
    assert rules >= {"overlap", "order"}


def test_the_order_of_keys_is_not_that_of_queues(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    by_key = OrderOptions(seed=1, keys=12, changes=3, orders=(("some", ConsumeOrder.KEY, ConsumeOrder.QUEUE),))
    assert run_order(by_key).violations != []


def test_changes_of_members_are_counted_and_other_faults_are_not() -> None:
    verdict = OrderVerdict(7, faults=Counter({"join": 2, "hang": 1, "cut": 5}), keys=3, sent=4, starts=5)
    assert order_figures(verdict) == "3 keys, 4 sent, 5 dispatched, 3 changes of members"


def test_the_command_says_what_came_of_all_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first-seed", "1", "--keys", "8", "--changes", "2", "--processes", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("seed 1: passed")
    assert lines[-1].startswith("2 seeds, 0 failed; 16 keys, 64 sent")
