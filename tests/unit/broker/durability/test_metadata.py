"""The metadata file: what was committed is there again, in one piece, whatever the disk did in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker.durability.metadata import FILE_NAME, MetadataStore
from broker.groups.table import GroupTable
from broker.leases.offsets import OffsetTable
from broker.leases.table import QueueKey, QueueLocks
from broker.topics.table import TopicEntry, TopicTable
from model.errors import ConfigError, StorageFull, SystemError_
from model.topic_route import TopicConfig
from tests.unit.broker.harness import consumer

Q = QueueKey("t", 0)


@dataclass
class Loaded:
    """What a new run of the broker starts with."""

    topics: TopicTable = field(default_factory=lambda: TopicTable(auto_create=False))
    groups: GroupTable = field(default_factory=GroupTable)
    locks: QueueLocks = field(default_factory=QueueLocks)
    offsets: OffsetTable = field(default_factory=OffsetTable)


def load(directory: Path, *, now_ms: int = 0) -> Loaded:
    loaded = Loaded()
    with MetadataStore(directory) as store:
        store.load(loaded.topics, loaded.groups, loaded.locks, loaded.offsets, now_ms=now_ms, expires_at=10.0)
    return loaded


def entry(topic: str, topic_id: int, queues: int = 4) -> TopicEntry:
    return TopicEntry(topic_id, TopicConfig(topic=topic, read_queue_nums=queues, write_queue_nums=queues))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetadataStore]:
    with MetadataStore(tmp_path) as opened:
        yield opened


def fill(store: MetadataStore) -> None:
    store.save_topic(entry("t", 3))
    store.save_group("g", 70, 7)
    store.save_member("A", consumer("g", "t", "u"), "epoch")
    store.save_lease("g", Q, "A", 99)
    store.save_offset("g", "t", 0, 42)


def test_everything_that_was_committed_is_loaded_by_the_next_run(store: MetadataStore, tmp_path: Path) -> None:
    fill(store)
    store.commit()
    loaded = load(tmp_path)
    assert loaded.topics.existing("t").topic_id == 3
    assert loaded.topics.existing("t").config.read_queue_nums == 4
    info = loaded.groups.get("g")
    assert info is not None
    assert (info.version, info.created_ms) == (70, 7)
    assert info.members["A"].data == consumer("g", "t", "u")
    assert (info.members["A"].expires_at, info.members["A"].epoch) == (10.0, "epoch")
    assert loaded.locks.check("g", Q, "A", 99)
    assert loaded.offsets.read("g", "t", 0) == 42


def test_members_that_a_broker_without_epochs_stored_are_loaded(store: MetadataStore, tmp_path: Path) -> None:
    fill(store)
    store.commit()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db:
        db.execute("drop table epochs")
    info = load(tmp_path).groups.get("g")
    assert info is not None
    assert info.members["A"].epoch == ""


def test_what_was_not_committed_is_not_loaded(store: MetadataStore, tmp_path: Path) -> None:
    fill(store)
    loaded = load(tmp_path)
    assert (loaded.topics.configs(), loaded.groups.groups(), loaded.offsets.groups()) == ([], [], [])


def test_a_directory_without_a_file_is_an_empty_one(tmp_path: Path) -> None:
    assert load(tmp_path).topics.configs() == []
    assert (tmp_path / FILE_NAME).exists()


def test_the_newest_of_several_changes_counts(store: MetadataStore, tmp_path: Path) -> None:
    fill(store)
    store.save_topic(entry("t", 3, queues=8))
    store.save_group("g", 71, 6)
    store.save_offset("g", "t", 0, 43)
    store.save_lease("g", Q, "B", 100)
    store.commit()
    loaded = load(tmp_path)
    info = loaded.groups.get("g")
    assert info is not None
    assert (info.version, info.created_ms) == (71, 6)
    assert loaded.topics.existing("t").config.read_queue_nums == 8
    assert loaded.offsets.read("g", "t", 0) == 43
    assert loaded.locks.check("g", Q, "B", 100)


def test_deleted_members_and_leases_are_gone(store: MetadataStore, tmp_path: Path) -> None:
    fill(store)
    store.commit()
    store.delete_member("g", "A")
    store.delete_lease("g", Q)
    store.commit()
    loaded = load(tmp_path)
    info = loaded.groups.get("g")
    assert info is not None
    assert info.members == {}
    assert loaded.locks.owner_of("g", Q) is None


def test_a_member_that_leaves_and_comes_back_in_one_turn_is_there(store: MetadataStore, tmp_path: Path) -> None:
    fill(store)
    store.delete_member("g", "A")
    store.save_member("A", consumer("g", strategy="AVG_BY_CIRCLE"))
    store.commit()
    info = load(tmp_path).groups.get("g")
    assert info is not None
    assert info.members["A"].data.strategy == "AVG_BY_CIRCLE"


def test_a_deleted_topic_takes_its_offsets_and_leases_along(store: MetadataStore, tmp_path: Path) -> None:
    fill(store)
    store.save_offset("g", "u", 0, 5)
    store.commit()
    store.delete_topic("t")
    store.commit()
    loaded = load(tmp_path)
    assert loaded.topics.get("t") is None
    assert loaded.offsets.of_group("g") == [("u", 0, 5)]
    assert loaded.locks.owners() == []


def test_a_topic_that_is_made_again_in_the_same_turn_keeps_its_new_offsets_only(
    store: MetadataStore, tmp_path: Path
) -> None:
    fill(store)
    store.save_offset("g", "t", 1, 8)
    store.delete_topic("t")
    store.save_topic(entry("t", 4))
    store.save_offset("g", "t", 0, 1)
    store.commit()
    loaded = load(tmp_path)
    assert loaded.topics.existing("t").topic_id == 4
    assert loaded.offsets.of_group("g") == [("t", 0, 1)]


def test_the_number_of_a_deleted_topic_stays_used(store: MetadataStore, tmp_path: Path) -> None:
    store.save_topic(entry("new", 9))
    store.save_topic(entry("old", 3))
    store.delete_topic("new")
    store.commit()
    topics = load(tmp_path).topics
    assert topics.put(TopicConfig(topic="x", read_queue_nums=1, write_queue_nums=1))[0].topic_id == 10


def test_group_versions_go_on_from_the_clock_so_that_no_number_is_used_twice(
    store: MetadataStore, tmp_path: Path
) -> None:
    # As if a power cut had taken the versions 71, 72 and so on, which members have seen.
    fill(store)
    store.commit()
    for now_ms, version in ((50, 70), (1_000, 1_000)):
        info = load(tmp_path, now_ms=now_ms).groups.get("g")
        assert info is not None
        assert info.version == version


# --- a disk that fails -----------------------------------------------------------------------------------------------
def fill_the_disk(store: MetadataStore) -> None:
    """Let the file not grow any more."""
    (pages,) = store._db.execute("pragma page_count").fetchone()
    store._db.execute(f"pragma max_page_count = {pages}")


def make_room(store: MetadataStore) -> None:
    store._db.execute("pragma max_page_count = 1000000")


def test_a_full_disk_refuses_the_commit_and_the_next_one_with_room_stores_everything(
    store: MetadataStore, tmp_path: Path
) -> None:
    fill_the_disk(store)
    for number in range(1_000):
        store.save_offset("g", "t" * 100, number, number)
    with pytest.raises(StorageFull, match="make room"):
        store.commit()
    assert load(tmp_path).offsets.groups() == []
    make_room(store)
    store.commit()
    assert len(load(tmp_path).offsets.of_group("g")) == 1_000


def test_hours_of_a_full_disk_cost_one_pending_change_for_each_row(store: MetadataStore) -> None:
    fill_the_disk(store)
    for offset in range(100):
        for queue_id in range(100):
            store.save_offset("g", "t" * 100, queue_id, offset)
        with pytest.raises(StorageFull):
            store.commit()
    assert len(store._pending) == 100


def test_a_locked_file_is_an_error_that_says_so_and_is_tried_again(store: MetadataStore, tmp_path: Path) -> None:
    store._db.execute("pragma busy_timeout = 0")
    fill(store)
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(SystemError_, match="metadata could not be written: database is locked"):
        store.commit()
    other.execute("rollback")
    other.close()
    store.commit()
    assert load(tmp_path).offsets.read("g", "t", 0) == 42


def test_a_commit_of_nothing_does_not_touch_the_file(store: MetadataStore) -> None:
    store._db.close()
    store.commit()


def test_a_file_that_is_no_database_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"these are not the bytes of a database" * 100)
    with pytest.raises(ConfigError, match=FILE_NAME):
        MetadataStore(tmp_path)


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        MetadataStore(tmp_path / "nowhere")
