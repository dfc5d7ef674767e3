"""The bytes that a cut removed: kept in folders, listed by queue, and read again."""

from __future__ import annotations

from pathlib import Path

from broker.store.disk.files import Files
from broker.store.follower.salvage import (
    SALVAGE_NAME,
    SalvagedRange,
    salvage_folder,
    salvage_numbers,
    salvaged_ranges,
    salvaged_records,
)
from tests.unit.broker.store.follower.follower_helpers import log_of, open_master, open_replica
from tests.unit.broker.store.store_helpers import fill


def test_what_a_cut_removes_is_listed_by_topic_queue_and_offset_and_can_be_read(tmp_path: Path) -> None:
    with open_master(tmp_path) as master:
        master.name_topic(1, b"orders")
        fill(master, 4, queues=2)
        position = master.written_position
        master.append(2, 0, b"other topic", 5, times_delivered=3)
        fill(master, 30, queues=2)
    with open_replica(tmp_path) as log:
        log.cut(position, salvage=True)
    assert salvage_numbers(tmp_path, Files()) == [1]
    assert salvaged_ranges(tmp_path, 1) == [
        SalvagedRange(salvage=1, topic_id=1, topic=b"orders", queue_id=0, first_offset=2, end_offset=17, messages=15),
        SalvagedRange(salvage=1, topic_id=1, topic=b"orders", queue_id=1, first_offset=2, end_offset=17, messages=15),
        SalvagedRange(salvage=1, topic_id=2, topic=b"", queue_id=0, first_offset=0, end_offset=1, messages=1),
    ]
    records = list(salvaged_records(tmp_path, 1))
    assert len(records) == 31
    first = records[0]
    assert (first.topic_id, first.queue_id, first.record.payload) == (2, 0, b"other topic")
    assert (first.record.tag_hash, first.record.times_delivered) == (5, 3)


def test_the_name_of_a_topic_is_kept_although_the_record_that_names_it_stays_in_the_log(tmp_path: Path) -> None:
    with open_master(tmp_path) as master:
        master.name_topic(1, b"orders")
        fill(master, 1)
        position = master.written_position
        fill(master, 1)
    with open_replica(tmp_path) as log:
        log.cut(position, salvage=True)
    assert [each.topic for each in salvaged_ranges(tmp_path, 1)] == [b"orders"]


def test_each_cut_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with open_master(tmp_path) as master:
        fill(master, 30)
    with open_replica(tmp_path) as log:
        ends = sorted(log_of(tmp_path))
        log.cut(ends[3], salvage=True)
        log.cut(ends[2], salvage=True)
        log.restart_at(50, salvage=True)
    assert salvage_numbers(tmp_path, Files()) == [1, 2, 3]
    found = [each.record.queue_offset for number in (3, 2, 1) for each in salvaged_records(tmp_path, number)]
    assert found == list(range(30))


def test_damage_in_a_kept_segment_costs_one_message(tmp_path: Path) -> None:
    with open_master(tmp_path) as master:
        fill(master, 30)
    with open_replica(tmp_path) as log:
        log.restart_at(0, salvage=True)
    path = sorted(salvage_folder(tmp_path, 1).iterdir())[1]
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    (only,) = salvaged_ranges(tmp_path, 1)
    assert (only.first_offset, only.end_offset, only.messages) == (0, 30, 29)
    assert len(list(salvaged_records(tmp_path, 1))) == 29


def test_a_directory_without_cuts_has_no_folder(tmp_path: Path) -> None:
    with open_master(tmp_path) as master:
        fill(master, 30)
    with open_replica(tmp_path) as log:
        log.cut(sorted(log_of(tmp_path))[2])
    assert salvage_numbers(tmp_path, Files()) == []
    assert not (tmp_path / SALVAGE_NAME).exists()
