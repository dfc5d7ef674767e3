"""I6: after each commit a replica has the replicated tables of its master, wherever its snapshot was made."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from broker.durability.changes import check_changes
from broker.durability.metadata import Journal, MetadataStore, StoredNumber, Table
from broker.durability.metadata_file import MetadataFile

SCHEMA = """
create table if not exists offsets (
    group_name text not null, topic text not null, queue_id integer not null, queue_offset integer not null,
    primary key (group_name, topic, queue_id)
) without rowid;
create table if not exists windows (number integer primary key, data blob not null);
create table if not exists journal (seq integer primary key, data blob not null);
create table if not exists here (name text primary key, value integer);
"""
TABLES = ("offsets", "windows", "journal")

GROUPS, TOPICS, SMALL = st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 2)
STEPS = st.one_of(
    st.tuples(st.just("put"), GROUPS, TOPICS, SMALL, st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("delete"), GROUPS, TOPICS, SMALL),
    st.tuples(st.just("delete where"), st.sampled_from([("topic", "t"), ("group_name", "g"), ("queue_id", 1)])),
    st.tuples(st.just("windows"), st.lists(st.tuples(SMALL, st.binary(max_size=3)), max_size=3)),
    st.tuples(st.just("journal"), st.binary(max_size=3)),
    st.tuples(st.just("clear journal")),
    st.tuples(st.just("number"), SMALL),
    st.tuples(st.just("here"), SMALL),
    st.tuples(st.just("sync")),
    st.tuples(st.just("commit")),
)


class Master:
    """A store with a table of each kind, a replicated number and two things that stay here."""

    def __init__(self, directory: Path) -> None:
        self.store = MetadataStore(directory)
        self.store.add_tables(SCHEMA)
        self.offsets = Table(self.store, "offsets", replicated=True)
        self.windows = Table(self.store, "windows", replicated=True)
        self.journal = Journal(self.store, "journal", replicated=True)
        self.here = Table(self.store, "here", replicated=False)
        self.number = StoredNumber(self.store, "runs", replicated=True)
        self.clock = StoredNumber(self.store, "clock", replicated=False)
        self.store.record_changes()

    def step(self, kind: str, *values: Any) -> None:
        steps: dict[str, Callable[..., object]] = {
            "put": self.offsets.put,
            "delete": self.offsets.delete,
            "delete where": lambda where: self.offsets.delete_where(*where),
            "windows": lambda rows: self.windows.replace_all(dict(rows).items()),
            "journal": lambda data: self.journal.append((data,)),
            "clear journal": self.journal.clear,
            "number": self.number.save,
            "here": self.stay_here,
            "sync": self.store.sync_next_commit,
            "commit": self.store.commit,
        }
        steps[kind](*values)

    def stay_here(self, value: int) -> None:
        self.here.put("a", value)
        self.clock.save(value)


def rows(db: sqlite3.Connection, tables: tuple[str, ...] = TABLES) -> dict[str, list[Any]]:
    found = {table: db.execute(f"select * from {table} order by 1, 2").fetchall() for table in tables}
    return {**found, "numbers": db.execute("select * from numbers where name = 'runs'").fetchall()}


@given(before=st.lists(STEPS, max_size=12), after=st.lists(st.lists(STEPS, max_size=8), max_size=6))
def test_a_replica_has_the_tables_of_its_master_after_each_commit(before: list[Any], after: list[list[Any]]) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        master = Master(Path(first))
        with master.store, MetadataFile(Path(second)) as replica:
            replica._db.executescript("insert into numbers values ('clock', 99), ('runs', 98)")
            for step in before:
                master.step(*step)
            # Uncommitted changes are not part of the snapshot; they come with the next commit.
            master.store.collect_changes()
            at_snapshot = rows(master.store._db)
            chunks = master.store.snapshot()
            for turn in after[:1]:
                for step in turn:
                    master.step(*step)
            with replica.load_snapshot() as load:
                for chunk in chunks:
                    load.add(chunk)
            assert rows(replica._db) == at_snapshot
            for number, turn in enumerate(after):
                for step in turn if number else ():
                    master.step(*step)
                master.store.commit()
                sent: Any = msgpack.unpackb(msgpack.packb(master.store.collect_changes()))
                replica.apply(check_changes(sent))
                assert rows(replica._db) == rows(master.store._db)
            local = replica._db.execute("select value from numbers where name = 'clock'").fetchall()
            assert local == [(99,)], "the clock of the replica is its own"
            names = [name for (name,) in replica._db.execute("select name from sqlite_master where type = 'table'")]
            assert "here" not in names
