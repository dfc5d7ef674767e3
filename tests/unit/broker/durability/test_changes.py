"""Changes as values: what does not fit a table is refused before a statement is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.durability.changes import (
    APPEND,
    CLEAR,
    DELETE,
    DELETE_WHERE,
    PUT,
    Column,
    RowChange,
    Statement,
    TableSchema,
    check_changes,
    delete_where,
)
from model.errors import InvalidParameter

OFFSETS = TableSchema(
    "offsets",
    True,
    (Column("g", "text", True, 1), Column("queue_id", "integer", True, 2), Column("n", "integer", False, 0)),
)
JOURNAL = TableSchema("journal", False, (Column("seq", "integer", False, 1), Column("data", "blob", True, 0)))


def test_a_shape_makes_the_statements_of_its_table() -> None:
    assert OFFSETS.create() == (
        "create table offsets (g text not null, queue_id integer not null, n integer, primary key (g, queue_id)) "
        "without rowid"
    )
    assert OFFSETS.select() == "select g, queue_id, n from offsets order by g, queue_id"
    assert (
        OFFSETS.statement(RowChange("offsets", PUT, ("a", 1, 2)))[0]
        == "insert or replace into offsets values (?, ?, ?)"
    )
    assert (
        OFFSETS.statement(RowChange("offsets", DELETE, ("a", 1)))[0]
        == "delete from offsets where g = ? and queue_id = ?"
    )
    assert OFFSETS.statement(RowChange("offsets", CLEAR, ()))[0] == "delete from offsets"
    assert OFFSETS.statement(RowChange("offsets", DELETE_WHERE, ("g", "a"))) == (
        "delete from offsets where g = ?",
        ("a",),
    )
    assert JOURNAL.statement(RowChange("journal", APPEND, (b"x",)))[0] == "insert into journal (data) values (?)"


def test_a_shape_is_the_same_after_the_wire() -> None:
    assert TableSchema.from_wire(OFFSETS.to_wire()) == OFFSETS


def test_a_statement_gives_its_change() -> None:
    statement = Statement(delete_where("offsets", "g"), "offsets", DELETE_WHERE, True, "g")
    assert statement.change(("a",)) == RowChange("offsets", DELETE_WHERE, ("g", "a"))
    assert Statement("...", "offsets", PUT, True).change((1, 2)) == RowChange("offsets", PUT, (1, 2))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (PUT, ("a", 1)),
        (PUT, ("a", 1, [])),
        (DELETE, ()),
        (DELETE_WHERE, ("1 = 1 --", 1)),
        (DELETE_WHERE, ("g",)),
        (CLEAR, (1,)),
        (APPEND, (b"x",)),
        (99, ()),
        ("put", ("a", 1, 2)),
    ],
)
def test_a_change_that_does_not_fit_is_refused(kind: Any, values: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidParameter, match="does not fit table offsets"):
        OFFSETS.statement(RowChange("offsets", kind, values))


@pytest.mark.parametrize(
    "wire",
    [
        None,
        ["t"],
        ["t; drop table numbers", 0, [["a", "text", 0, 1]]],
        ["t", 0, [["a b", "text", 0, 1]]],
        ["t", 0, [["a", "text default (1)", 0, 1]]],
        ["t", 0, [["a", "text"]]],
        ["t", 0, [[1, "text", 0, 1]]],
        ["t", 0, [["a", 1, 0, 1]]],
        ["t", 0, []],
        [b"t", 0, [["a", "text", 0, 1]]],
    ],
)
def test_a_shape_with_anything_but_names_and_types_is_refused(wire: Any) -> None:
    with pytest.raises(InvalidParameter):
        TableSchema.from_wire(wire)


def test_changes_come_from_lists_of_three() -> None:
    assert check_changes([["t", PUT, [1, b"x"]]]) == [RowChange("t", PUT, (1, b"x"))]
    for bad in ([["t", PUT]], [7], None, [["t", PUT, 7]]):
        with pytest.raises(InvalidParameter, match="not a change"):
            check_changes(bad)  # type: ignore[arg-type]  # from a peer
