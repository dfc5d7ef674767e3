"""The run itself is tried on real processes, in `tests/process/test_copies_crash.py`."""

from __future__ import annotations

from pathlib import Path

from client import MessageQueue
from model.message import SendResult
from testbed.crash.copies.run import CopiesOptions, CopiesRun, sum_effects
from testbed.crash.copies.schedule import Steps
from testbed.crash.copies.watch import Effects
from traces.check.ledger import SentMessage


def test_its_progress_has_steps_and_messages() -> None:
    run = CopiesRun(CopiesOptions(directory=Path("unused"), steps=Steps(faults=3, failovers=4, handovers=2, losses=1)))
    run.ledger.acknowledge(SentMessage(0, 0), SendResult(MessageQueue("t", "broker-a", 0), 0, "id"))
    assert run.progress() == "starting: 0 of 10 steps, 1 acknowledged, 0 failed, 1 to consume, 0 consumed twice"


def test_the_figures_of_an_act_are_those_of_all_its_steps() -> None:
    one = Effects(gap_s=0.1, held_s=0.3, failed=1, moved=0, two_owners_ms=0.5, twice=2)
    other = Effects(gap_s=0.2, held_s=0.1, failed=0, moved=4, two_owners_ms=0.25, twice=0)
    figures = sum_effects([one, other])
    assert (figures.n, figures.failed, figures.moved, figures.two_owners_ms, figures.twice) == (2, 1, 4, 0.75, 2)
    assert (figures.gap.max_s, figures.held.max_s) == (0.2, 0.3)
