"""Changes of stored rows as values, which a replica applies: no SQL passes between brokers. Pure.

    RowChange("offsets", PUT, ("g", "t", 0, 42))            the row with this key is this one now
    RowChange("offsets", DELETE, ("g", "t", 0))             the row with this key is gone
    RowChange("offsets", DELETE_WHERE, ("topic", "t"))      every row with this value in a column is gone
    RowChange("pop_windows", CLEAR, ())                     every row is gone
    RowChange("pop_journal", APPEND, (b"...",))             a journal has one more row
    RowChange("", SYNC, ())                                 this commit has to be on the disk before it is confirmed

A shape has what a statement needs of a table. It is read from the schema in the file, so a name that comes from another
broker is looked up and never becomes part of a statement unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from model.errors import InvalidParameter

PUT, DELETE, DELETE_WHERE, CLEAR, APPEND, SYNC = range(6)

_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")
_TYPES = ("integer", "text", "blob")
_VALUES = (int, str, bytes, float, type(None))


class RowChange(NamedTuple):
    """One change of a table; the values are such that msgpack takes them."""

    table: str
    kind: int
    values: tuple[Any, ...]


class Statement(NamedTuple):
    """A statement for the rows of a table, and the kind of change that it makes."""

    sql: str
    table: str
    kind: int
    replicated: bool
    column: str = ""  # of DELETE_WHERE

    def change(self, values: tuple[Any, ...]) -> RowChange:
        """The change that this statement makes with these values."""
        return RowChange(self.table, self.kind, (self.column, *values) if self.column else values)


class Column(NamedTuple):
    """A column as SQLite describes it; `key_place` counts from 1, and is 0 outside the primary key."""

    name: str
    type: str
    not_null: bool
    key_place: int


class TableSchema(NamedTuple):
    """A table with its columns, in their order."""

    name: str
    without_rowid: bool
    columns: tuple[Column, ...]

    @classmethod
    def from_wire(cls, wire: Any) -> TableSchema:
        """Read a shape that another broker sent.

        Raises:
            InvalidParameter: it is not the shape of a table.
        """
        try:
            name, without_rowid, columns = wire
            shape = cls(name, bool(without_rowid), tuple(Column(*column) for column in columns))
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"not the shape of a table: {error}") from error
        names = [shape.name, *(column.name for column in shape.columns)]
        good = all(isinstance(each, str) and _IDENTIFIER.fullmatch(each) for each in names)
        if not good or not shape.columns or any(column.type not in _TYPES for column in shape.columns):
            raise InvalidParameter("a table of the snapshot has a name or a type that no table of a broker has")
        return shape

    def to_wire(self) -> list[Any]:
        """Write the shape for `from_wire`."""
        return [self.name, self.without_rowid, [list(column) for column in self.columns]]

    @property
    def key(self) -> list[str]:
        """The columns of the primary key, in its order."""
        return [each.name for each in sorted(self.columns, key=lambda each: each.key_place) if each.key_place]

    def create(self) -> str:
        """The statement that makes such a table."""
        columns = [f"{each.name} {each.type}{' not null' if each.not_null else ''}" for each in self.columns]
        parts = [*columns, *([f"primary key ({', '.join(self.key)})"] if self.key else [])]
        return f"create table {self.name} ({', '.join(parts)}){' without rowid' if self.without_rowid else ''}"

    def select(self) -> str:
        """The query of all rows, in the order of the key."""
        names = ", ".join(each.name for each in self.columns)
        return f"select {names} from {self.name}" + (f" order by {', '.join(self.key)}" if self.key else "")

    def statement(self, change: RowChange) -> tuple[str, tuple[Any, ...]]:
        """The statement that makes a change of this table, and its values.

        Raises:
            InvalidParameter: the change does not fit the table.
        """
        kind, values = change.kind, change.values
        column_names = {each.name for each in self.columns}
        n_values = {PUT: len(self.columns), DELETE: len(self.key), DELETE_WHERE: 2, CLEAR: 0, APPEND: 1}.get(kind)
        fits = n_values == len(values) and all(isinstance(value, _VALUES) for value in values)
        if (
            not fits
            or (kind == DELETE_WHERE and values[0] not in column_names)
            or (kind == APPEND and "data" not in column_names)
        ):
            raise InvalidParameter(f"a change of kind {kind} with {len(values)} values does not fit table {self.name}")
        if kind == DELETE_WHERE:
            return delete_where(self.name, values[0]), values[1:]
        return self.sql(kind), values

    @cache  # noqa: B019  # there are as many shapes as tables
    def sql(self, kind: int) -> str:
        """The statement of a kind of change, except DELETE_WHERE, which has a column: `delete_where`."""
        where = " and ".join(f"{column} = ?" for column in self.key)
        return {
            PUT: f"insert or replace into {self.name} values ({', '.join('?' * len(self.columns))})",
            DELETE: f"delete from {self.name} where {where}",
            CLEAR: f"delete from {self.name}",
            APPEND: f"insert into {self.name} (data) values (?)",
        }[kind]


def delete_where(table: str, column: str) -> str:
    """The statement that deletes the rows with a value in a column."""
    return f"delete from {table} where {column} = ?"


def check_changes(wire: Iterable[Any]) -> list[RowChange]:
    """Read changes that another broker sent, as lists of table, kind and values.

    Raises:
        InvalidParameter: one is not a change.
    """
    try:
        changes = [RowChange(table, kind, tuple(values)) for table, kind, values in wire]
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"not a change of a table: {error}") from error
    return changes
