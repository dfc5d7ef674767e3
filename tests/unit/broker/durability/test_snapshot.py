"""A snapshot is whole or refused, and describes its tables, so that a replica needs none of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import msgpack
import pytest

from broker.durability.snapshot import SnapshotLoad, read_table_schema, take_snapshot
from model.errors import InvalidParameter
from model.replica_limits import SNAPSHOT_CHUNK_BYTES

NUMBERS = "create table numbers (name text primary key, value integer not null);"


@pytest.fixture
def source() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(NUMBERS + "create table t (a text, b integer, primary key (b, a)) without rowid;")
        yield db


@pytest.fixture
def target() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(NUMBERS)
        yield db


def load_all(db: sqlite3.Connection, chunks: Iterator[bytes]) -> None:
    load = SnapshotLoad(db)
    for chunk in chunks:
        load.add(chunk)


def test_a_large_table_comes_in_parts_of_bounded_size(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    source.executemany("insert into t values (?, ?)", [("x" * 1000, n) for n in range(1000)])
    load, chunks = SnapshotLoad(target), list(take_snapshot(source, ["t"], []))
    assert len(chunks) > 4
    assert max(map(len, chunks)) < 1.1 * SNAPSHOT_CHUNK_BYTES
    for chunk in chunks:
        assert not load.is_complete
        load.add(chunk)
    assert load.is_complete
    assert target.execute("select * from t").fetchall() == source.execute("select * from t").fetchall()
    assert read_table_schema(target, "t") == read_table_schema(source, "t")


def test_the_copy_is_of_the_moment_of_the_call(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    source.execute("insert into t values ('a', 1)")
    chunks = take_snapshot(source, ["t"], [])
    source.execute("delete from t")
    load_all(target, chunks)
    assert target.execute("select * from t").fetchall() == [("a", 1)]


def test_a_table_that_is_not_there_is_left_out(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    load_all(target, take_snapshot(source, ["nothing", "t"], []))
    assert read_table_schema(target, "nothing") is None


def test_chunks_in_another_order_or_number_are_refused(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    source.execute("insert into t values ('a', 1)")
    head, rows, end = take_snapshot(source, ["t"], [])
    for order in ([rows], [end], [head, head], [head, end], [head, rows, rows, end], [head, rows, end, end], [b"\xc1"]):
        with pytest.raises(InvalidParameter):
            load_all(target, iter(order))


def test_rows_of_no_table_and_numbers_without_a_name_in_the_head_are_refused(target: sqlite3.Connection) -> None:
    head = msgpack.packb([0, [["numbers", False, [["name", "text", False, 1], ["value", "integer", True, 0]]]], ["n"]])
    for chunk in ([1, 7, [["n", 1]]], [1, 0, [["m", 1]]], [1, 0, [["n"]]], [1, 0, [7]], [1, 0, [["n", {}]]], [7]):
        load = SnapshotLoad(target)
        load.add(head)
        with pytest.raises(InvalidParameter):
            load.add(msgpack.packb(chunk))


def test_a_table_with_other_columns_is_refused_with_what_to_do(
    source: sqlite3.Connection, target: sqlite3.Connection
) -> None:
    target.execute("create table t (a text primary key)")
    with pytest.raises(InvalidParameter, match="run the same version"):
        SnapshotLoad(target).add(next(take_snapshot(source, ["t"], [])))
