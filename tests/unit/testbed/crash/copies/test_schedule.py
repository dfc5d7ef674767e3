from __future__ import annotations

from collections import Counter
from random import Random

from model.replica_limits import REPLICA_SILENCE_S
from testbed.crash.copies.schedule import PAUSE_S, Act, steps_of


def test_the_faults_take_turns_and_every_second_handover_is_a_stop_of_the_master() -> None:
    acts = Counter(step.act for step in steps_of(Random(1), 7, 3, 2))
    assert acts == {
        Act.KILLED: 3,
        Act.STOPPED: 2,
        Act.PAUSED: 2,
        Act.HANDED_OVER: 2,
        Act.MASTER_STOPPED: 1,
        Act.MASTER_LOST: 2,
    }


def test_a_seed_repeats_its_steps_and_another_one_has_others() -> None:
    assert steps_of(Random(7), 20, 5, 1) == steps_of(Random(7), 20, 5, 1) != steps_of(Random(8), 20, 5, 1)


def test_pauses_are_shorter_and_longer_than_the_patience_of_the_master() -> None:
    pauses = [step.seconds for step in steps_of(Random(3), 90, 0, 0) if step.act is Act.PAUSED]
    assert PAUSE_S[0] <= min(pauses) < REPLICA_SILENCE_S / 2
    assert 2 * REPLICA_SILENCE_S < max(pauses) <= PAUSE_S[1]
    assert {step.seconds for step in steps_of(Random(3), 0, 5, 0) if step.act is Act.HANDED_OVER} == {0.0}
