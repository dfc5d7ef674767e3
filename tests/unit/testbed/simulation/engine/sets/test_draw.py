"""What is drawn for replica sets: equal seeds give equal programmes, and each verb about sets comes up."""

from __future__ import annotations

from testbed.simulation.engine.draw import draw
from testbed.simulation.engine.text import parse_programme, write_programme

SEEDS = range(60)


def test_each_verb_about_replica_sets_comes_up_and_each_programme_is_written_and_read() -> None:
    verbs = set()
    for seed in SEEDS:
        programme = draw(seed, "replicas")
        assert programme == draw(seed, "replicas")
        assert parse_programme(write_programme(programme)) == programme
        assert programme.cluster.copies > 1
        verbs |= {step.do for step in programme.step}
    assert {"hand_over", "elect", "cut_register", "lose_register_answers", "crash", "full_disk", "partition"} <= verbs


def test_some_programmes_have_nothing_but_handovers_and_no_listener_fails_in_them() -> None:
    calm = [
        programme
        for programme in (draw(seed, "replicas") for seed in SEEDS)
        if {step.do for step in programme.step} == {"hand_over"}
    ]
    assert len(calm) > 5
    assert all(group.fails == 0 for programme in calm for group in programme.group)
