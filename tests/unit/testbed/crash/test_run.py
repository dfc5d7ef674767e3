"""The run itself is tried on real processes, in `tests/process/test_crash.py`; here is what it says of itself."""

from __future__ import annotations

from pathlib import Path

from client import MessageQueue
from model.message import SendResult
from testbed.crash.run import CrashOptions, CrashRun
from traces.check.ledger import SentMessage


def test_it_reports_how_far_it_has_come() -> None:
    run = CrashRun(CrashOptions(directory=Path("unused"), kills=20))
    run.ledger.acknowledge(SentMessage(0, 0), SendResult(MessageQueue("t", "broker-a", 0), 0, "id"))
    run.ledger.record_failure(SentMessage(0, 1), refused=True)
    assert run.progress() == ("starting: 0 of 20 kills, 1 acknowledged, 1 failed, 1 to consume, 0 consumed twice")
