"""The run itself is tried on real processes, in `tests/process/test_crash.py`; here is what it says of itself."""

from __future__ import annotations

from pathlib import Path

from client import MessageQueue
from model.message import SendResult
from testbed.crash.run import CrashOptions, CrashRun, Spread, spread
from traces.check.ledger import Sent


def test_it_tells_how_far_it_has_come() -> None:
    run = CrashRun(CrashOptions(directory=Path("unused"), kills=20))
    run.ledger.acknowledge(Sent(0, 0), SendResult(MessageQueue("t", "broker-a", 0), 0, "id"))
    run.ledger.give_up(Sent(0, 1), refused=True)
    assert run.progress() == ("starting: 0 of 20 kills, 1 acknowledged, 1 failed, 1 to consume, 0 consumed twice")


def test_durations_are_told_by_their_spread_and_those_that_are_not_known_left_out() -> None:
    assert spread([3.0, None, 1.0, 2.5]) == Spread(n=3, min_s=1.0, median_s=2.5, max_s=3.0)
    assert spread([None]) == Spread(n=0, min_s=0.0, median_s=0.0, max_s=0.0)
