"""A run keeps its promises or says which it broke, and equal programmes give equal outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.events import Event
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.draw import draw
from testbed.simulation.engine.programme import ClusterPart, LoadPart, Programme, PromisePart, Step
from testbed.simulation.engine.run import run_programme

SHORT = Programme(load=LoadPart(messages=20, pause_s=0.1), step=(Step(at_s=1.0, do="crash", who="billing-1"),))


def test_equal_programmes_give_equal_outcomes_and_another_seed_another() -> None:
    programme = draw(5, "calm")
    first, again = run_programme(programme), run_programme(programme)
    assert first == again
    assert first.ok
    assert len(first.digest) == 64
    assert run_programme(replace(programme, seed=6)).digest != first.digest


def test_a_run_shows_every_event_and_what_it_came_to() -> None:
    events: list[Event] = []
    outcome = run_programme(SHORT, watch=events.append)
    assert outcome.ok
    assert outcome.events == len(events)
    assert outcome.sent == 20
    assert outcome.deliveries == 20 + outcome.again
    assert outcome.acts == {"crash": 1}
    assert outcome.kinds == ()


def test_a_group_that_does_not_converge_in_time_is_found() -> None:
    blocked = replace(SHORT.with_quirks(["LOCKS_SURVIVE_CLOSE"]), promise=PromisePart(converge_s=5.0))
    outcome = run_programme(blocked)
    assert "orphan" in outcome.kinds
    assert "not converged 5 s after the repair: %RETRY%billing@broker-a:0 should belong to" in str(outcome.findings)


def test_a_broker_that_takes_long_to_stop_is_not_blamed_for_what_it_hides_in_between() -> None:
    # Its name server does not answer when it unregisters, and an invisible time ends until it gives up.
    outcome = run_programme(draw(152, "pop"))
    assert outcome.acts["restart"] > 1
    assert outcome.ok, outcome.findings


def test_servers_that_are_down_start_before_the_last_steps_end() -> None:
    # A member's start waits for a broker that a full disk has kept from starting.
    outcome = run_programme(draw(869, "transactions"))
    assert outcome.acts["full_disk"] == 3
    assert outcome.ok, outcome.findings


def test_a_message_that_no_one_reads_is_lost() -> None:
    slow = [Step(at_s=0.0, do="slow", who=f"billing-{n}", by_s=3.0) for n in (1, 2, 3)]
    fewer = Step(at_s=1.0, do="scale", topic="orders", n=1)  # with what waits in the other queues
    load = LoadPart(messages=40, pause_s=0.05)
    outcome = run_programme(Programme(load=load, promise=PromisePart(settle_s=5.0), step=(*slow, fewer), lasts_s=5.0))
    assert outcome.kinds == ("lost-write",)
    assert "was acknowledged to its producer, and billing never processed it" in str(outcome.findings[0])


def test_a_breakdown_is_a_finding_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("planted\nand more")

    monkeypatch.setattr(SimulatedCluster, "differences", broken)
    outcome = run_programme(SHORT)
    assert [str(finding) for finding in outcome.findings] == ["breakdown: AssertionError: planted"]


def test_power_cuts_lose_what_is_answered_before_a_sync() -> None:
    cuts = tuple(Step(at_s=1.0 + n, do="power_cut", who="broker-a", for_s=0.1) for n in range(8))
    programme = Programme(
        cluster=ClusterPart(brokers=1, sync_s=0.05),
        load=LoadPart(producers=3, messages=300, pause_s=0.05),
        promise=PromisePart(settle_s=5.0),
        step=cuts,
    )
    assert "out-of-order" in run_programme(programme).kinds, "offsets were given twice"
    synced = replace(programme, cluster=ClusterPart(brokers=1, flush="sync", sync_s=0.05))
    assert run_programme(synced).kinds == ()
