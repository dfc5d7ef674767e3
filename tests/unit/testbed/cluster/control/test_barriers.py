"""Barriers: each names what is missing, and nothing exactly if it is so."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from client.admin.records import GroupInfo, GroupMemberInfo, QueueProgress
from model.events import Event, EventKind
from model.heartbeat import ConsumeType, MessageModel
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData
from testbed.cluster.control.barriers import (
    ends_of,
    is_client,
    not_consumed,
    not_gone,
    not_owned,
    not_passed,
    not_stable,
)

OWNERS = st.sampled_from([None, "h@c1", "h@c2"])


def member(client_id: str) -> GroupMemberInfo:
    return GroupMemberInfo(
        client_id=client_id,
        address="h:1",
        subscriptions=(),
        strategy="AVG",
        model=MessageModel.CLUSTERING,
        consume_type=ConsumeType.PASSIVELY,
        expires_in_s=1.0,
        queues=(),
        brokers=("broker-a",),
    )


def queue(n: int, owner: str | None, target: str | None, committed: int | None = 0, end: int = 0) -> QueueProgress:
    return QueueProgress(
        queue=MessageQueue("orders", "broker-a", n),
        min_offset=0,
        max_offset=end,
        committed=committed,
        owner=owner,
        targets=() if target is None else (target,),
    )


def group(*queues: QueueProgress, members: tuple[str, ...] = ("h@c1", "h@c2")) -> GroupInfo:
    return GroupInfo(
        group="g",
        version=1,
        created_ms=0,
        members=tuple(member(each) for each in members),
        queues=queues,
        disagreements=(),
        unknown_strategies=(),
        unreachable=(),
    )


@given(rows=st.lists(st.tuples(OWNERS, OWNERS), max_size=6), members=st.integers(0, 3))
def test_a_group_is_stable_when_each_queue_has_its_target_and_it_has_so_many_members(
    rows: list[tuple[str | None, str | None]], members: int
) -> None:
    info = group(*(queue(n, owner, target) for n, (owner, target) in enumerate(rows)))
    missing = not_stable(info, members)
    assert len(missing) == sum(owner != target for owner, target in rows) + (members != 2)


def test_a_group_without_members_or_with_a_broker_that_is_silent_is_not_stable() -> None:
    assert not_stable(group(members=())) == ["it has no members"]
    assert not_stable(replace(group(), unreachable=("broker-b",))) == ["broker broker-b does not answer"]
    assert not_stable(group(queue(0, None, "h@c1"))) == [
        "orders@broker-a:0 is owned by no member and should be owned by h@c1"
    ]


def test_a_member_owns_so_many_queues_by_its_id_or_its_name() -> None:
    info = group(queue(0, "h@c1", "h@c1"), queue(1, "h@c1", "h@c1"), queue(2, None, "h@c2"))
    assert [not_owned(info, "c1"), not_owned(info, "h@c1", 2), not_owned(info, "c2", 0)] == [[], [], []]
    assert not_owned(info, "c1", 3) == ["c1 owns 2 queues instead of 3"]
    assert not_owned(info, "c2") == ["c2 owns 0 queues instead of at least 1"]
    assert not is_client("1", "h@c1")
    shared = (SubscriptionData(topic="orders"),)
    sharing = replace(info, members=(replace(member("h@c3"), consume_type=ConsumeType.POP, subscriptions=shared),))
    why = "it shares messages, so it owns no queue; wait for consumed"
    assert not_owned(sharing, "c3") == [f"c3 owns 0 queues instead of at least 1: {why}"]


def test_a_group_has_consumed_what_was_there_when_it_was_asked_and_not_what_came_later() -> None:
    info = group(queue(0, "h@c1", "h@c1", committed=7, end=9), queue(1, None, None, committed=None, end=0))
    ends = ends_of(info)
    assert not_consumed(info, ends) == ["orders@broker-a:0 is consumed up to 7 of 9"]
    assert not_consumed(group(queue(0, "h@c1", "h@c1", committed=9, end=20)), ends) == []


def test_a_member_is_gone_when_it_is_not_a_member_and_owns_nothing() -> None:
    info = group(queue(0, "h@c2", "h@c1"), members=("h@c1",))
    assert not_gone(info, "c1") == ["h@c1 is a member"]
    assert not_gone(info, "c2") == ["c2 owns orders@broker-a:0"]
    assert not_gone(info, "c3") == []


def test_passes_are_counted_by_member_of_one_group() -> None:
    events = [
        Event(1.0, client, n, EventKind.REBALANCE_END, group=name, client=client)
        for n, (client, name) in enumerate([("c1", "g"), ("c1", "g"), ("c2", "g"), ("c3", "other")])
    ]
    assert not_passed(events, "g", 1) == []
    assert not_passed(events, "g", 2) == ["c2 has made 1 of 2 passes"]
    assert not_passed([], "g", 1) == ["no member has made a pass"]
