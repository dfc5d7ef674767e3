"""The file as a replica uses it: a snapshot or a commit of the master is there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.durability.changes import CLEAR, PUT, SYNC, RowChange
from broker.durability.metadata import MetadataStore, Table
from broker.durability.metadata_file import MetadataFile, metadata_exists
from model.errors import InvalidParameter, StorageFull

SCHEMA = "create table if not exists t (name text primary key, data text) without rowid;"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MetadataStore]:
    (tmp_path / "master").mkdir()
    with MetadataStore(tmp_path / "master") as opened:
        opened.add_tables(SCHEMA)
        yield opened


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[MetadataFile]:
    (tmp_path / "replica").mkdir()
    with MetadataFile(tmp_path / "replica") as opened:
        yield opened


def load(replica: MetadataFile, chunks: Iterator[bytes]) -> None:
    with replica.load_snapshot() as loading:
        for chunk in chunks:
            loading.add(chunk)


def test_a_snapshot_that_ends_early_changes_nothing(master: MetadataStore, replica: MetadataFile) -> None:
    table = Table(master, "t", replicated=True)
    table.put("a", "old")
    master.commit()
    load(replica, master.snapshot())
    table.put("a", "new")
    master.commit()
    chunks = list(master.snapshot())
    with pytest.raises(InvalidParameter, match="before its last chunk"):
        load(replica, iter(chunks[:-1]))
    assert list(replica.rows("select * from t")) == [("a", "old")]
    load(replica, iter(chunks))
    assert list(replica.rows("select * from t")) == [("a", "new")]


def _cut_off(chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield next(chunks)
    raise GeneratorExit


def test_a_crash_in_the_middle_of_a_snapshot_leaves_the_old_tables(
    master: MetadataStore, replica: MetadataFile, tmp_path: Path
) -> None:
    Table(master, "t", replicated=True).put("a", "old")
    master.commit()
    load(replica, master.snapshot())
    with pytest.raises(GeneratorExit):
        load(replica, _cut_off(master.snapshot()))
    assert list(replica.rows("select * from t")) == [("a", "old")]


def test_changes_that_do_not_all_fit_change_nothing(master: MetadataStore, replica: MetadataFile) -> None:
    Table(master, "t", replicated=True)
    load(replica, master.snapshot())
    good = RowChange("t", PUT, ("a", "b"))
    for bad in (
        RowChange("t", PUT, ("a",)),
        RowChange("u", CLEAR, ()),
        RowChange("sqlite_master", CLEAR, ()),
        RowChange("t", 9, ()),
    ):
        with pytest.raises(InvalidParameter):
            replica.apply([good, bad])
    assert list(replica.rows("select * from t")) == []
    replica.apply([good])
    assert list(replica.rows("select * from t")) == [("a", "b")]


def test_a_commit_that_messages_depend_on_is_synced_at_the_replica_as_well(
    master: MetadataStore, replica: MetadataFile
) -> None:
    table = Table(master, "t", replicated=True)
    load(replica, master.snapshot())
    master.record_changes()
    for must_sync in (True, False):
        if must_sync:
            master.sync_next_commit()
        table.put("a", "b")
        master.commit()
        changes = master.collect_changes()
        assert [change.kind for change in changes] == ([PUT, SYNC] if must_sync else [PUT])
        statements: list[str] = []
        replica._db.set_trace_callback(statements.append)
        replica.apply(changes)
        assert ("pragma synchronous = full" in statements) is must_sync


def test_a_full_disk_at_the_replica_is_an_error_and_changes_nothing(
    master: MetadataStore, replica: MetadataFile
) -> None:
    Table(master, "t", replicated=True)
    load(replica, master.snapshot())
    (pages,) = replica._db.execute("pragma page_count").fetchone()
    replica._db.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(StorageFull):
        replica.apply([RowChange("t", PUT, (f"{n}", "x" * 1000)) for n in range(100)])
    assert list(replica.rows("select * from t")) == []
    replica.apply([])


def test_changes_are_kept_only_for_a_broker_that_has_replicas(master: MetadataStore) -> None:
    table = Table(master, "t", replicated=True)
    table.put("a", "b")
    master.commit()
    assert master.collect_changes() == []


def test_a_table_is_declared_in_one_way(master: MetadataStore) -> None:
    Table(master, "t", replicated=True)
    with pytest.raises(AssertionError, match="declared in two ways"):
        Table(master, "t", replicated=False)


def test_a_file_without_content_does_not_exist(tmp_path: Path) -> None:
    assert not metadata_exists(tmp_path)
    with MetadataFile(tmp_path):
        assert metadata_exists(tmp_path)
