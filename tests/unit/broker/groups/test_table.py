"""Who is in a group, when its version grows, and when its members are told."""

from __future__ import annotations

import pytest

from broker.groups.group import RESTORED, ConsumerGroupInfo
from broker.groups.outcomes import HeartbeatOutcome, LeaveReason
from broker.groups.table import GroupTable
from model.errors import GroupNotExist, SystemBusy
from model.heartbeat import ConsumerData, MessageModel
from model.limits import LEASE_CLOSE_GRACE_S, STOCK_SETTLE_S
from model.quirks import Quirk
from model.subscription import SubscriptionData
from tests.unit.broker.harness import consumer

NOW_MS = 1_000_000


def beat(
    table: GroupTable, client_id: str, data: ConsumerData | None = None, *, connection: int = 1, now: float = 0.0
) -> HeartbeatOutcome:
    return table.heartbeat(
        client_id, data or consumer(), connection=connection, cause=f"{client_id} at {now}", now=now, now_ms=NOW_MS
    )


def notified(table: GroupTable, now: float) -> list[tuple[str, int]]:
    """(group, version) of the notifications that go out at this moment."""
    return [(info.group, info.version) for info in table.collect_notifications(now)]


def group(table: GroupTable, name: str = "g") -> ConsumerGroupInfo:
    info = table.get(name)
    assert info is not None
    return info


def settled(*client_ids: str, now: float = 0.0, quirks: frozenset[Quirk] = frozenset()) -> GroupTable:
    """A table with these members of `g`, each on the connection of its number, whose members were all told."""
    table = GroupTable(quirks=quirks)
    for number, client_id in enumerate(client_ids):
        beat(table, client_id, connection=number, now=now)
    table.collect_notifications(now)
    table.collect_notifications(now + 0.1)
    return table


# --- heartbeats ------------------------------------------------------------------------------------------------------
def test_a_new_member_raises_the_version_and_the_group_is_notified_at_once() -> None:
    table = GroupTable()
    outcome = beat(table, "A", now=5.0)
    assert (outcome.joined, outcome.resubscribed, outcome.data_changed) == (True, False, True)
    assert notified(table, 5.0) == [("g", NOW_MS + 1)]
    assert group(table).cause == "A at 5.0"


def test_a_repeated_heartbeat_changes_nothing() -> None:
    table = settled("A")
    outcome = beat(table, "A", connection=0, now=20.0)
    assert (outcome.joined, outcome.resubscribed, outcome.data_changed) == (False, False, False)
    assert outcome.group.version == NOW_MS + 1
    assert notified(table, 20.0) == []


def test_a_heartbeat_over_a_new_connection_replaces_the_old_one_silently() -> None:
    table = settled("A", "B")
    version = group(table).version
    outcome = beat(table, "A", connection=7, now=20.0)
    assert (outcome.joined, outcome.resubscribed) == (False, False)
    assert sorted(group(table).members) == ["A", "B"]
    assert (group(table).version, notified(table, 20.0)) == (version, [])


def test_the_close_of_a_replaced_connection_takes_no_one_out() -> None:
    table = settled("A")
    beat(table, "A", connection=7, now=20.0)
    assert table.connection_closed(0, now=21.0) == 0
    assert table.connection_closed(7, now=22.0) == 1
    assert [leave.member.client_id for leave in table.expire(23.0, cause="")] == ["A"]


def test_a_topic_that_appears_or_disappears_changes_the_group() -> None:
    table = settled("A", "B")
    version = group(table).version
    for now, topics in ((1.0, ("t", "u")), (2.0, ("u",))):
        outcome = beat(table, "A", consumer("g", *topics), connection=0, now=now)
        version += 1
        assert outcome.resubscribed
        assert (outcome.group.version, notified(table, now)) == (version, [("g", version)])
    assert group(table).view().members == {"A": ("u",), "B": ("t",)}


@pytest.mark.parametrize(("version", "expression", "taken"), [(6, "tag", True), (5, "tag", False), (4, "tag", False)])
def test_another_expression_counts_if_its_version_is_higher_and_never_changes_the_group(
    version: int, expression: str, taken: bool
) -> None:
    table = GroupTable()
    beat(table, "A", consumer(subscriptions=(SubscriptionData("t", "*", 5),)))
    table.collect_notifications(0.0)
    outcome = beat(table, "A", consumer(subscriptions=(SubscriptionData("t", expression, version),)), now=1.0)
    assert outcome.resubscribed is taken
    assert group(table).members["A"].subscriptions["t"].expression == (expression if taken else "*")
    assert notified(table, 1.0) == []


def test_what_a_member_says_again_is_to_be_stored_although_nothing_changes() -> None:
    table = settled("A")
    outcome = beat(table, "A", consumer(strategy="AVG_BY_CIRCLE"), connection=0, now=1.0)
    assert (outcome.joined, outcome.resubscribed, outcome.data_changed) == (False, False, True)
    assert group(table).members["A"].data.strategy == "AVG_BY_CIRCLE"


def test_members_of_a_broadcasting_group_are_not_reported_of_each_other() -> None:
    table = GroupTable()
    beat(table, "A", consumer(model=MessageModel.BROADCASTING))
    beat(table, "B", consumer(model=MessageModel.BROADCASTING))
    assert notified(table, 0.0) == []
    assert group(table).version == NOW_MS + 2


def test_the_view_is_sorted_whatever_the_order_of_the_heartbeats() -> None:
    table = settled("C", "A", "B")
    assert list(group(table).view().members) == ["A", "B", "C"]
    assert group(table).view().version == NOW_MS + 3


# --- the moment of creation ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("notified_ms", "created_ms"),
    [(0, NOW_MS), (NOW_MS - 5, NOW_MS - 5), (NOW_MS + 5, NOW_MS), (-1, NOW_MS), (2**64, NOW_MS)],
)
def test_a_group_is_as_old_as_its_oldest_member_has_received_and_never_from_the_future(
    notified_ms: int, created_ms: int
) -> None:
    table = GroupTable()
    beat(table, "A", consumer(group_created_ms=notified_ms))
    assert group(table).created_ms == created_ms


def test_a_later_member_can_only_make_a_group_older() -> None:
    table = settled("A")
    for notified_ms, created_ms in ((NOW_MS - 1, NOW_MS - 1), (NOW_MS, NOW_MS - 1), (NOW_MS - 2, NOW_MS - 2)):
        outcome = beat(table, "B", consumer(group_created_ms=notified_ms))
        assert (outcome.group.created_ms, outcome.data_changed) == (created_ms, True)


# --- the three ways of leaving ---------------------------------------------------------------------------------------
def test_a_member_that_unregisters_leaves_and_the_others_are_notified() -> None:
    table = settled("A", "B")
    leave = table.unregister("g", "A", cause="bye", now=50.0)
    assert leave is not None
    assert (leave.member.client_id, leave.reason) == ("A", LeaveReason.UNREGISTER)
    assert notified(table, 50.0) == [("g", NOW_MS + 3)]
    assert group(table).cause == "bye"


def test_a_member_whose_connection_closes_leaves_every_group_and_the_others_are_notified() -> None:
    table = settled("A", "B")
    beat(table, "A", consumer("h"), connection=0)
    beat(table, "B", consumer("h"), connection=1)
    table.collect_notifications(0.0)
    table.connection_closed(0, now=20.0)
    grace_ends_at = 20.0 + LEASE_CLOSE_GRACE_S
    assert (table.next_deadline(), notified(table, 20.0)) == (grace_ends_at, [])
    assert table.expire(grace_ends_at - 0.001, cause="close") == []
    leaves = table.expire(grace_ends_at, cause="close")
    assert [(leave.group.group, leave.member.client_id, leave.reason) for leave in leaves] == [
        ("g", "A", LeaveReason.CLOSE),
        ("h", "A", LeaveReason.CLOSE),
    ]
    assert notified(table, grace_ends_at) == [("g", NOW_MS + 3), ("h", NOW_MS + 3)]


def test_a_member_that_is_back_within_the_grace_never_left() -> None:
    table = settled("A", "B")
    table.connection_closed(0, now=20.0)
    outcome = beat(table, "A", connection=7, now=20.2)
    assert (outcome.joined, table.expire(21.0, cause=""), notified(table, 21.0)) == (False, [], [])
    assert group(table).version == NOW_MS + 2


def test_a_pull_over_a_new_connection_does_not_end_the_grace() -> None:
    table = settled("A")
    table.connection_closed(0, now=20.0)
    table.touch("g", "A", 7, 20.1)
    assert [leave.reason for leave in table.expire(21.0, cause="")] == [LeaveReason.CLOSE]


def test_the_grace_prolongs_no_membership() -> None:
    table = settled("A")
    table.connection_closed(0, now=29.9)
    assert [leave.reason for leave in table.expire(30.0, cause="")] == [LeaveReason.EXPIRY]


def test_a_silent_member_leaves_at_its_expiry_and_the_others_are_notified_then() -> None:
    table = settled("A", "B")
    beat(table, "B", connection=1, now=29.0)
    assert table.next_deadline() == 30.0
    assert table.expire(29.999, cause="") == []
    [leave] = table.expire(30.0, cause="silence")
    assert (leave.member.client_id, leave.reason) == ("A", LeaveReason.EXPIRY)
    assert notified(table, 30.0) == [("g", NOW_MS + 3)]
    assert table.next_deadline() == 59.0


def test_under_the_quirk_a_silent_member_leaves_and_no_one_is_notified() -> None:
    table = settled("A", "B", quirks=frozenset({Quirk.SILENT_EXPIRY}))
    beat(table, "B", connection=1, now=29.0)
    assert len(table.expire(30.0, cause="")) == 1
    assert notified(table, 30.0) == []
    assert group(table).version == NOW_MS + 3


@pytest.mark.parametrize(("name", "client_id"), [("g", "B"), ("h", "A")])
def test_no_one_is_notified_when_a_stranger_leaves(name: str, client_id: str) -> None:
    table = settled("A")
    assert table.unregister(name, client_id, cause="", now=1.0) is None
    assert table.connection_closed(99, now=1.0) == 0
    assert (notified(table, 1.0), group(table).version) == ([], NOW_MS + 1)


def test_the_last_member_that_leaves_leaves_nothing_due() -> None:
    table = settled("A")
    table.unregister("g", "A", cause="", now=1.0)
    assert notified(table, 1.0) == []
    assert group(table).members == {}
    assert table.expire(30.0, cause="") == []
    assert table.next_deadline() is None


def test_what_is_due_is_forgotten_when_the_last_member_that_it_concerned_leaves() -> None:
    table = settled("A")
    beat(table, "B", connection=1, now=0.15)
    beat(table, "C", consumer(model=MessageModel.BROADCASTING), connection=2, now=0.15)
    assert table.next_deadline() == 0.15
    assert notified(table, 0.15) == [("g", NOW_MS + 3)]
    table.unregister("g", "A", cause="", now=0.2)
    table.unregister("g", "B", cause="", now=0.2)
    assert notified(table, 0.3) == []
    assert table.next_deadline() == 30.0


# --- staying ---------------------------------------------------------------------------------------------------------
def test_a_pull_under_a_lease_keeps_a_member() -> None:
    table = settled("A")
    table.touch("g", "A", 0, 20.0)
    assert table.expire(49.0, cause="") == []
    assert table.next_deadline() == 50.0


def test_a_sign_of_life_never_shortens_a_membership() -> None:
    table = GroupTable()
    table.restore("g", 5, 1)
    table.restore_member("A", consumer(session_timeout_s=3.0), expires_at=10.0)
    table.restore_member("B", consumer(), expires_at=5.0)
    table.touch("g", "A", RESTORED, 0.5)
    for now, client_id in ((5.0, "B"), (10.0, "A")):
        assert [leave.member.client_id for leave in table.expire(now, cause="")] == [client_id]


def test_a_sign_of_life_of_a_stranger_is_ignored_also_under_the_name_of_a_member() -> None:
    table = settled("A")
    table.touch("g", "B", 0, 20.0)
    table.touch("h", "A", 0, 20.0)
    table.touch("g", "A", 1, 20.0)
    assert table.next_deadline() == 30.0


def test_a_member_that_shortens_its_session_timeout_expires_by_the_new_one() -> None:
    table = settled("A")
    beat(table, "A", consumer(session_timeout_s=3.0), connection=0, now=1.0)
    assert table.next_deadline() == 4.0
    assert len(table.expire(4.0, cause="")) == 1


# --- over a restart --------------------------------------------------------------------------------------------------
def restored() -> GroupTable:
    table = GroupTable()
    table.restore("g", 70, 7)
    table.restore_member("A", consumer(), expires_at=10.0)
    table.restore_member("B", consumer(), expires_at=10.0)
    return table


def test_a_restored_member_is_listed_and_comes_back_without_a_change() -> None:
    table = restored()
    assert [member.connection for member in group(table).members.values()] == [RESTORED, RESTORED]
    outcome = beat(table, "A", connection=3, now=2.0)
    assert (outcome.joined, outcome.resubscribed, outcome.data_changed) == (False, False, False)
    assert (outcome.group.version, outcome.group.created_ms) == (70, 7)
    assert notified(table, 2.0) == []


def test_a_restored_member_that_does_not_come_back_leaves_after_its_grace() -> None:
    table = restored()
    beat(table, "A", connection=3, now=2.0)
    assert [leave.member.client_id for leave in table.expire(10.0, cause="")] == ["B"]
    assert notified(table, 10.0) == [("g", 71)]


def test_a_restored_member_that_wants_other_topics_now_changes_the_group() -> None:
    table = restored()
    assert beat(table, "A", consumer("g", "u"), connection=3, now=2.0).resubscribed
    assert group(table).version == 71


# --- limits and look-ups ---------------------------------------------------------------------------------------------
def test_a_group_takes_its_limit_of_members_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.groups.table.MAX_MEMBERS_PER_GROUP", 2)
    table = settled("A", "B")
    with pytest.raises(SystemBusy, match="2 members"):
        beat(table, "C", connection=9, now=1.0)
    beat(table, "A", connection=0, now=1.0)
    assert sorted(group(table).members) == ["A", "B"]


def test_a_refused_member_leaves_nothing_behind_on_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.groups.table.MAX_MEMBERS_PER_GROUP", 1)
    table = settled("A")
    with pytest.raises(SystemBusy):
        beat(table, "B", connection=9, now=1.0)
    table.unregister("g", "A", cause="", now=2.0)
    beat(table, "B", connection=10, now=3.0)
    assert table.connection_closed(9, now=4.0) == 0
    assert sorted(group(table).members) == ["B"]


def test_a_broker_takes_its_limit_of_groups_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.groups.capacity.MAX_GROUPS", 2)
    table = GroupTable()
    beat(table, "A", consumer("g"))
    beat(table, "A", consumer("h"))
    with pytest.raises(SystemBusy, match="2 groups"):
        beat(table, "A", consumer("i"))
    assert [info.group for info in table.groups()] == ["g", "h"]


def test_a_member_is_found_by_group_and_client_id() -> None:
    table = settled("A")
    assert table.member("g", "A").client_id == "A"
    for name, client_id in (("g", "B"), ("h", "A")):
        with pytest.raises(GroupNotExist, match="send a heartbeat first"):
            table.member(name, client_id)


def test_an_empty_table_waits_for_nothing() -> None:
    table = GroupTable()
    assert (table.next_deadline(), table.expire(1e9, cause=""), notified(table, 1e9)) == (None, [], [])


def test_a_group_waits_for_all_brokers_as_long_as_a_client_of_rocketmq_is_in_it() -> None:
    table = settled("A")
    beat(table, "stock", consumer(leaseless=True), now=10.0)
    assert notified(table, 10.0) == []
    assert notified(table, 10.0 + STOCK_SETTLE_S) == [("g", NOW_MS + 2)]
    table.unregister("g", "stock", cause="", now=20.0)
    assert notified(table, 20.0) == [("g", NOW_MS + 3)], "it was the only one"
    beat(table, "B", now=30.0)
    assert notified(table, 30.0) == [("g", NOW_MS + 4)]
