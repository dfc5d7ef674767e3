"""Each problem is found by its name where it is planted, and a healthy cluster has none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from client.admin.records import BrokerInfo, GroupInfo, GroupMemberInfo, QueueProgress, QueueRange, TopicInfo
from metrics.doctor.problems import Problem
from metrics.doctor.rules import diagnose
from metrics.doctor.snapshot import ObservedBroker, ObservedNameServer, Snapshot
from model.events import Event, EventKind
from model.group_agreement import Disagreement, Side
from model.group_settings import GroupSettings
from model.heartbeat import ConsumeType, MessageModel
from model.message_queue import MessageQueue
from model.subscription import make_subscription
from model.topic_route import TopicConfig
from tests.docs.pages import ROOT
from tests.unit.metrics.doctor.doctor_copies import copies_of, replica
from traces.figures.clocks.clocks import ClockFault

pytestmark = pytest.mark.walk

QUEUE = MessageQueue("t", "b", 0)
MEMBER = GroupMemberInfo(
    client_id="c1",
    address="h:1",
    subscriptions=(make_subscription("t", "*", 0),),
    strategy="AVG",
    model=MessageModel.CLUSTERING,
    consume_type=ConsumeType.PASSIVELY,
    expires_in_s=100,
    queues=(QUEUE,),
    brokers=("b",),
)
PROGRESS = QueueProgress(queue=QUEUE, min_offset=0, max_offset=100, committed=100, owner="c1", targets=("c1",))
GROUP = GroupInfo(
    group="g",
    version=1,
    created_ms=0,
    members=(MEMBER,),
    queues=(PROGRESS,),
    disagreements=(),
    unknown_strategies=(),
    unreachable=(),
)
BROKER = BrokerInfo(
    name="b",
    cluster="c",
    address="h:2",
    uptime_s=60,
    topics=(
        TopicInfo(
            config=TopicConfig(topic="t", read_queue_nums=1, write_queue_nums=1),
            ranges=(QueueRange(min_offset=0, max_offset=100),),
        ),
    ),
    groups=1,
    held_pulls=0,
    producers=0,
    events_dropped=0,
    quirks=(),
    disk_free_bytes=50,
    disk_total_bytes=100,
)
SEEN = ObservedBroker(name="b", address="h:2", info=BROKER, clock_ahead_ms=20)
HEALTHY = Snapshot(
    name_servers=(
        ObservedNameServer(address="n1", brokers={"b": "h:2"}),
        ObservedNameServer(address="n2", brokers={"b": "h:2"}),
    ),
    brokers=(SEEN,),
    groups={"g": (GROUP, GROUP)},
    interval_s=5,
    events=(Event(1.0, "b", 1, EventKind.MEMBER_JOIN, "b/1", group="g", client="c1"),),
    minutes=10,
)


def group(**changes: Any) -> Snapshot:
    """A group that is so at both looks."""
    changed = replace(GROUP, **changes)
    return replace(HEALTHY, groups={"g": (changed, changed)})


def broker(**changes: Any) -> Snapshot:
    return replace(HEALTHY, brokers=(replace(SEEN, info=replace(BROKER, **changes)),))


def happened(kind: EventKind, **columns: Any) -> Snapshot:
    return replace(HEALTHY, events=(*HEALTHY.events, Event(2.0, "c1", 2, kind, "c1/2", group="g", **columns)))


def progress(**changes: Any) -> QueueProgress:
    return replace(PROGRESS, **changes)


def joins(n: int, kinds: Sequence[EventKind] = (EventKind.MEMBER_JOIN,), *, since_ms: float = 0.0) -> tuple[Event, ...]:
    """A member a second, of which each event has one of these kinds."""
    return tuple(
        Event(since_ms + k * 1_000.0, "b", k, kind, f"x/{k}", group="g", broker="b", client=f"c{k}")
        for k in range(n)
        for kind in kinds
    )


DAMAGED = TopicInfo(
    config=TopicConfig(topic="t", read_queue_nums=1, write_queue_nums=1),
    ranges=(QueueRange(min_offset=0, max_offset=100, damaged=3),),
)
HELD_BY = "a message for topic 'bills' that is delayed until 2027-01-04 12:00:00 UTC holds back 9 segments; wait for it"
PLANTED: dict[Problem, Snapshot] = {
    Problem.NAME_SERVER_AWAY: replace(
        HEALTHY, name_servers=(HEALTHY.name_servers[0], ObservedNameServer(address="n2", error="refused"))
    ),
    Problem.NAME_SERVERS_DIFFER: replace(
        HEALTHY, name_servers=(HEALTHY.name_servers[0], ObservedNameServer(address="n2", brokers={}))
    ),
    Problem.BROKER_AWAY: replace(HEALTHY, brokers=(ObservedBroker(name="b", address="h:2", error="refused"),)),
    Problem.WRONG_BROKER: broker(name="other"),
    Problem.MASTER_AWAY: replace(HEALTHY, sets=copies_of(replica(1, failure="refused"), replica(2))),
    Problem.ONE_COPY: replace(HEALTHY, sets=copies_of(replica(1), replica(2, in_sync=False, failure="refused"))),
    Problem.COPIES_MISSING: replace(
        HEALTHY, sets=copies_of(replica(1), replica(2), replica(3, in_sync=False, state="catching up", lag_bytes=9))
    ),
    Problem.REGISTER_TOGETHER: replace(HEALTHY, sets=copies_of(replica(1, register_at=("h1:9876",)), replica(2))),
    Problem.LEASE_SHORT: replace(HEALTHY, sets=copies_of(replica(1, lease_margin_s=0.1), replica(2))),
    Problem.COPIES_TOGETHER: replace(HEALTHY, sets=copies_of(replica(1), replica(2, address="h1:2"))),
    Problem.REGISTER_AWAY: replace(HEALTHY, sets=copies_of(replica(1), replica(2, register_answers=False))),
    Problem.CLOCKS_APART: replace(HEALTHY, brokers=(replace(SEEN, clock_ahead_ms=-3_600_000),)),
    Problem.DISK_FULL: broker(disk_full=True, disk_free_bytes=0),
    Problem.DISK_FILLS: broker(disk_free_bytes=9),
    Problem.DISK_HANGS: broker(sync_running_s=2.5),
    Problem.LOG_HELD: broker(log_held_bytes=9 << 20, log_held_by=HELD_BY),
    Problem.MESSAGES_DAMAGED: broker(topics=(DAMAGED,)),
    Problem.MASTER_DAMAGED: replace(broker(topics=(DAMAGED,)), sets=copies_of(replica(1), replica(2))),
    Problem.EVENTS_LOST: broker(events_dropped=4),
    Problem.QUIRKS_ON: broker(quirks=("OVERLAPPING_HANDOVER",)),
    Problem.MEMBERS_DISAGREE: group(
        disagreements=(
            Disagreement(
                what="strategy", sides=(Side(value="AVG", members=("c1",)), Side(value="HASH", members=("c2",)))
            ),
        )
    ),
    Problem.MEMBER_UNKNOWN: group(
        members=(replace(MEMBER, brokers=("b", "b2")), replace(MEMBER, client_id="c2", queues=(), brokers=("b",)))
    ),
    Problem.QUEUES_WITHOUT_OWNER: group(queues=(progress(owner=None),)),
    Problem.LAG_GROWS: replace(
        HEALTHY,
        groups={"g": (GROUP, replace(GROUP, queues=(progress(max_offset=900, committed=500),)))},
    ),
    Problem.QUEUE_STUCK: group(queues=(progress(committed=40),)),
    Problem.LISTENER_HANGS: happened(EventKind.LISTENER_TIMED_OUT, client="c1", n=2, detail="on_order t"),
    Problem.GROUP_OFF: group(settings={"b": GroupSettings(consume=False)}),
    Problem.MEMBER_SUSPENDED: group(members=(replace(MEMBER, suspended=True),)),
    Problem.DEAD_LETTERS: happened(EventKind.DEAD_LETTER, topic="t", n=1),
    Problem.MESSAGES_MISSED: happened(EventKind.OFFSET_MOVED, topic="t", client="c1", n=9, detail="deleted"),
    Problem.CLIENT_ID_TWICE: happened(EventKind.CLIENT_ID_CONFLICT, client="c1", detail="h:9"),
    Problem.GROUP_RESTLESS: replace(HEALTHY, events=joins(40, (EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE))),
}


def test_every_trouble_is_planted_and_described() -> None:
    assert set(PLANTED) == set(Problem)
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)`", page, re.MULTILINE) == [each.value for each in Problem]


@pytest.mark.parametrize("problem", Problem)
def test_a_trouble_is_found_by_its_name_and_nothing_else_is(problem: Problem) -> None:
    found = diagnose(PLANTED[problem])
    assert [each.problem for each in found] == [problem]
    assert (ROOT / "docs" / found[0].docs).exists()
    assert len(found[0].evidence) > 5 < len(found[0].remedy)


def test_members_that_start_or_are_restarted_and_a_broker_that_was_away_make_no_group_restless() -> None:
    started = joins(20)
    left = joins(5, (EventKind.MEMBER_LEAVE,), since_ms=60_000)
    again = tuple(event._replace(t_ms=event.t_ms + 70_000, client=f"new-{event.client}") for event in joins(5))
    up = Event(120_000.0, "b", 99, EventKind.BROKER_UP, "b/99", broker="b")
    back = joins(20, since_ms=120_500)
    assert diagnose(replace(HEALTHY, events=started)) == []
    assert diagnose(replace(HEALTHY, events=(*started, *left, *again))) == []
    assert diagnose(replace(HEALTHY, events=(*started, *left, *again, up, *back))) == []


def test_the_clock_of_a_client_is_found_by_its_events_and_that_of_a_broker_is_asked_for() -> None:
    clocks = (ClockFault(node="c1", ahead_ms=2_000.0), ClockFault(node="b", ahead_ms=2_000.0))
    [found] = diagnose(replace(HEALTHY, clocks=clocks))
    assert (found.problem, found.subject) == (Problem.CLOCKS_APART, "client c1")
    assert found.evidence.startswith("the clock of c1 is 2 s ahead")


def test_a_healthy_cluster_has_no_finding() -> None:
    assert diagnose(HEALTHY) == []


def test_the_holder_of_a_log_over_its_limits_is_named() -> None:
    [found] = diagnose(PLANTED[Problem.LOG_HELD])
    assert (found.subject, found.evidence) == ("broker b", HELD_BY)


def test_what_is_over_at_the_second_look_is_not_a_finding() -> None:
    orphaned, stuck = replace(GROUP, queues=(progress(owner=None),)), replace(GROUP, queues=(progress(committed=40),))
    assert diagnose(replace(HEALTHY, groups={"g": (orphaned, GROUP), "h": (stuck, GROUP)})) == []


def test_a_broadcasting_group_owns_nothing_and_is_not_missed() -> None:
    member = replace(MEMBER, model=MessageModel.BROADCASTING)
    assert diagnose(group(members=(member,), queues=(progress(owner=None),))) == []


def test_a_clock_is_as_far_away_as_the_round_trip_lets_one_say() -> None:
    far = replace(SEEN, clock_ahead_ms=3_000, round_trip_ms=2_500)
    assert diagnose(replace(HEALTHY, brokers=(far,))) == []
