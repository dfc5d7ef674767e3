"""Hand-made traces, whose figures are known to the millisecond."""

from __future__ import annotations

from typing import Any

import pytest

from client.allocate import AllocateMessageQueueAveragely
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from testbed.simulation.checks.ownership import OwnershipTracker

Q0, Q1, Q2, Q3 = (MessageQueue("t", "b", queue_id) for queue_id in range(4))


class Trace:
    """Feeds a tracker with events that are written as sentences."""

    def __init__(self) -> None:
        self.tracker = OwnershipTracker("g", "t", AllocateMessageQueueAveragely())
        self._seq = 0

    def event(self, t_ms: float, kind: EventKind, **fields: Any) -> None:
        self._seq += 1
        columns: dict[str, Any] = {"group": "g", **fields}
        self.tracker.process(Event(t_ms, "node", self._seq, kind.value, **columns))

    def acquires(self, t_ms: float, client: str, *queues: MessageQueue, token: int = 1) -> None:
        self._queues(t_ms, EventKind.QUEUE_ACQUIRED, client, queues, token)

    def drops(self, t_ms: float, client: str, *queues: MessageQueue) -> None:
        self._queues(t_ms, EventKind.QUEUE_DROPPED, client, queues, 1)

    def lease_ends(self, t_ms: float, client: str, *queues: MessageQueue, token: int = 1) -> None:
        self._queues(t_ms, EventKind.LOCK_EXPIRED, client, queues, token)

    def is_granted(self, t_ms: float, client: str, *queues: MessageQueue, token: int) -> None:
        self._queues(t_ms, EventKind.LOCK_GRANTED, client, queues, token)

    def pass_ends(self, t_ms: float, triggers: str, moved: int = 0) -> None:
        self.event(t_ms, EventKind.REBALANCE_END, n=moved, detail=f"{triggers} balanced")

    def _queues(
        self, t_ms: float, kind: EventKind, client: str, queues: tuple[MessageQueue, ...], version: int
    ) -> None:
        for topic, broker, queue_id in queues:
            self.event(t_ms, kind, topic=topic, broker=broker, queue_id=queue_id, client=client, version=version)


@pytest.fixture
def trace() -> Trace:
    return Trace()


@pytest.fixture
def pair(trace: Trace) -> Trace:
    """Members c1 and c2 with two queues each, all well since t=10."""
    trace.tracker.begin("start", 0)
    trace.tracker.expect(["c1", "c2"], [Q0, Q1, Q2, Q3], 0)
    trace.acquires(10, "c1", Q0, Q1)
    trace.acquires(10, "c2", Q2, Q3)
    assert trace.tracker.converged
    return trace


def test_a_group_has_converged_when_the_last_queue_is_with_its_target(trace: Trace) -> None:
    tracker = trace.tracker
    tracker.begin("c1 starts", 100)
    tracker.expect(["c1"], [Q0, Q1], 100)
    assert tracker.end().converged_ms is None
    trace.acquires(103, "c1", Q0)
    assert not tracker.converged
    trace.acquires(107, "c1", Q1)
    assert tracker.converged
    assert tracker.end().converged_ms == 7


def test_a_step_ends_with_what_the_join_moved_and_triggered(pair: Trace) -> None:
    tracker = pair.tracker
    tracker.begin("c3 joins", 50)
    tracker.expect(["c1", "c2", "c3"], [Q0, Q1, Q2, Q3], 50)  # c1: 0 1, c2: 2, c3: 3
    pair.event(51, EventKind.MEMBER_JOIN, client="c3")
    pair.drops(53, "c2", Q3)
    pair.pass_ends(54, "NOTIFY", moved=1)
    pair.acquires(57, "c3", Q3, token=2)
    pair.pass_ends(58, "START+LOCK", moved=1)
    step = tracker.end()
    assert (step.step, step.cause, step.trigger) == ("c3 joins", "MEMBER_JOIN", "NOTIFY+START+LOCK")
    assert (step.members, step.queues_moved, step.noticed_ms, step.converged_ms) == (3, 1, 1, 7)
    tracker.figures.advance(1000)
    assert tracker.figures.totals().orphan_ms == 4


def test_a_group_with_two_owners_of_a_queue_has_not_converged(pair: Trace) -> None:
    pair.acquires(20, "c2", Q0, token=2)
    assert not pair.tracker.converged
    pair.drops(26, "c2", Q0)
    pair.acquires(30, "c2", Q0, Q1, token=3)
    pair.drops(32, "c2", Q0, Q1)
    assert pair.tracker.converged


def test_a_claim_does_not_count_after_its_lease_ended_although_the_member_does_not_know(pair: Trace) -> None:
    pair.lease_ends(20, "c2", Q2, Q3)
    pair.acquires(25, "c1", Q2, Q3, token=2)
    assert pair.tracker.owners()[Q2] == ("c1",)
    pair.drops(40, "c2", Q2, Q3)
    assert pair.tracker.owners()[Q2] == ("c1",)


def test_a_member_that_gets_its_lease_back_goes_on_without_acquiring_again(pair: Trace) -> None:
    tracker = pair.tracker
    tracker.begin("c2 is cut off", 20)
    pair.lease_ends(20, "c2", Q2, Q3)
    assert not tracker.converged
    pair.is_granted(28, "c2", Q2, Q3, token=2)
    assert tracker.converged
    assert (tracker.end().converged_ms, tracker.end().queues_moved) == (8, 0)


def test_the_end_of_an_older_lease_says_nothing_about_the_newer_one(pair: Trace) -> None:
    pair.is_granted(20, "c2", Q2, token=2)
    pair.lease_ends(21, "c2", Q2, token=1)
    assert pair.tracker.converged


def test_a_grant_to_a_member_that_does_not_claim_the_queue_yet_is_not_a_claim(pair: Trace) -> None:
    pair.is_granted(20, "c1", Q2, token=2)
    assert pair.tracker.owners()[Q2] == ("c2",)


def test_converged_is_measured_to_the_last_time_that_everything_came_right(pair: Trace) -> None:
    pair.tracker.begin("c2 is cut off", 100)
    pair.lease_ends(101, "c2", Q2, Q3)
    pair.acquires(104, "c1", Q2, Q3, token=2)
    pair.drops(130, "c2", Q2, Q3)
    pair.drops(140, "c1", Q2, Q3)
    pair.acquires(145, "c2", Q2, Q3, token=3)
    step = pair.tracker.end()
    assert (step.converged_ms, step.queues_moved) == (45, 4)


def test_a_member_that_hangs_owns_its_queues_until_their_leases_end(pair: Trace) -> None:
    tracker = pair.tracker
    tracker.begin("c2 goes silent", 100)
    tracker.expect(["c1"], [Q0, Q1, Q2, Q3], 100)
    assert not tracker.converged
    assert tracker.owners()[Q2] == ("c2",)
    pair.event(3100, EventKind.MEMBER_LEAVE, client="c2", detail="expiry")
    pair.lease_ends(3100, "c2", Q2, Q3)
    pair.acquires(3104, "c1", Q2, Q3, token=2)
    step = tracker.end()
    assert (step.cause, step.noticed_ms, step.converged_ms) == ("MEMBER_LEAVE expiry", 3000, 3004)
    assert tracker.figures.totals().orphan_ms == 2 * 4


def test_queues_that_are_added_have_to_be_with_someone(pair: Trace) -> None:
    more = [MessageQueue("t", "b", 4), MessageQueue("t", "b", 5)]
    pair.tracker.begin("scale", 100)
    pair.event(101, EventKind.ROUTE_CHANGED, group="", topic="t", broker="b", n=6)
    pair.tracker.expect(["c1", "c2"], [Q0, Q1, Q2, Q3, *more], 102)  # c1: 0 1 2, c2: 3 4 5
    pair.drops(110, "c2", Q2)
    pair.acquires(112, "c2", *more)
    pair.acquires(115, "c1", Q2, token=2)
    step = pair.tracker.end()
    assert (step.cause, step.converged_ms, step.queues_moved) == ("ROUTE_CHANGED", 15, 3)


def test_a_queue_that_is_still_claimed_after_it_went_away_is_not_converged(pair: Trace) -> None:
    pair.tracker.expect(["c1", "c2"], [Q0, Q1], 20)
    pair.drops(22, "c1", Q1)
    pair.acquires(23, "c2", Q1, token=2)
    pair.drops(24, "c2", Q2)
    assert not pair.tracker.converged
    pair.drops(25, "c2", Q3)
    assert pair.tracker.converged
    assert list(pair.tracker.owners()) == [Q0, Q1]


def test_a_step_in_which_no_queue_has_to_move_ends_with_the_last_pass_that_looked(pair: Trace) -> None:
    tracker = pair.tracker
    tracker.begin("b restarts", 100)
    pair.event(101, EventKind.BROKER_DOWN, group="", client="c1", detail="127.0.0.1:1")
    pair.event(102, EventKind.BROKER_DOWN, group="", broker="b", detail="stop")
    pair.pass_ends(160, "RECONNECT")
    pair.pass_ends(175, "RECONNECT")
    step = tracker.end()
    assert (step.cause, step.trigger) == ("BROKER_DOWN", "RECONNECT")
    assert (step.converged_ms, step.queues_moved) == (75, 0)


def test_a_step_that_no_one_noticed_converged_at_once(pair: Trace) -> None:
    pair.tracker.begin("nothing", 100)
    assert (pair.tracker.end().noticed_ms, pair.tracker.end().converged_ms) == (None, 0)


def test_a_timer_that_finds_nothing_to_do_is_not_put_down_to_a_step(pair: Trace) -> None:
    pair.tracker.begin("b restarts", 100)
    pair.pass_ends(150, "RECONNECT")
    pair.pass_ends(900, "TIMER")
    assert (pair.tracker.end().trigger, pair.tracker.end().converged_ms) == ("RECONNECT", 50)
    pair.pass_ends(950, "TIMER", moved=1)
    assert pair.tracker.end().trigger == "RECONNECT+TIMER"


def test_the_same_owner_again_is_not_a_move(pair: Trace) -> None:
    pair.tracker.begin("flicker", 100)
    pair.drops(101, "c1", Q0)
    pair.acquires(105, "c1", Q0, token=2)
    assert (pair.tracker.end().queues_moved, pair.tracker.end().converged_ms) == (0, 5)


def test_other_groups_topics_and_retry_queues_are_not_looked_at(pair: Trace) -> None:
    pair.event(20, EventKind.QUEUE_DROPPED, group="other", topic="t", broker="b", queue_id=0, client="c1")
    pair.event(20, EventKind.QUEUE_DROPPED, topic="%RETRY%g", broker="b", queue_id=0, client="c1")
    pair.tracker.begin("x", 20)
    pair.event(21, EventKind.REBALANCE_END, group="other", n=3, detail="NOTIFY balanced")
    pair.event(21, EventKind.MEMBER_JOIN, group="other", client="c9")
    assert pair.tracker.converged
    assert (pair.tracker.end().trigger, pair.tracker.end().cause) == ("", "")


def test_quiet_means_that_no_queue_moved_and_no_one_looked(pair: Trace) -> None:
    tracker = pair.tracker
    tracker.begin("x", 100)
    assert tracker.quiet_ms(130) == 30
    pair.drops(140, "c1", Q0)
    assert tracker.quiet_ms(150) == 10
    pair.pass_ends(160, "NOTIFY")
    assert tracker.quiet_ms(161) == 1


def test_without_members_every_group_has_converged(trace: Trace) -> None:
    trace.tracker.expect([], [Q0, Q1], 0)
    assert trace.tracker.converged
