"""A copy of all replicated tables as of one moment, in chunks that describe themselves.

    [HEAD, shapes of the tables, names of the replicated numbers]
    [ROWS, place of the table in the head, rows]                      about 256 KiB each, or one longer row
    [END, number of rows in all]

A broker makes it between two commits, and a replica loads it in one transaction, whatever it had before. So a crash
leaves the old tables or the new ones, and a snapshot that ends early changes nothing. The table `numbers` has local
numbers too; only those named in the head are replaced.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgpack

from broker.durability.changes import PUT, Column, TableSchema
from model.errors import InvalidParameter
from model.replica_limits import SNAPSHOT_CHUNK_BYTES

NUMBERS = "numbers"
_HEAD, _ROWS, _END = range(3)
_ROW_BYTES = 32  # the least size of a row, which counts towards the size of a chunk


def read_table_schema(db: sqlite3.Connection, table: str) -> TableSchema | None:
    """The shape of a table in a file; None if it has no such table."""
    row = db.execute("select sql from sqlite_master where type = 'table' and name = ?", (table,)).fetchone()
    if row is None:
        return None
    columns = tuple(
        Column(name, kind.lower(), bool(not_null), key_place)
        for _, name, kind, not_null, _, key_place in db.execute(f"pragma table_info({table})")
    )
    return TableSchema(table, row[0].lower().rstrip(" ;").endswith("without rowid"), columns)


def take_snapshot(db: sqlite3.Connection, tables: Sequence[str], numbers: Sequence[str]) -> Iterator[bytes]:
    """Copy a file now, and return the chunks of these tables and numbers in the copy.

    The copy is a temporary database of SQLite, which moves it to a file when it grows; it goes with the iterator. It is
    made in one piece, because the connection that commits is the only one that may read (`locking_mode = exclusive`).
    """
    copy = sqlite3.connect("")  # SQLite: a private file, deleted when it is closed
    try:
        db.backup(copy)
    except sqlite3.Error:
        copy.close()
        raise
    return _chunks(copy, tables, numbers)


def _chunks(copy: sqlite3.Connection, tables: Sequence[str], numbers: Sequence[str]) -> Iterator[bytes]:
    try:
        shapes = [shape for table in tables if (shape := read_table_schema(copy, table)) is not None]
        yield msgpack.packb([_HEAD, [shape.to_wire() for shape in shapes], list(numbers)])
        count = 0
        for table_index, shape in enumerate(shapes):
            rows: list[tuple[Any, ...]] = []
            size = 0
            for row in copy.execute(shape.select()):
                if shape.name == NUMBERS and row[0] not in numbers:
                    continue
                rows.append(row)
                size += _ROW_BYTES + sum(len(value) for value in row if isinstance(value, str | bytes))
                count += 1
                if size >= SNAPSHOT_CHUNK_BYTES:
                    yield msgpack.packb([_ROWS, table_index, rows])
                    rows, size = [], 0
            if rows:
                yield msgpack.packb([_ROWS, table_index, rows])
        yield msgpack.packb([_END, count])
    finally:
        copy.close()


class SnapshotLoad:
    """Loads the chunks of one snapshot into a file, inside a transaction of the caller."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._shapes: list[TableSchema] | None = None
        self._numbers: frozenset[str] = frozenset()
        self._count = 0
        self.is_complete = False

    def add(self, chunk: bytes) -> None:
        """Load the next chunk.

        Raises:
            InvalidParameter: it is not the next chunk of a snapshot that fits the tables here.
        """
        try:
            wire: Any = msgpack.unpackb(chunk)
            kind, *values = wire
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise InvalidParameter(f"a chunk of a snapshot is not msgpack: {error}") from error
        fits = not self.is_complete and len(values) == {_HEAD: 2, _ROWS: 2, _END: 1}.get(kind, -1)
        if not fits or (kind == _HEAD) is not (self._shapes is None):
            raise InvalidParameter("the chunks of a snapshot came in a wrong order")
        if kind == _HEAD:
            self._begin([TableSchema.from_wire(shape) for shape in values[0]], values[1])
        elif kind == _ROWS:
            self._add_rows(*values)
        elif values[0] != self._count:
            raise InvalidParameter(f"a snapshot of {values[0]} rows came with {self._count}")
        else:
            self.is_complete = True

    def _begin(self, shapes: list[TableSchema], numbers: list[str]) -> None:
        for shape in shapes:
            schema = read_table_schema(self._db, shape.name)
            if schema is None:
                self._db.execute(shape.create())
            elif schema != shape:
                raise InvalidParameter(
                    f"table {shape.name} has other columns at the master than here: run the same version on all "
                    "replicas of a set, the replicas before the master"
                )
            elif shape.name != NUMBERS:
                self._db.execute(f"delete from {shape.name}")
        self._db.executemany(f"delete from {NUMBERS} where name = ?", [(name,) for name in numbers])
        self._shapes, self._numbers = shapes, frozenset(numbers)

    def _add_rows(self, table_index: int, rows: list[list[Any]]) -> None:
        assert self._shapes is not None, "the head came first"
        try:
            shape = self._shapes[table_index]
            if shape.name == NUMBERS and any(row[0] not in self._numbers for row in rows):
                raise InvalidParameter("a snapshot has a number that its head does not name")
            self._db.executemany(shape.sql(PUT), rows)
        except (LookupError, TypeError, sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
            raise InvalidParameter(f"rows of a snapshot do not fit their table: {error}") from error
        self._count += len(rows)
