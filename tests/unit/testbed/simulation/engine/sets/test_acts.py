"""Each step about replica sets is done to a small cluster, and what cannot be done is left out."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from model.events import Event, EventKind
from testbed.simulation.engine.programme import ClusterPart, GroupPart, LoadPart, Programme, Step, TopicPart
from testbed.simulation.engine.run import run_programme

SMALL = Programme(
    seed=3,
    lasts_s=12.0,
    cluster=ClusterPart(brokers=1, copies=2),
    topic=(TopicPart(name="orders", queues=1),),
    group=(GroupPart(name="billing", members=1, session_s=4.0),),
    load=LoadPart(producers=1, messages=20, pause_s=0.4),
)


def steps(*steps: Step) -> dict[str, int]:
    """Run these steps; returns how often each was done. The run has to keep its promises."""
    outcome = run_programme(replace(SMALL, step=steps))
    assert outcome.findings == ()
    return outcome.acts


def test_a_handover_is_done_and_one_to_the_master_itself_is_left_out() -> None:
    done = steps(
        Step(at_s=1.0, do="hand_over", who="broker-a-1"),
        Step(at_s=2.0, do="hand_over", who="broker-a-2"),
        Step(at_s=3.0, do="hand_over", who="broker-a-1"),
    )
    assert done == {"hand_over": 2}


def test_a_replica_is_elected_while_the_master_hangs_which_serves_nothing_when_it_wakes_up() -> None:
    done = steps(
        Step(at_s=1.0, do="pause", who="broker-a-1", for_s=7.0),
        Step(at_s=2.0, do="elect", who="broker-a-2"),
    )
    assert done == {"pause": 1, "elect": 1}


def test_a_replica_that_dies_between_two_changes_of_its_disk_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    done = steps(
        Step(at_s=1.0, do="crash_at_change", who="broker-a-2", n=3),
        Step(at_s=3.0, do="start", who="broker-a-2"),
        Step(at_s=4.0, do="crash", who="broker-a-1"),
        Step(at_s=4.1, do="crash_at_change", who="broker-a-1", n=5),
        Step(at_s=4.2, do="start", who="broker-a-1"),
        Step(at_s=7.0, do="start", who="broker-a-1"),
    )
    assert done == {"crash_at_change": 2, "crash": 1, "start": 3}


def test_a_master_that_stands_still_is_replaced_and_serves_no_more_when_it_goes_on() -> None:
    elects = replace(SMALL, cluster=replace(SMALL.cluster, elect="auto", rates_apart=0.05))
    for step in (
        Step(at_s=1.0, do="freeze_master", who="broker-a-2", for_s=6.0),
        Step(at_s=1.0, do="pause_vm", who="broker-a-1", for_s=6.0),
    ):
        events: list[Event] = []
        outcome = run_programme(replace(elects, step=(step,)), watch=events.append)
        assert outcome.findings == ()
        assert outcome.acts == {step.do: 1}
        masters = [event.detail.split()[1] for event in events if event.kind == EventKind.MASTER_ELECTED]
        assert masters[:2] == ["1", "2"]


def test_an_old_copy_of_a_directory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(at_s=2.0, do="put_back", who="broker-a-2", for_s=1.0)
    assert steps(step) == {"put_back": 1}
    monkeypatch.setattr("replica.membership.check_identity", lambda identity, row, **_: row)
    assert run_programme(replace(SMALL, step=(step,))).kinds == ("bad-start",)


def test_a_replica_is_elected_only_while_the_master_is_down() -> None:
    done = steps(
        Step(at_s=1.0, do="elect", who="broker-a-2"),
        Step(at_s=2.0, do="crash", who="broker-a-1"),
        Step(at_s=3.0, do="elect", who="broker-a-2"),
        Step(at_s=6.0, do="start", who="broker-a-1"),
    )
    assert done == {"crash": 1, "elect": 1, "start": 1}


def test_a_register_that_is_away_or_loses_answers_costs_nothing_that_was_acknowledged() -> None:
    done = steps(
        Step(at_s=1.0, do="cut_register", who="broker-a-1", for_s=2.0),
        Step(at_s=1.5, do="restart", who="broker-a-2", for_s=0.5),
        Step(at_s=4.0, do="lose_register_answers", who="broker-a-1", n=2),
        Step(at_s=4.5, do="restart", who="broker-a-2", for_s=0.5),
        Step(at_s=6.0, do="delay_register", who="broker-a-1", by_s=0.8, for_s=4.0),
        Step(at_s=6.5, do="restart", who="broker-a-2", for_s=0.5),
        Step(at_s=9.0, do="cut_register", who="broker-a-1", one_way=True, for_s=2.0),
        Step(at_s=9.5, do="restart", who="broker-a-2", for_s=0.5),
    )
    assert done == {"cut_register": 2, "lose_register_answers": 1, "delay_register": 1, "restart": 4}


def test_a_process_that_stands_still_is_asked_in_vain_and_ends_when_it_goes_on() -> None:
    elects = replace(SMALL, cluster=replace(SMALL.cluster, elect="auto"))
    stops = (
        Step(at_s=1.0, do="freeze_master", who="broker-a-1", for_s=6.0),
        Step(at_s=1.5, do="hand_over", who="broker-a-2"),
        Step(at_s=2.0, do="restart", who="broker-a-1", for_s=0.5),
    )
    outcome = run_programme(replace(elects, step=stops))
    assert outcome.findings == ()
    assert outcome.acts == {"freeze_master": 1, "restart": 1}
