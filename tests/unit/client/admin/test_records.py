from __future__ import annotations

from dataclasses import replace

import pytest

from client.admin.records import (
    AssignmentInfo,
    BrokerInfo,
    GroupInfo,
    GroupMemberInfo,
    GroupReport,
    PoppedQueue,
    QueueProgress,
    QueueRange,
)
from model.assignment import MemberAssignment
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, MessageModel
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData
from model.topic_route import READ_WRITE, TopicConfig

QUEUE = MessageQueue("t", "broker-a", 0)
CONSUMER = ConsumerData(
    group="g",
    consume_type=ConsumeType.PASSIVELY,
    model=MessageModel.CLUSTERING,
    consume_from=ConsumeFrom.LAST_OFFSET,
    strategy="AVG",
    subscriptions=(SubscriptionData("t"),),
    session_timeout_s=120.0,
)


def progress(**parts: object) -> QueueProgress:
    whole = QueueProgress(queue=QUEUE, min_offset=10, max_offset=30, committed=25, owner="c1", targets=("c1",))
    return replace(whole, **parts)  # type: ignore[arg-type]


def group(*queues: QueueProgress, **parts: object) -> GroupInfo:
    whole = GroupInfo(
        group="g",
        version=1,
        created_ms=1,
        members=(),
        queues=queues,
        disagreements=(),
        unknown_strategies=(),
        unreachable=(),
    )
    return replace(whole, **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("committed", "deleted"), [(None, 0), (4, 6), (10, 0), (25, 0)])
def test_messages_that_were_deleted_before_they_were_read_are_counted(committed: int | None, deleted: int) -> None:
    assert progress(committed=committed).deleted == deleted


@pytest.mark.parametrize(
    ("committed", "end", "lag"),
    [(25, 30, 5), (30, 30, 0), (4, 30, 20), (None, 30, None), (None, 10, 0)],
    ids=["behind", "done", "before what is still held", "never committed", "nothing there"],
)
def test_the_lag_counts_what_can_still_be_consumed(committed: int | None, end: int, lag: int | None) -> None:
    assert progress(committed=committed, max_offset=end).lag == lag


@pytest.mark.parametrize(("start", "lag"), [(12, 18), (4, 20), (30, 0)])
def test_a_queue_without_a_commit_has_the_lag_of_where_it_will_begin(start: int, lag: int) -> None:
    queue = progress(committed=None, start=start, max_offset=30)
    assert queue.lag == lag
    assert group(queue, progress()).lag == lag + 5
    assert progress(committed=25, start=start, max_offset=30).lag == 5


@pytest.mark.parametrize(
    ("owner", "targets", "settled"),
    [
        ("c1", ("c1",), True),
        (None, (), True),
        ("c2", ("c1",), False),
        (None, ("c1",), False),
        ("c1", (), False),
        ("c1", ("c1", "c2"), False),
    ],
)
def test_a_queue_is_settled_when_its_one_target_owns_it(
    owner: str | None, targets: tuple[str, ...], settled: bool
) -> None:
    assert progress(owner=owner, targets=targets).settled is settled


def test_a_group_is_balanced_when_every_queue_is_settled_and_every_strategy_known() -> None:
    assert group(progress(), progress()).balanced
    assert not group(progress(), progress(owner=None)).balanced
    assert not group(progress(), unknown_strategies=("MINE",)).balanced


def test_the_lag_of_a_group_leaves_out_what_is_not_known() -> None:
    assert group(progress(), progress(committed=None), progress(committed=20)).lag == 15


def test_a_broker_is_read_from_its_answer() -> None:
    config = TopicConfig(topic="t", read_queue_nums=2, write_queue_nums=1, perm=READ_WRITE)
    wire = {
        "name": "broker-a",
        "cluster": "c",
        "uptime_s": 1.5,
        "topics": [[*config.to_wire(), [[0, 3], [1, 1]]]],
        "groups": 1,
        "held_pulls": 2,
        "producers": 3,
        "events_dropped": 4,
        "quirks": ["SILENT_EXPIRY"],
    }
    info = BrokerInfo.from_wire("a:1", wire)
    topic = info.topic("t")
    assert topic is not None
    assert topic.config == config
    assert topic.ranges == (QueueRange(min_offset=0, max_offset=3), QueueRange(min_offset=1, max_offset=1))
    assert (info.held_pulls, info.producers, info.events_dropped, info.quirks) == (2, 3, 4, ("SILENT_EXPIRY",))


def test_what_a_broker_knows_of_a_group_is_read_from_its_two_answers() -> None:
    member = {
        "client_id": "c1",
        "address": None,
        "expires_in_s": 9.0,
        "consumer": CONSUMER.to_wire(),
        "queues": [["t", 0]],
    }
    connections = {"group": "g", "version": 5, "created_ms": 6, "members": [member]}
    report = GroupReport.from_wire("broker-a", connections, [["t", 0, 1, 9, -1, "", -1], ["t", 1, 1, 9, 4, "c1", 77]])
    assert (report.version, report.created_ms) == (5, 6)
    assert report.members[0].consumer == CONSUMER
    assert report.members[0].queues == (QUEUE,)
    assert report.members[0].address == ""
    assert report.queues[0] == QueueProgress(queue=QUEUE, min_offset=1, max_offset=9, committed=None, owner=None)
    assert (report.queues[1].committed, report.queues[1].owner) == (4, "c1")
    more = {"starts": [["t", 0, 3]], "damaged": [["t", 1, 2]], "sent": [["t", 1, -2]]}
    reported = GroupReport.from_wire(
        "broker-a", connections, [["t", 0, 1, 9, -1, "", -1], ["t", 1, 1, 9, 4, "c1", 77]], more
    )
    assert [(each.start, each.damaged, each.in_flight) for each in reported.queues] == [(3, 0, None), (None, 2, 0)]


def test_a_broker_that_does_not_know_the_group_gives_an_empty_report() -> None:
    assert GroupReport.from_wire("broker-a", None, None) == GroupReport(broker_name="broker-a")


def test_a_member_pops_all_topics_or_those_that_the_broker_says() -> None:
    member = GroupMemberInfo(
        client_id="c",
        address="",
        subscriptions=(SubscriptionData("%RETRY%g"), SubscriptionData("t"), SubscriptionData("u")),
        strategy="BROKER",
        model=MessageModel.CLUSTERING,
        consume_type=ConsumeType.PASSIVELY,
        expires_in_s=1.0,
        queues=(),
        brokers=(),
    )
    pops = replace(member, consume_type=ConsumeType.POP)

    def reported(*popped: str) -> GroupInfo:
        share = MemberAssignment(version=1, queues=(), popped=dict.fromkeys(popped, 0))
        assignment = AssignmentInfo(coordinator="a", version=1, members={"c": share}, modes=())
        return group(members=(member,), assignment=assignment)

    assert group().mode_of(member) == reported().mode_of(member) == "pull"
    assert group().mode_of(pops) == reported("t", "u").mode_of(member) == "pop"
    assert reported("t").mode_of(member) == "pull, pop"


def test_queues_that_are_popped_are_no_ones_and_not_stranded() -> None:
    member = GroupMemberInfo(
        client_id="c",
        address="",
        subscriptions=(SubscriptionData("%RETRY%g"), SubscriptionData("t")),
        strategy="AVG",
        model=MessageModel.CLUSTERING,
        consume_type=ConsumeType.POP,
        expires_in_s=1.0,
        queues=(),
        brokers=(),
    )
    lies = [replace(progress(owner=None, targets=()), queue=MessageQueue(topic, "a", 0)) for topic in ("t", "%RETRY%g")]
    info = group(*lies, members=(member,))
    assert info.stranded == ()
    assert info.balanced
    pulls = replace(info, members=(replace(member, consume_type=ConsumeType.PASSIVELY),))
    assert len(pulls.stranded) == 2


def test_a_row_about_popped_messages_is_read() -> None:
    row = ["t", 2, 5, 9, 3, 1, 1_500, 40, 2, False, [["b", 1], ["a", 2]]]
    assert PoppedQueue.from_wire("broker-a", row) == PoppedQueue(
        queue=MessageQueue("t", "broker-a", 2),
        first_unended=5,
        next_offset=9,
        in_flight=3,
        to_come_again=1,
        oldest_ms=1_500,
        next_visible_ms=40,
        most_attempts=2,
        handing_over=False,
        in_flight_of={"a": 2, "b": 1},
    )


def test_without_anything_in_flight_there_are_no_times() -> None:
    popped = PoppedQueue.from_wire("broker-a", ["t", 2, 5, 9, 0, 1, -1, -1, 1, True, []])
    assert (popped.oldest_ms, popped.next_visible_ms, popped.handing_over, popped.in_flight_of) == (
        None,
        None,
        True,
        {},
    )
