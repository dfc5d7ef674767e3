"""The judge sends what happens to the checkers of a group, and returns what they found."""

from __future__ import annotations

import pytest

from model.events import Event, EventKind
from model.limits import MAX_SIM_FINDINGS
from model.message_queue import MessageQueue
from testbed.simulation.engine.checkers import Call, Checkers
from testbed.simulation.engine.programme import GroupPart, Programme, PromisePart, Step
from traces.check.ledger import Ending, SentMessage

QUEUE = MessageQueue("orders", "broker-a", 0)
GROUPS = (
    GroupPart(name="plain"),
    GroupPart(name="keys", order="key"),
    GroupPart(name="queues", order="queue"),
    GroupPart(name="pops", mode="pop"),
)


class Clock:
    """A clock that a test sets."""

    now_ms = 1_000.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def checkers(clock: Clock) -> Checkers:
    return Checkers(Programme(group=GROUPS), clock)


def call(group: str, number: int = 0, offset: int = 0, key: str = "") -> Call:
    return Call(group, "c1", SentMessage(0, number), QUEUE, offset, key, b"%d" % number)


def granted(group: str, client: str, seq: int) -> Event:
    return Event(1_000.0, "broker-a", seq, EventKind.LOCK_GRANTED, "", group, *QUEUE, client)


@pytest.mark.parametrize("group", ["plain", "keys", "queues"])
def test_a_lease_that_two_have_is_a_double_owner_in_any_group_that_pulls(checkers: Checkers, group: str) -> None:
    checkers.event(granted(group, "c1", 1))
    assert not checkers.is_broken
    checkers.event(granted(group, "c2", 2))
    assert checkers.is_broken
    (finding, *_) = checkers.finish(all_consumed=False)
    assert finding.kind == "double-owner"
    assert len(finding.witness) == 2


def test_every_group_has_to_be_done_with_what_was_acknowledged(checkers: Checkers) -> None:
    checkers.acknowledged(SentMessage(0, 0), b"0", QUEUE, 0, "k")
    assert checkers.lag == 4
    for group in ("plain", "keys"):
        checkers.dispatched(call(group, key="k"))
        checkers.ended(call(group, key="k"), Ending.PROCESSED)
    checkers.dead("pops", SentMessage(0, 0), b"0")
    assert checkers.lag == 1
    assert checkers.finish(all_consumed=False) == ()
    assert [str(finding) for finding in checkers.finish(all_consumed=True)] == [
        "lost-write: queues was given none of 1 messages"
    ]


def test_a_message_that_failed_is_not_done(checkers: Checkers) -> None:
    checkers.acknowledged(SentMessage(0, 0), b"0", QUEUE, 0, "")
    checkers.dispatched(call("plain"))
    checkers.ended(call("plain"), Ending.FAILED)
    assert checkers.lag == 4
    checkers.dead("plain", SentMessage(0, 0), b"0")
    assert checkers.lag == 3
    assert checkers.dead_letters == 1


def test_what_is_left_out_is_named_and_keys_may_overtake_each_other(checkers: Checkers) -> None:
    for number in (0, 1, 2):
        checkers.acknowledged(SentMessage(0, number), b"%d" % number, QUEUE, number, str(number))
    for group in ("plain", "keys"):
        checkers.dispatched(call(group, 0, 0, "0"))
        checkers.dispatched(call(group, 2, 2, "2"))
    assert [finding.kind for finding in checkers.finish(all_consumed=False)] == ["poll-skip"]


def test_a_popped_message_is_redelivered_only_before_its_acknowledgement(checkers: Checkers) -> None:
    checkers.acknowledged(SentMessage(0, 0), b"0", QUEUE, 0, "")
    checkers.dispatched(call("pops"))
    checkers.dispatched(call("pops"))
    assert (checkers.deliveries, checkers.redelivered) == (2, 1)
    checkers.pops["pops"].acknowledged(QUEUE, 0, 1.0)
    checkers.dispatched(call("pops"))
    assert [finding.kind for finding in checkers.finish(all_consumed=False)] == ["duplicate"]


def test_the_true_time_counts_where_clocks_are_skewed(clock: Clock) -> None:
    skew = Step(at_s=0.0, do="clock_skew", who="plain-1", by_s=99.0)
    checkers = Checkers(Programme(group=GROUPS[:1], step=(skew,)), clock)
    checkers.event(granted("plain", "c1", 1)._replace(t_ms=99_000.0))
    checkers.event(granted("plain", "c2", 2))
    assert [event.t_ms for event in checkers.finish(all_consumed=False)[0].witness] == [1_000.0, 1_000.0]


def test_a_message_that_waits_for_too_long_was_in_a_queue_that_no_one_read(clock: Clock) -> None:
    checkers = Checkers(Programme(group=GROUPS[:1], promise=PromisePart(wait_s=5.0)), clock)
    for number in (0, 1):
        checkers.acknowledged(SentMessage(0, number), b"%d" % number, QUEUE, number, "")
    clock.now_ms += 4_000
    checkers.dispatched(call("plain", 0, 0))
    clock.now_ms += 2_000
    checkers.dispatched(call("plain", 0, 0))
    assert not checkers.is_broken, "it came in time, and once more"
    checkers.dispatched(call("plain", 1, 1))
    assert [str(finding) for finding in checkers.finish(all_consumed=False)] == [
        "orphan: orders@broker-a:0 was not read: offset 1 waited 6.0 s for c1"
    ]


def test_what_the_engine_sees_has_the_last_events_of_the_queue_as_its_witness(checkers: Checkers) -> None:
    checkers.event(granted("plain", "c1", 1))
    checkers.find("orphan", "not converged", QUEUE)
    for n in range(MAX_SIM_FINDINGS):
        checkers.find("orphan", str(n))
    found = checkers.finish(all_consumed=False)
    assert len(found) == MAX_SIM_FINDINGS
    assert found[0].witness == (granted("plain", "c1", 1),)


def test_a_broker_that_was_killed_has_no_notification_due(checkers: Checkers, clock: Clock) -> None:
    joined = Event(
        1_000.0, "broker-a", 1, EventKind.MEMBER_JOIN, "", "plain", "", "broker-a", client="c1", version=1, n=2
    )
    checkers.event(joined)
    checkers.event(Event(clock.now_ms, "simulation", 1, EventKind.BROKER_DOWN, broker="broker-a", detail="killed"))
    clock.now_ms += 50_000
    checkers.event(joined._replace(t_ms=51_000.0, node="broker-b", broker="broker-b"))
    assert not checkers.is_broken
