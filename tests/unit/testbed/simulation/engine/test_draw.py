"""Equal seeds draw equal programmes; every verb comes up, and every fault is over when all is repaired."""

from __future__ import annotations

import pytest

from model.replica_set import Elect
from testbed.simulation.engine.draw import KINDS, SET_KINDS, draw
from testbed.simulation.engine.verbs import VERBS


def test_equal_seeds_draw_equal_programmes_and_others_others() -> None:
    for kind in KINDS:
        assert draw(7, kind) == draw(7, kind)
        assert draw(7, kind).step != draw(8, kind).step


def test_the_seed_decides_the_kind_unless_it_is_given() -> None:
    assert {draw(seed).name.partition("-")[0] for seed in range(len(KINDS))} == set(KINDS)
    drawn = [draw(seed).name.partition("-")[0] for seed in range(42)]
    assert set(drawn) == {*KINDS, "replicas"}
    assert {drawn.count(kind) for kind in drawn} == {6}
    assert [draw(seed).name for seed in (6, 13, 20, 27)] == [
        "replicas-6",
        "replicas-live-13",
        "replicas-20",
        "replicas-live-27",
    ]
    assert draw(1, "pop").name == "pop-1"


def test_clients_of_rocketmq_5_are_drawn_by_name_alone() -> None:
    stock = [draw(seed, "grpc").group[0].stock for seed in range(60)]
    assert set(stock) == {1, 2, 3, 4}
    assert not any(group.stock for seed in range(60) for group in draw(seed).group)


@pytest.mark.walk
def test_every_verb_comes_up_but_those_for_written_programmes() -> None:
    programmes = [draw(seed) for seed in range(200)]
    programmes += [draw(seed, kind) for seed in range(60) for kind in SET_KINDS]
    drawn = {step.do for programme in programmes for step in programme.step}
    assert set(VERBS) - drawn == {"heal", "bit_rot"}


def test_programmes_about_liveness_end_with_a_repair_of_a_part_and_no_operator_is_needed() -> None:
    for seed in range(30):
        programme = draw(seed, "replicas-live")
        assert [step.do for step in programme.step].index("heal_core") == len(programme.step) - 1
        assert programme.cluster.elect in ("auto", "fast")
        assert programme.promise.recover_s


def test_sets_elect_their_masters_in_each_way_and_some_have_clocks_with_different_rates() -> None:
    parts = [draw(seed, "replicas").cluster for seed in range(60)]
    assert {part.elect for part in parts} == set(Elect)
    assert {part.rates_apart for part in parts} == {0.0, 0.05}


def test_power_is_cut_only_where_brokers_sync_before_they_answer() -> None:
    for seed in range(100):
        programme = draw(seed)
        if any(step.do == "power_cut" for step in programme.step):
            assert programme.cluster.flush == "sync"


def test_topics_only_grow_because_no_one_reads_a_queue_that_was_taken_away() -> None:
    for seed in range(100):
        programme = draw(seed)
        for topic in programme.topic:
            sizes = [topic.queues, *(step.n for step in programme.step if step.topic == topic.name and step.n)]
            assert sizes == sorted(sizes)
