"""The observer finds a copy that differs from its master's."""

from __future__ import annotations

import pytest

from broker.store.follower.follower_log import FollowerLog
from testbed.simulation.engine.run import run_programme
from tests.unit.testbed.simulation.engine.sets.test_acts import SMALL


def test_a_replica_that_writes_other_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = FollowerLog.append

    def append_other(self: FollowerLog, position: int, base_position: int, data: bytes) -> None:
        append(self, position, base_position, data[:-1] + bytes([data[-1] ^ 1]))

    monkeypatch.setattr(FollowerLog, "append", append_other)
    outcome = run_programme(SMALL)
    assert outcome.kinds == ("logs-differ",)


def test_nothing_is_found_in_a_run_without_faults() -> None:
    assert run_programme(SMALL).findings == ()
