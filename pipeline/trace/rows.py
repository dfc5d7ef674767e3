"""The rows of the tables `ownership`, `rebalances`, `fairness` and `totals`, from events in order. Without Spark.

The definitions are those of `figures/records.py`. Spark's tasks (`group_figures.py`) and a process alone (`alone.py`)
run this same code, so a figure does not depend on where it was computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from types import NoneType
from typing import Any, get_args, get_type_hints

import pyarrow as pa

from figures.group import GroupFigures, Row
from figures.records import GroupTotals, Ownership, Rebalance, TopicLoads
from model.events import Event

ARROW_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def schema_of(record: type, *, without: str = "", more: Iterable[tuple[str, pa.DataType]] = ()) -> pa.Schema:
    """The columns of a record."""
    fields = [
        (name, ARROW_TYPES[next((one for one in get_args(hint) if one is not NoneType), hint)])
        for name, hint in get_type_hints(record).items()
        if name != without
    ]
    return pa.schema([*more, *fields])


_OF_CHANGE = (("group", pa.string()), ("cause", pa.string()))
SCHEMAS = {
    "ownership": schema_of(Ownership),
    "rebalances": schema_of(Rebalance, without="loads", more=[("balance_ms", pa.float64())]),
    "fairness": schema_of(TopicLoads, more=_OF_CHANGE),
    "totals": schema_of(GroupTotals),
}
"""The columns of each table."""

TableRow = tuple[str, tuple[Any, ...]]
"""The name of a table, and the values of its columns in order."""


def zip_events(columns: Sequence[pa.Array]) -> Iterator[Event]:
    """Events from the columns of one, none of them null."""
    return map(Event._make, zip(*map(values_of, columns), strict=True))


def values_of(column: pa.Array) -> list[Any]:
    """The values of a column. Equal texts are one object, which is sooner made, hashed and compared than many."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if not pa.types.is_dictionary(column.type):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    return list(map(column.dictionary.to_pylist().__getitem__, column.indices.to_numpy().tolist()))


def rows_of(events: Iterable[tuple[str, Event]], end_ms: float) -> Iterator[TableRow]:
    """The rows of all tables; what is open at the end of the trace ends then.

    `events` are those of one group after the other, each with its group, in the order of `figures.records.order_of`.
    """
    for group, of_group in groupby(events, key=lambda pair: pair[0]):
        figures = GroupFigures(group)
        feed = figures.feed
        for _, event in of_group:
            for row in feed(event):
                yield from _tables(row)
        for row in figures.finish(end_ms):
            yield from _tables(row)
        yield "totals", _TOTALS(figures.totals())


def _tables(row: Row) -> Iterator[TableRow]:
    if isinstance(row, Ownership):
        yield "ownership", _OWNERSHIP(row)
        return
    yield "rebalances", _REBALANCE(row)
    for each in row.loads:
        yield "fairness", (row.group, row.cause, *_LOADS(each))


_OWNERSHIP, _REBALANCE, _TOTALS = (attrgetter(*SCHEMAS[name].names) for name in ("ownership", "rebalances", "totals"))
_LOADS = attrgetter(*(field.name for field in fields(TopicLoads)))
