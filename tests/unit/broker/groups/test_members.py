"""Members over restarts: who is listed, and with which version. While a broker runs, `test_handlers.py` tests them."""

from __future__ import annotations

from pathlib import Path

from broker.groups.group import ConsumerGroupInfo
from broker.groups.members import Groups
from tests.unit.broker.harness import consumer
from tests.unit.broker.leases.rooms import GRACE_S, Rooms, open_rooms


def group(rooms: Rooms, name: str = "g") -> ConsumerGroupInfo:
    info = rooms.groups.table.get(name)
    assert info is not None
    return info


def test_groups_and_members_are_there_in_the_next_run_for_the_grace(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        rooms.put_member("A", consumer("g", "t", "u"), "run")
        version = group(rooms).version
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        info, member = group(rooms), group(rooms).members["A"]
        assert (info.version, info.created_ms) == (version, 7)
        assert member.data == consumer("g", "t", "u")
        assert (round(member.expires_at - rooms.core.loop.time()), member.run_id) == (GRACE_S, "run")


def test_members_that_a_broker_without_run_ids_stored_are_loaded(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        rooms.put_member("A", consumer("g"), "run")
        rooms.core.metadata.commit()
        rooms.core.metadata.add_tables("drop table epochs")
    with open_rooms(tmp_path) as rooms:
        assert group(rooms).members["A"].run_id == ""


def test_a_member_that_leaves_is_gone_and_its_group_stays(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        rooms.put_member("A", consumer("g"))
        rooms.core.metadata.commit()
        leave = rooms.groups.table.unregister("g", "A", cause="", now=0.0)
        assert leave is not None
        rooms.groups.record_leave(leave, "")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert group(rooms).members == {}
        assert list(rooms.core.metadata.rows("select * from epochs")) == []


def test_a_member_that_leaves_and_comes_back_in_one_turn_is_there(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        rooms.put_member("A", consumer("g"))
        leave = rooms.groups.table.unregister("g", "A", cause="", now=0.0)
        assert leave is not None
        rooms.groups.record_leave(leave, "")
        rooms.put_member("A", consumer("g", strategy="AVG_BY_CIRCLE"))
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert group(rooms).members["A"].data.strategy == "AVG_BY_CIRCLE"


def test_the_versions_of_a_new_master_are_ahead_of_all_that_an_earlier_one_used_and_are_stored(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        rooms.put_member("A", consumer("g"))
        stored = group(rooms).version
        rooms.core.metadata.commit()
    for epoch in (1, 2):
        with open_rooms(tmp_path, now_ms=5) as rooms:
            groups = Groups(rooms.core, GRACE_S, versions_ahead=1_000_000)
            info = groups.table.get("g")
            assert info is not None
            assert info.version == stored + epoch * 1_000_000
            rooms.core.metadata.commit()


def test_group_versions_go_on_from_the_clock_so_that_no_number_is_used_twice(tmp_path: Path) -> None:
    # As if a power cut had taken the versions after it, which members have seen.
    with open_rooms(tmp_path) as rooms:
        rooms.put_member("A", consumer("g"), now_ms=70)
        stored = group(rooms).version
        rooms.core.metadata.commit()
    for now_ms, version in ((50, stored), (1_000, 1_000)):
        with open_rooms(tmp_path, now_ms=now_ms) as rooms:
            assert group(rooms).version == version


def test_a_deleted_group_is_gone_with_everything_of_it(tmp_path: Path) -> None:
    with open_rooms(tmp_path) as rooms:
        for name in ("g", "h"):
            rooms.put_member("A", consumer(name), "run")
            leave = rooms.groups.table.unregister(name, "A", cause="", now=0.0)
            assert leave is not None
            rooms.groups.record_leave(leave, "")
        assert rooms.groups.has_group_data("g")
        rooms.groups.group_deleted("g", "")
        assert not rooms.groups.has_group_data("g")
        rooms.core.metadata.commit()
    with open_rooms(tmp_path) as rooms:
        assert [info.group for info in rooms.groups.table.groups()] == ["h"]
