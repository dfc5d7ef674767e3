from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from client.admin.records import GroupInfo, GroupMemberInfo, PoppedQueue, QueueProgress
from console.matrix import HOLDERS, WHY, changed_rows, members_of, removed_queues, rows_of, with_progress
from model.absent_broker import Absence, AbsentBroker
from model.group_settings import GroupSettings
from model.heartbeat import ConsumeType, MessageModel
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData

QUEUE = MessageQueue("t", "b", 0)


def member(client: str, **changes: Any) -> GroupMemberInfo:
    made = GroupMemberInfo(
        client_id=client,
        address="",
        subscriptions=(SubscriptionData(topic="t"),),
        strategy="AVG",
        model=MessageModel.CLUSTERING,
        consume_type=ConsumeType.PASSIVELY,
        expires_in_s=60.0,
        queues=(),
        brokers=("b",),
    )
    return replace(made, **changes)


def progress(owner: str | None, *targets: str, **changes: Any) -> QueueProgress:
    made = QueueProgress(queue=QUEUE, min_offset=0, max_offset=20, committed=12, owner=owner, targets=targets)
    return replace(made, **changes)


def group(queue: QueueProgress, *members: GroupMemberInfo, **changes: Any) -> GroupInfo:
    made = GroupInfo(
        group="g",
        version=1,
        created_ms=0,
        members=members,
        queues=(queue,),
        disagreements=(),
        unknown_strategies=(),
        unreachable=(),
    )
    return replace(made, **changes)


C1, C2 = member("c1"), member("c2")


def test_a_row_has_the_owner_the_target_the_lag_and_what_is_in_flight() -> None:
    info = group(progress("c1", "c1", in_flight=3), C1)

    assert rows_of(info) == {"t@b:0": ["t@b:0", "c1", ["c1"], 8, 3, "", None]}


def test_a_queue_whose_messages_are_shared_has_holders_instead_of_an_owner() -> None:
    popper = member("c2", consume_type=ConsumeType.POP)
    popped = PoppedQueue(
        queue=QUEUE,
        first_unended=12,
        next_offset=15,
        in_flight=3,
        to_come_again=0,
        oldest_ms=1.0,
        next_visible_ms=2.0,
        most_attempts=1,
        handing_over=False,
        in_flight_of={"c2": 2, "c3": 1},
    )
    retries = replace(progress(None), queue=MessageQueue("%RETRY%g", "b", 0), max_offset=12)
    info = group(progress(None), popper, member("c3", consume_type=ConsumeType.POP), popped_queues=(popped,))
    info = replace(info, queues=(*info.queues, retries))
    assert rows_of(info) == {
        "t@b:0": ["t@b:0", None, [], 8, 3, "", [["c2", 2], ["c3", 1]]],
        "%RETRY%g@b:0": ["%RETRY%g@b:0", None, [], 0, None, "", []],
    }
    mixed = group(progress("c1", "c1"), C1, popper)
    assert rows_of(mixed)["t@b:0"][HOLDERS] is None, "a member that pulls owns it"
    before, now = rows_of(info), rows_of(replace(info, popped_queues=()))
    assert changed_rows(before, now, counts=False) == [], "holders are counts"
    assert changed_rows(before, now, counts=True) == [now["t@b:0"]]


def test_a_queue_that_is_away_keeps_a_row_without_an_owner_that_says_why() -> None:
    broker = AbsentBroker(cluster="c", broker_name="b2", broker_id=0, address="h:1", away_s=6.0, reason="was silent")
    info = group(
        progress("c1", "c1"),
        C1,
        absence=Absence(brokers=(broker,), known_for_s=60.0, unable={}),
        absent_queues=(MessageQueue("t", "b2", 0),),
    )
    why = "broker b2 at h:1 was silent without unregistering: it is away"
    assert rows_of(info)["t@b2:0"] == ["t@b2:0", None, [], None, None, why, None]


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (group(progress("c1", "c1"), C1), ""),
        (group(progress("c1", "c2"), C1, C2), "c2 waits: c1 has not drained and released it yet"),
        (group(progress(None, "c2"), C1, C2), "c2 has not requested it yet, or the answer is in flight"),
        (group(progress("c9", "c1"), C1), "c9 has left, and its lease has not ended yet"),
        (group(progress("c1", "c1"), member("c1", suspended=True)), "c1 is suspended: it calls no listener"),
        (
            group(progress("c1", "c1"), member("c1", away_at={"b": "its connection is closed"})),
            "c1 does not answer: its connection is closed",
        ),
        (group(progress("c1", "c1"), C1, unreachable=("b",)), "b does not answer"),
        (
            group(progress("c1", "c1"), C1, settings={"b": GroupSettings(consume=False)}),
            "the group is switched off at b",
        ),
        (group(progress("c1", "c1", "c2"), C1, C2), "members disagree: it is the target of 2 of them"),
        (group(progress(None), C1), "the members' strategies assign it to no member"),
        (group(progress("c1"), member("c1", subscriptions=())), "c1 holds it, and no member should"),
        (group(progress(None)), ""),
    ],
)
def test_a_queue_that_is_not_where_it_belongs_says_why(info: GroupInfo, why: str) -> None:
    assert rows_of(info)["t@b:0"][WHY] == why


def test_newer_owners_keep_the_targets_that_are_known() -> None:
    info = with_progress(group(progress("c1", "c2"), C1, C2), [progress("c2")])

    assert (info.queues[0].owner, info.queues[0].targets) == ("c2", ("c2",))


def test_a_row_of_which_only_counts_have_changed_waits_until_counts_are_reported() -> None:
    before = {"q": ["q", "c1", ["c1"], 1, 0, "", None]}
    counted = {"q": ["q", "c1", ["c1"], 2, 1, "", None]}
    moved = {"q": ["q", "c2", ["c1"], 1, 0, "", None]}

    assert changed_rows(before, counted, counts=False) == []
    assert changed_rows(before, counted, counts=True) == [counted["q"]]
    assert changed_rows(before, moved, counts=False) == [moved["q"]]
    assert changed_rows({}, moved, counts=False) == [moved["q"]]
    assert (removed_queues(before, {}), removed_queues(before, moved)) == (["q"], [])


def test_members_are_notified_with_what_they_do() -> None:
    [reported] = members_of(group(progress("c1", "c1"), replace(C1, queues=(QUEUE,))))

    assert reported == {
        "id": "c1",
        "address": "",
        "strategy": "AVG",
        "mode": "pull",
        "queues": 1,
        "silent": False,
        "suspended": False,
    }
