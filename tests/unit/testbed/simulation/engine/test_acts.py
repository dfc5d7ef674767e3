"""Each verb does to the cluster what it says, and everything is repaired afterwards: one run with all of them."""

from __future__ import annotations

from collections import Counter

import pytest

from model.events import Event, EventKind
from testbed.simulation.engine.programme import ClusterPart, GroupPart, LoadPart, Programme, Step, TopicPart
from testbed.simulation.engine.run import Outcome, run_programme
from testbed.simulation.engine.verbs import REPLICA, VERBS
from testbed.simulation.kernel.run import EPOCH_MS

pytestmark = pytest.mark.walk

NOTIFY = "NOTIFY_CONSUMER_IDS_CHANGED"
STEPS = (
    Step(at_s=1.0, do="crash", who="g-1"),
    Step(at_s=2.0, do="start", who="g-1"),
    Step(at_s=2.1, do="start", who="g-1"),  # it runs already
    Step(at_s=3.0, do="drop_code", who="g-2", code=NOTIFY, for_s=3.0),
    Step(at_s=3.0, do="delay_code", who="g-3", code=NOTIFY, by_s=2.0, for_s=3.0),
    Step(at_s=4.0, do="stop", who="g-1"),
    Step(at_s=9.0, do="restart", who="g-2", for_s=1.0),
    Step(at_s=9.0, do="pause", who="g-3", for_s=8.0),
    Step(at_s=12.0, do="duplicate_id", who="g-2", for_s=1.0),
    Step(at_s=18.0, do="clock_skew", who="g-4", by_s=1_000.0, for_s=1.0),
    Step(at_s=18.5, do="unsubscribe", who="g-4", topic="orders"),
    Step(at_s=20.0, do="subscribe", who="g-4", topic="orders"),
    Step(at_s=21.0, do="cut", who="broker-a"),
    Step(at_s=22.0, do="partition", who="producer-1", to="broker-b", one_way=True, for_s=8.0),
    Step(at_s=31.0, do="delay", who="producer-1", to="broker-a", by_s=0.2, for_s=1.0),
    Step(at_s=31.0, do="delay_heartbeats", who="g-3", by_s=1.0, for_s=3.0),
    Step(at_s=31.0, do="stale_route", who="g-4", for_s=8.0),
    Step(at_s=32.0, do="scale", topic="orders", n=3),
    Step(at_s=32.0, do="partition", who="broker-a", to="g-3", for_s=2.0),
    Step(at_s=33.0, do="half_open", who="g-3", to="broker-a", for_s=3.0),
    Step(at_s=34.0, do="slow", who="g-3", by_s=1.0, for_s=2.0),
    Step(at_s=35.0, do="flap", who="g-2", n=2, period_s=1.0),
    Step(at_s=38.0, do="full_disk", who="broker-a", for_s=4.0),
    Step(at_s=39.0, do="crash_at_change", who="broker-b", n=2),
    Step(at_s=42.0, do="start", who="broker-b"),
    Step(at_s=44.0, do="power_cut", who="broker-b", for_s=1.0),
    Step(at_s=47.0, do="crash", who="producer-1"),
    Step(at_s=48.0, do="start", who="producer-1"),
    Step(at_s=49.0, do="heal"),
    Step(at_s=50.0, do="crash", who="namesrv-1"),
    Step(at_s=51.0, do="pause", who="g-3"),  # until all is repaired
)
PROGRAMME = Programme(
    cluster=ClusterPart(flush="sync", sync_s=0.001),
    topic=(TopicPart(name="orders", queues=2),),
    group=(GroupPart(name="g", members=4, session_s=4.0),),
    load=LoadPart(producers=1, messages=400, pause_s=0.2),
    step=STEPS,
)


@pytest.fixture(scope="module")
def run() -> tuple[Outcome, list[Event]]:
    events: list[Event] = []
    return run_programme(PROGRAMME, watch=events.append), events


def of(events: list[Event], kind: EventKind, after_s: float, before_s: float, **columns: object) -> list[Event]:
    """The events of a kind between two times of the programme, which begins within a second."""
    return [
        event
        for event in events
        if event.kind == kind
        and after_s <= (event.t_ms - EPOCH_MS) / 1000 - 0.5 <= before_s
        and all(getattr(event, name) == value for name, value in columns.items())
    ]


def test_every_verb_is_done_and_the_cluster_keeps_its_promises(run: tuple[Outcome, list[Event]]) -> None:
    outcome, _ = run
    assert outcome.findings == ()
    judged = {"heal", "heal_core", "bit_rot"}
    assert set(outcome.acts) == {name for name, verb in VERBS.items() if verb.who != (REPLICA,)} - judged
    assert Counter(step.do for step in STEPS)["start"] == outcome.acts["start"] + 1, "one could not be done"
    assert len(outcome.converged_s) == 2, "at the step heal and at the end"
    assert outcome.sent > 200


def test_members_and_what_they_are_reported(run: tuple[Outcome, list[Event]]) -> None:
    _, events = run
    assert of(events, EventKind.MEMBER_LEAVE, 0.5, 3.0), "the crash"
    received = of(events, EventKind.NOTIFY_RECEIVED, 3.5, 8.0)
    assert {event.node.partition("@")[0] for event in received} == {"g-3", "g-4"}, "what came to g-2 was lost"
    times = {event.node.partition("@")[0]: event.t_ms for event in reversed(received)}
    assert times["g-3"] - times["g-4"] == pytest.approx(2_000, abs=50)
    assert of(events, EventKind.MEMBER_LEAVE, 12.0, 15.0, detail="expiry"), "g-3 hung for longer than its session"
    assert of(events, EventKind.CLIENT_ID_CONFLICT, 11.0, 14.0)
    assert of(events, EventKind.SUBSCRIPTION_CHANGE, 18.0, 20.0) or of(events, EventKind.MEMBER_JOIN, 18.0, 20.0)
    skewed = of(events, EventKind.QUEUE_DROPPED, 1_017.0, 1_020.0)
    assert {event.node.partition("@")[0] for event in skewed} == {"g-4"}, "its clock is ahead"


def test_topics_and_disks(run: tuple[Outcome, list[Event]]) -> None:
    _, events = run
    assert {event.queue_id for event in events if event.kind == EventKind.QUEUE_ACQUIRED} == {0, 1, 2}
    assert of(events, EventKind.BROKER_UP, 44.0, 60.0) or of(events, EventKind.BROKER_DOWN, 43.0, 60.0)


def test_who_gets_the_trace_is_reported_of_paths_that_are_closed_and_of_brokers_that_are_killed(
    run: tuple[Outcome, list[Event]],
) -> None:
    _, events = run
    [began] = of(events, EventKind.FAULT_BEGAN, 0.0, 60.0)
    assert (began.broker, began.detail) == ("broker-a", "partition client=g-3"), "a producer needs no owner"
    [healed] = of(events, EventKind.FAULT_HEALED, 0.0, 60.0, cause=began.id)
    assert healed.t_ms - began.t_ms == 2_000
    assert of(events, EventKind.BROKER_DOWN, 40.0, 50.0, node="simulation", broker="broker-b")


def test_a_full_disk_fails_sends_until_there_is_room() -> None:
    full = Step(at_s=1.0, do="full_disk", who="broker-a", for_s=2.0)
    load = LoadPart(messages=40, pause_s=0.2)
    outcome = run_programme(Programme(cluster=ClusterPart(brokers=1), load=load, lasts_s=6.0, step=(full,)))
    assert outcome.ok
    assert outcome.failed_sends > 0
    assert outcome.sent > 20


def test_a_step_that_never_ends_is_left_out_and_breaks_nothing() -> None:
    steps = (Step(at_s=1.0, do="pause", who="namesrv-1"), Step(at_s=2.0, do="scale", topic="orders", n=6))
    outcome = run_programme(Programme(load=LoadPart(messages=10), lasts_s=70.0, step=steps))
    assert outcome.findings == ()
    assert outcome.acts == {"pause": 1}
