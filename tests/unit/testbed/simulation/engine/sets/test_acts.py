"""Each step about replica sets is done to a small cluster, and what cannot be done is left out."""

from __future__ import annotations

from dataclasses import replace

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
    )
    assert done == {"cut_register": 1, "lose_register_answers": 1, "restart": 2}
