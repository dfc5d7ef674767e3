from __future__ import annotations

import pytest

from testbed.bench.copies.failover import Silence, bench_failover
from testbed.bench.kit.report import GOALS
from testbed.bench.kit.rounds import Sizes


def test_the_longest_silence_is_found_wherever_it_is_and_an_answer_that_was_on_its_way_does_not_end_it() -> None:
    silence = Silence()
    silence.acknowledged(9.0)
    silence.begin(10.0)
    for now in (10.01, 12.5, 12.6, 13.0):
        silence.acknowledged(now)
    assert silence.longest_s() == 12.5 - 10.01
    assert silence.ended_s() == 2.5
    silence.begin(20.0)
    silence.acknowledged(20.25)
    assert (silence.longest_s(), silence.ended_s(), silence.last) == (0.25, 0.25, 20.25)


@pytest.mark.process
@pytest.mark.asyncio
async def test_each_change_of_a_real_master_is_measured_and_every_goal_has_a_figure() -> None:
    steps: list[str] = []
    results = {result.name: result for result in await bench_failover(Sizes(repeat=1), steps.append)}
    assert {name for name in GOALS if name.startswith("failover-")} <= results.keys()
    assert all(result.value > 0 for result in results.values())
    assert results["failover-handover-p50"].value < 2.2 < results["failover-kill-p50"].value, "a lease has to end"
    assert results["failover-fast-p50"].value < 2.2, "a closed port is proof enough"
    assert "failover-hang, 1 of 1" in steps
