"""The metadata file: what was committed is there again, in one piece, whatever the disk did in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from broker.durability.metadata import Journal, MetadataStore, StoredNumber, Table
from broker.store.disk.directory import METADATA_NAME
from broker.store.disk.files import Files
from model.errors import ConfigError, StorageFull, SystemError_
from testbed.simulation.cluster.servers import UnsyncedFiles

SCHEMA = """
create table if not exists offsets (
    group_name text not null, topic text not null, queue_id integer not null, queue_offset integer not null,
    primary key (group_name, topic, queue_id)
) without rowid;
create table if not exists journal (seq integer primary key, data blob not null);
"""


def table(store: MetadataStore) -> Table:
    store.add_tables(SCHEMA)
    return Table(store, "offsets", replicated=True)


def load(directory: Path, order: str = "") -> list[tuple[Any, ...]]:
    """The rows that a new run of the broker finds."""
    with MetadataStore(directory) as store:
        return list(table(store).rows(order))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetadataStore]:
    with MetadataStore(tmp_path) as opened:
        yield opened


@pytest.fixture
def offsets(store: MetadataStore) -> Table:
    return table(store)


def test_rows_that_were_committed_are_found_by_the_next_run(
    store: MetadataStore, offsets: Table, tmp_path: Path
) -> None:
    offsets.put("g", "t", 0, 42)
    offsets.put("a", "t", 0, 77)
    store.commit()
    assert load(tmp_path, "queue_offset desc") == [("a", "t", 0, 77), ("g", "t", 0, 42)]


def test_what_was_not_committed_is_not_there(offsets: Table, tmp_path: Path) -> None:
    offsets.put("g", "t", 0, 42)
    assert load(tmp_path) == []


def test_a_directory_without_a_file_is_an_empty_one(tmp_path: Path) -> None:
    assert load(tmp_path) == []
    assert (tmp_path / METADATA_NAME).exists()


def test_the_newest_of_several_changes_of_a_row_counts(store: MetadataStore, offsets: Table, tmp_path: Path) -> None:
    for offset in (42, 43):
        offsets.put("g", "t", 0, offset)
    store.commit()
    assert load(tmp_path) == [("g", "t", 0, 43)]


def test_a_deleted_row_is_gone_and_no_other(store: MetadataStore, offsets: Table, tmp_path: Path) -> None:
    offsets.put("g", "t", 0, 42)
    offsets.put("g", "t", 1, 43)
    store.commit()
    offsets.delete("g", "t", 0)
    store.commit()
    assert load(tmp_path) == [("g", "t", 1, 43)]


def test_a_row_that_is_deleted_and_put_again_before_the_commit_is_there(
    store: MetadataStore, offsets: Table, tmp_path: Path
) -> None:
    offsets.put("g", "t", 0, 42)
    offsets.delete("g", "t", 0)
    offsets.put("g", "t", 0, 1)
    store.commit()
    assert load(tmp_path) == [("g", "t", 0, 1)]


def test_deleting_by_a_column_also_takes_rows_that_are_not_committed_but_none_that_follow(
    store: MetadataStore, offsets: Table, tmp_path: Path
) -> None:
    offsets.put("g", "t", 0, 42)
    store.commit()
    offsets.put("h", "t", 1, 8)
    offsets.put("h", "u", 0, 5)
    offsets.delete_where("topic", "t")
    offsets.put("g", "t", 0, 1)
    store.commit()
    assert load(tmp_path) == [("g", "t", 0, 1), ("h", "u", 0, 5)]


def test_a_row_whose_key_names_a_column_is_not_taken_for_a_deletion_by_it(
    store: MetadataStore, offsets: Table, tmp_path: Path
) -> None:
    offsets.put("topic", "t", 0, 42)
    offsets.delete_where("topic", "t")
    store.commit()
    assert load(tmp_path) == []


def test_a_table_that_is_replaced_has_the_new_rows_only(store: MetadataStore, offsets: Table, tmp_path: Path) -> None:
    offsets.put("g", "t", 0, 42)
    store.commit()
    offsets.put("g", "t", 1, 43)
    offsets.replace_all([("h", "t", 2, 44)])
    store.commit()
    assert load(tmp_path) == [("h", "t", 2, 44)]


def test_numbers_are_0_until_they_are_stored(store: MetadataStore, tmp_path: Path) -> None:
    runs = StoredNumber(store, "runs", replicated=True)
    assert runs.read() == 0
    runs.save(3)
    runs.save(4)
    store.commit()
    with MetadataStore(tmp_path) as again:
        assert StoredNumber(again, "runs", replicated=True).read() == 4


# --- journals --------------------------------------------------------------------------------------------------------
def test_entries_of_a_journal_come_back_in_their_order(store: MetadataStore, offsets: Table, tmp_path: Path) -> None:
    journal = Journal(store, "journal", replicated=True)
    for number in range(3):
        journal.append((number, b"entry"))
    assert len(journal.pending) == 3
    store.commit()
    journal.append((3, b"entry"))
    store.commit()
    assert journal.pending == []
    assert journal.written_bytes > 0
    assert [number for number, _ in journal.entries()] == [0, 1, 2, 3]
    (rows,) = store.rows("select count(*) from journal")
    assert rows == (2,), "one for each commit"


def test_a_journal_that_is_cleared_keeps_what_is_appended_afterwards(store: MetadataStore, offsets: Table) -> None:
    journal = Journal(store, "journal", replicated=True)
    journal.append((0,))
    store.commit()
    journal.append((1,))
    journal.clear()
    journal.append((2,))
    assert journal.written_bytes == 0
    store.commit()
    assert list(journal.entries()) == [(2,)]


def test_entries_that_cannot_be_committed_stay_pending(store: MetadataStore, offsets: Table) -> None:
    journal = Journal(store, "journal", replicated=True)
    fill_the_disk(store)
    for number in range(3):
        journal.append((number, b"x" * 10_000))
    with pytest.raises(StorageFull):
        store.commit()
    assert len(journal.pending) == 3
    make_room(store)
    store.commit()
    assert len(list(journal.entries())) == 3


# --- a disk that fails -----------------------------------------------------------------------------------------------
def fill_the_disk(store: MetadataStore) -> None:
    """Keep the file from growing."""
    (pages,) = store._db.execute("pragma page_count").fetchone()
    store._db.execute(f"pragma max_page_count = {pages}")


def make_room(store: MetadataStore) -> None:
    store._db.execute("pragma max_page_count = 1000000")


def test_a_full_disk_refuses_the_commit_and_the_next_one_with_room_stores_everything(
    store: MetadataStore, offsets: Table, tmp_path: Path
) -> None:
    fill_the_disk(store)
    for number in range(1_000):
        offsets.put("g", "t" * 100, number, number)
    with pytest.raises(StorageFull, match="make room"):
        store.commit()
    assert load(tmp_path) == []
    make_room(store)
    store.commit()
    assert len(load(tmp_path)) == 1_000


def test_hours_of_a_full_disk_cost_one_pending_change_for_each_row(store: MetadataStore, offsets: Table) -> None:
    fill_the_disk(store)
    for offset in range(100):
        for queue_id in range(100):
            offsets.put("g", "t" * 100, queue_id, offset)
        with pytest.raises(StorageFull):
            store.commit()
    assert len(store._pending) == 100


def test_a_locked_file_is_an_error_that_says_so_and_is_tried_again(
    store: MetadataStore, offsets: Table, tmp_path: Path
) -> None:
    store._db.execute("pragma busy_timeout = 0")
    offsets.put("g", "t", 0, 42)
    other = sqlite3.connect(tmp_path / METADATA_NAME, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(SystemError_, match="metadata could not be written: database is locked"):
        store.commit()
    other.execute("rollback")
    other.close()
    store.commit()
    assert load(tmp_path) == [("g", "t", 0, 42)]


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_file_can_be_read_in_between_where_directories_are_shared(tmp_path: Path, is_shared: bool) -> None:
    files = Files() if is_shared else UnsyncedFiles()
    with (
        MetadataStore(tmp_path, files=files) as store,
        closing(sqlite3.connect(tmp_path / METADATA_NAME, timeout=0)) as other,
    ):
        StoredNumber(store, "n", replicated=True).save(7)
        store.commit()
        with nullcontext() if is_shared else pytest.raises(sqlite3.OperationalError, match="locked"):
            assert other.execute("select value from numbers").fetchall() == [(7,)]


def test_a_commit_that_messages_depend_on_waits_for_the_disk_and_the_next_one_does_not(
    store: MetadataStore, offsets: Table
) -> None:
    levels: list[bool] = []
    for is_needed in (False, True, False):
        statements: list[str] = []
        if is_needed:
            store.sync_next_commit()
        offsets.put("g", "t", 0, len(levels))
        store._db.set_trace_callback(statements.append)
        store.commit()
        store._db.set_trace_callback(None)
        levels.append("pragma synchronous = full" in statements[: statements.index("begin immediate")])
    assert levels == [False, True, False]
    assert store._db.execute("pragma synchronous").fetchone() == (1,), "normal"


def test_a_commit_of_nothing_does_not_touch_the_file(store: MetadataStore) -> None:
    store._db.close()
    store.commit()


def test_a_file_that_is_not_a_database_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / METADATA_NAME).write_bytes(b"these are not the bytes of a database" * 100)
    with pytest.raises(ConfigError, match=METADATA_NAME):
        MetadataStore(tmp_path)


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        MetadataStore(tmp_path / "nowhere")
