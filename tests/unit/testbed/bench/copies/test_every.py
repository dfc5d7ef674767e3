from __future__ import annotations

import pytest

from testbed.bench.copies.every import bench_copies
from testbed.bench.kit.report import GOALS
from testbed.bench.kit.rounds import MIB, Sizes

pytestmark = [pytest.mark.process, pytest.mark.asyncio]


async def test_real_replicas_are_measured_and_every_goal_has_a_figure() -> None:
    steps: list[str] = []
    results = await bench_copies(Sizes(seconds=0.05, repeat=1, passes=1, copied_bytes=16 * MIB), steps.append)
    figures = {result.name: result for result in results}
    assert figures.keys() == {name for name in GOALS if name.startswith("copies-")}
    assert all(result.value > 0 for result in results if result.name != "copies-memory")
    assert figures["copies-send-1"].ratio is not None
    assert figures["copies-send-1"].ratio > 1.0, "a send that waits for another process takes longer"
    assert "3 replicas copy the log, and hang now and then" in steps
