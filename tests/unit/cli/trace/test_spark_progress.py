"""Progress is told while a job runs, and ends with it."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from cli.trace import spark_progress


def test_it_reports_how_many_tasks_are_done_and_stops_with_the_block(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spark_progress, "_LOG_INTERVAL_S", 0.001)
    asked = threading.Event()

    class Tracker:
        """What a Spark context gives: one stage, half done."""

        def getActiveStageIds(self) -> list[int]:
            return [3, 4]

        def getStageInfo(self, stage: int) -> Any:
            if stage == 4:
                asked.set()
                return None
            return SimpleNamespace(numCompletedTasks=5, numTasks=10)

    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))
    before = threading.active_count()
    with spark_progress.spark_progress(session, "histories"):
        assert asked.wait(10)
    assert "histories: 5 of 10 tasks" in capsys.readouterr().err
    assert threading.active_count() == before
