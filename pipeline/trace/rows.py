"""The rows of `ownership`, `rebalances`, `fairness`, `totals` and `delivery`, from events in order. Without Spark.

`traces/figures/records.py` and `traces/figures/over_time.py` have the definitions. Spark's tasks (`group_figures.py`)
and a single process (`alone.py`) run the same code, so a figure does not depend on where it was computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from types import NoneType
from typing import Any, get_args, get_type_hints

import pyarrow as pa

from model.events import Event
from pipeline.arrow_arrays import as_numpy
from traces.figures.group import GroupFigures, Row
from traces.figures.over_time import KINDS as DELIVERY_KINDS
from traces.figures.over_time import Deliveries, DeliveryBucket, bucket_length
from traces.figures.records import GroupTotals, Ownership, Rebalance, TopicLoads
from traces.figures.uses import USES

ARROW_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def make_schema(record: type, *, without: str = "", more: Iterable[tuple[str, pa.DataType]] = ()) -> pa.Schema:
    """Return the columns of a record."""
    fields = [
        (name, ARROW_TYPES[next((each for each in get_args(hint) if each is not NoneType), hint)])
        for name, hint in get_type_hints(record).items()
        if name != without
    ]
    return pa.schema([*more, *fields])


_OF_CHANGE = (("group", pa.string()), ("cause", pa.string()))
SCHEMAS = {
    "ownership": make_schema(Ownership),
    "rebalances": make_schema(Rebalance, without="loads", more=[("balance_ms", pa.float64())]),
    "fairness": make_schema(TopicLoads, more=_OF_CHANGE),
    "totals": make_schema(GroupTotals),
    "delivery": make_schema(DeliveryBucket),
}
"""The columns of each table."""

KINDS = DELIVERY_KINDS | USES.keys()
"""Kinds of events from which the rows are computed."""

TableRow = tuple[str, tuple[Any, ...]]
"""The name of a table, and the values of its columns in order."""


def zip_events(columns: Sequence[pa.Array]) -> Iterator[Event]:
    """Make events from columns without nulls."""
    return map(Event._make, zip(*map(read_values, columns), strict=True))


def read_values(column: pa.Array) -> list[Any]:
    """Return the values of a column. Equal texts are the same object, which is faster to make, hash and compare."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if not pa.types.is_dictionary(column.type):
        values: list[Any] = as_numpy(column).tolist()
        return values
    return list(map(column.dictionary.to_pylist().__getitem__, as_numpy(column.indices).tolist()))


def compute_rows(groups: Iterable[tuple[str, Iterable[Event]]], start_ms: float, end_ms: float) -> Iterator[TableRow]:
    """Yield the rows of all tables, for a trace from `start_ms` to `end_ms`; open entries are ended at the end.

    `groups` has the groups with their events, and events without a group, in the order of
    `traces.figures.records.order_of`.
    """
    bucket_ms = bucket_length(end_ms - start_ms)
    for group, events in groups:
        figures, deliveries = GroupFigures(group), Deliveries(group, start_ms, bucket_ms)
        feed = figures.feed
        has_events = False
        for event in events:
            if event.kind in DELIVERY_KINDS:
                deliveries.feed(event)
            if event.kind in USES:
                has_events = has_events or event.group == group
                for row in feed(event):
                    yield from _tables(row)
        if has_events:
            for row in figures.finish(end_ms):
                yield from _tables(row)
            yield "totals", _TOTALS(figures.totals())
        for each in deliveries.rows():
            yield "delivery", _DELIVERY(each)


def _tables(row: Row) -> Iterator[TableRow]:
    if isinstance(row, Ownership):
        yield "ownership", _OWNERSHIP(row)
        return
    yield "rebalances", _REBALANCE(row)
    for each in row.loads:
        yield "fairness", (row.group, row.cause, *_LOADS(each))


_OWNERSHIP, _REBALANCE, _TOTALS = (attrgetter(*SCHEMAS[name].names) for name in ("ownership", "rebalances", "totals"))
_DELIVERY = attrgetter(*SCHEMAS["delivery"].names)
_LOADS = attrgetter(*(field.name for field in fields(TopicLoads)))
