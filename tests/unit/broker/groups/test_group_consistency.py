"""Members of one client id, with one table of topics for all, and what members say: the group table's part in it."""

from __future__ import annotations

import pytest

from broker.groups.outcomes import LeaveReason
from broker.groups.table import GroupTable
from model.errors import ClientIdConflict, GroupNotExist
from model.quirks import Quirk
from tests.unit.broker.groups.test_table import NOW_MS, beat, group
from tests.unit.broker.harness import consumer


# --- two of one client id --------------------------------------------------------------------------------------------
def conflict_of(table: GroupTable, run_id: str, connection: int) -> bool:
    return table.conflicting_member("g", "A", run_id, connection) is not None


def named(quirks: frozenset[Quirk] = frozenset()) -> GroupTable:
    """A member A of run_id 'one', over connection 1."""
    table = GroupTable(quirks=quirks)
    table.heartbeat("A", consumer(), connection=1, cause="", now=0.0, now_ms=NOW_MS, run_id="one")
    return table


def test_another_run_id_over_another_connection_is_a_conflict_while_the_first_is_connected() -> None:
    table = named()
    assert conflict_of(table, "two", 2)
    assert not conflict_of(table, "one", 2), "it has reconnected"
    assert not conflict_of(table, "two", 1), "one connection is one process"
    assert conflict_of(table, "", 2), "a process that sends its run_id sends it always"
    assert table.conflicting_member("other", "A", "two", 2) is None
    table.connection_closed(1, 5.0)
    assert not conflict_of(table, "two", 2), "also within the grace: the process is gone, or its successor is here"


def test_a_client_that_never_reports_a_run_id_is_believed_when_it_reconnects() -> None:
    table = GroupTable()
    beat(table, "A", connection=1)
    assert not conflict_of(table, "", 2)


def test_none_is_another_run_id_than_one_and_takes_the_place_of_a_member_in_its_grace() -> None:
    table = named()
    table.connection_closed(1, 5.0)
    assert table.evict_previous_process("g", "A", "", cause="", now=5.1) is not None


def test_no_one_conflicts_with_a_member_that_an_earlier_run_knew() -> None:
    table = GroupTable()
    table.restore("g", 1, 1)
    table.restore_member("A", consumer(), 10.0)
    assert not conflict_of(table, "two", 2)


def test_another_run_id_takes_the_place_of_a_member_and_the_same_one_goes_on_as_it() -> None:
    table = named()
    table.connection_closed(1, 5.0)
    for group_name, client_id, run_id in (("g", "A", "one"), ("g", "B", "two"), ("other", "A", "two")):
        assert table.evict_previous_process(group_name, client_id, run_id, cause="", now=5.1) is None
    left = table.evict_previous_process("g", "A", "two", cause="c", now=5.1)
    assert left is not None
    assert (left.member.run_id, left.reason, left.group.version) == ("one", LeaveReason.CLOSE, NOW_MS + 2)
    again = table.heartbeat("A", consumer(), connection=2, cause="c", now=5.1, now_ms=NOW_MS, run_id="two")
    assert (again.joined, again.data_changed, again.group.version) == (True, True, NOW_MS + 3)
    assert table.expire(6.0, cause="") == [], "the grace of the first is no concern of the second"
    assert [info.group for info in table.collect_notifications(6.0)] == ["g"]


def test_the_run_id_of_a_member_that_an_earlier_run_knew_reports_its_successor_from_it() -> None:
    table = GroupTable()
    table.restore("g", 1, 1)
    for client_id, run_id in (("A", "one"), ("B", "")):
        table.restore_member(client_id, consumer(), 10.0, run_id)
        assert table.evict_previous_process("g", client_id, run_id, cause="", now=1.0) is None
    assert table.evict_previous_process("g", "B", "two", cause="", now=1.0) is None, "of which run it is was not stored"
    said = table.heartbeat("B", consumer(), connection=1, cause="", now=1.0, now_ms=NOW_MS, run_id="two")
    assert (said.joined, said.data_changed) == (False, True), "now it is"
    assert table.evict_previous_process("g", "A", "two", cause="", now=1.0) is not None


@pytest.mark.parametrize("run_id", ["", "two"])
def test_only_the_process_of_a_live_member_speaks_for_it(run_id: str) -> None:
    table = named()
    with pytest.raises(ClientIdConflict, match="'A' is that of a live member of group 'g' over another connection"):
        table.check_sender("g", "A", 2, run_id)
    table.check_sender("g", "A", 1, run_id)
    table.check_sender("g", "A", 2, "one")
    for outsider in (("g", "B"), ("other", "A")):
        table.check_sender(*outsider, 2, run_id)
    table.connection_closed(1, 5.0)
    table.check_sender("g", "A", 2, run_id)


def test_the_name_of_a_client_that_never_reports_a_run_id_is_proved_by_its_connection_alone() -> None:
    table = GroupTable()
    beat(table, "A", connection=1)
    with pytest.raises(ClientIdConflict):
        table.check_sender("g", "A", 2, "")


def test_leases_are_asked_for_over_the_connection_of_the_heartbeats() -> None:
    table = named()
    assert table.member("g", "A", 1) is table.member("g", "A")
    with pytest.raises(GroupNotExist, match="send a heartbeat first"):
        table.member("g", "A", 2)
    table.connection_closed(1, 5.0)
    assert table.member("g", "A", 2).client_id == "A"


def test_under_the_quirk_each_connection_is_a_member() -> None:
    table = named(frozenset({Quirk.DUPLICATE_MEMBERS}))
    assert not conflict_of(table, "two", 2)
    table.check_sender("g", "A", 2, "two")
    assert table.evict_previous_process("g", "A", "two", cause="", now=1.0) is None
    assert beat(table, "A", connection=2, now=1.0).joined
    assert not beat(table, "A", connection=2, now=2.0).joined
    assert not beat(table, "A", connection=1, now=2.0).joined
    assert group(table).view().members_of("t") == ["A", "A"]
    left = table.unregister("g", "A", cause="", now=3.0, connection=2)
    assert left is not None
    assert left.member.connection == 2
    assert group(table).view().members_of("t") == ["A"]
    beat(table, "A", connection=3, now=3.0)
    table.connection_closed(1, 3.0)
    table.expire(4.0, cause="")
    assert not beat(table, "A", connection=3, now=4.0).joined, "the second stays itself when the first is gone"


# --- one table for all -----------------------------------------------------------------------------------------------
def test_under_the_quirk_the_topics_of_the_group_are_those_of_the_last_heartbeat() -> None:
    table = GroupTable(quirks=frozenset({Quirk.GROUP_WIDE_SUBSCRIPTION}))
    both = {"A": consumer("g", "t"), "B": consumer("g", "u")}
    versions = [beat(table, client_id, both[client_id]).group.version for client_id in "ABABA"]
    assert versions == [NOW_MS + n for n in range(1, 6)]
    assert group(table).shared_topics == ("t",)
    assert group(table).view().members_of("u") == ["A", "B"]
    assert not beat(table, "A", both["A"]).resubscribed


# --- what members say ------------------------------------------------------------------------------------------------
def test_what_members_say_is_counted_as_they_come_change_and_go() -> None:
    table = GroupTable()
    table.restore("g", 1, 1)
    table.restore_member("A", consumer(), 10.0)
    beat(table, "B", consumer(strategy="CIRCLE"))
    assert group(table).settings.split() == (("strategy", ("AVG", "CIRCLE")),)
    beat(table, "B", consumer())
    assert group(table).settings.split() == ()
    beat(table, "B", consumer(strategy="CIRCLE"), now=5.0)
    table.expire(10.0, cause="")
    assert group(table).settings.split() == ()
