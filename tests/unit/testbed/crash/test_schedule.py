from __future__ import annotations

from random import Random

from testbed.crash.schedule import STARTED_MAX_S, STARTING_RANGE, Moment, next_kill


def test_one_seed_gives_one_schedule() -> None:
    assert [next_kill(rng) for rng in [Random(7)] for _ in range(50)] == [
        next_kill(rng) for rng in [Random(7)] for _ in range(50)
    ]


def test_every_moment_but_the_last_comes_and_lies_where_it_belongs() -> None:
    rng = Random(0)
    kills = [next_kill(rng) for _ in range(500)]
    assert {kill.moment for kill in kills} == set(Moment) - {Moment.LAST}
    for moment, delay in kills:
        low, high = STARTING_RANGE if moment is Moment.STARTING else (0.0, float("inf"))
        assert low <= delay <= (STARTED_MAX_S if moment is Moment.STARTED else high)
