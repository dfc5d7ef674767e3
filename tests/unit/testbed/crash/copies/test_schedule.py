from __future__ import annotations

from collections import Counter
from random import Random

from model.replica_limits import LEASE_S, REPLICA_SILENCE_S
from testbed.crash.copies.schedule import MASTER_AWAY_S, PAUSE_S, Act, Steps, draw_steps


def test_the_acts_of_each_group_take_turns() -> None:
    acts = Counter(step.act for step in draw_steps(Random(1), Steps(7, 5, 3, 2)))
    assert acts == {
        Act.KILLED: 3,
        Act.STOPPED: 2,
        Act.PAUSED: 2,
        Act.MASTER_KILLED: 3,
        Act.MASTER_PAUSED: 2,
        Act.HANDED_OVER: 2,
        Act.MASTER_STOPPED: 1,
        Act.MASTER_LOST: 2,
    }


def test_a_seed_repeats_its_steps_and_another_one_has_others() -> None:
    steps = Steps(20, 10, 5, 1)
    assert draw_steps(Random(7), steps) == draw_steps(Random(7), steps) != draw_steps(Random(8), steps)


def test_pauses_are_shorter_and_longer_than_the_patience_of_the_master() -> None:
    pauses = [step.seconds for step in draw_steps(Random(3), Steps(90, 0, 0, 0)) if step.act is Act.PAUSED]
    assert PAUSE_S[0] <= min(pauses) < REPLICA_SILENCE_S / 2
    assert 2 * REPLICA_SILENCE_S < max(pauses) <= PAUSE_S[1]
    assert {step.seconds for step in draw_steps(Random(3), Steps(0, 0, 5, 0)) if step.act is Act.HANDED_OVER} == {0.0}


def test_a_master_is_away_for_less_than_its_lease_and_for_longer_than_an_election() -> None:
    away = [step.seconds for step in draw_steps(Random(3), Steps(0, 90, 0, 0))]
    assert MASTER_AWAY_S[0] <= min(away) < LEASE_S / 2
    assert 2 * LEASE_S < max(away) <= MASTER_AWAY_S[1]
