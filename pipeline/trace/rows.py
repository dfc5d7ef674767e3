"""The rows of the tables `ownership`, `rebalances`, `fairness` and `totals`, from events in order. Without Spark.

The definitions are those of `figures/records.py`. Spark's tasks (`group_figures.py`) and a process alone (`alone.py`)
run this same code, so a figure does not depend on where it was computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from types import NoneType
from typing import Any, get_args, get_type_hints

import pyarrow as pa

from figures.group import GroupFigures, Row
from figures.records import GroupTotals, Ownership, Rebalance, TopicLoads
from model.events import Event

TABLES = ("ownership", "rebalances", "fairness", "totals")

ARROW_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _struct(record: type, *, without: str = "", more: Iterable[tuple[str, pa.DataType]] = ()) -> pa.DataType:
    """The columns of a record."""
    fields = [
        (name, ARROW_TYPES[next((one for one in get_args(hint) if one is not NoneType), hint)])
        for name, hint in get_type_hints(record).items()
        if name != without
    ]
    return pa.struct([*more, *fields])


_OF_CHANGE = (("group", pa.string()), ("cause", pa.string()))
SCHEMA = pa.schema(
    [
        ("ownership", _struct(Ownership)),
        ("rebalances", _struct(Rebalance, without="loads", more=[("balance_ms", pa.float64())])),
        ("fairness", _struct(TopicLoads, more=_OF_CHANGE)),
        ("totals", _struct(GroupTotals)),
    ]
)
"""One column for each table; a row has a value in one of them."""


def zip_events(columns: Sequence[pa.Array]) -> Iterator[Event]:
    """Events from the columns of one, none of them null."""
    return map(Event._make, zip(*map(values_of, columns), strict=True))


def values_of(column: pa.Array) -> list[Any]:
    """The values of a column. Equal texts are one object, which is sooner made, hashed and compared than many."""
    if not pa.types.is_string(column.type):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    encoded = column.dictionary_encode()
    return list(map(encoded.dictionary.to_pylist().__getitem__, encoded.indices.to_numpy().tolist()))


def rows_of(events: Iterable[tuple[str, Event]], end_ms: float) -> Iterator[dict[str, Any]]:
    """The rows of all tables, each as {name of its table: columns}; what is open at the end of the trace ends then.

    `events` are those of one group after the other, each with its group, in the order of `figures.records.order_of`.
    """
    for group, of_group in groupby(events, key=lambda pair: pair[0]):
        figures = GroupFigures(group)
        for _, event in of_group:
            for row in figures.feed(event):
                yield from _tables(row)
        for row in figures.finish(end_ms):
            yield from _tables(row)
        yield {"totals": _columns(figures.totals(), _TOTALS)}


def _tables(row: Row) -> Iterator[dict[str, Any]]:
    if isinstance(row, Ownership):
        yield {"ownership": _columns(row, _OWNERSHIP)}
        return
    yield {"rebalances": _columns(row, _REBALANCE)}
    for each in row.loads:
        yield {"fairness": {"group": row.group, "cause": row.cause, **_columns(each, _LOADS)}}


def _columns(record: object, names: Sequence[str]) -> dict[str, Any]:
    """As `asdict`, which copies each value and takes ten times as long."""
    return {name: getattr(record, name) for name in names}


_OWNERSHIP, _REBALANCE, _TOTALS = (
    [field.name for field in SCHEMA.field(name).type] for name in ("ownership", "rebalances", "totals")
)
_LOADS = [field.name for field in fields(TopicLoads)]
