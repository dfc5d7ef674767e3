"""Narrows a read with the filters that Spark pushes down. Pure.

Filtered queues are not read, filtered offsets are not pulled, and tags are sent to the broker, which skips other
messages by the hash of the tag. Other conditions on the columns `tag`, `key` and `msg_id`, which are the properties
TAGS, KEYS and UNIQ_KEY of a message, are sent as an SQL filter. Only filters with values of exactly the expected type
are used; all others are returned to Spark, which evaluates them.

    tag STARTSWITH 'or' AND msg_id = 'x'     TAGS STARTSWITH 'or' AND UNIQ_KEY = 'x'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from model.limits import MAX_EXPRESSION_CHARS
from pipeline.source.offsets import MAX_OFFSET, Range

_TYPES = {"topic": str, "broker": str, "queue_id": int, "tag": str}
_PROPERTIES = {"tag": "TAGS", "key": "KEYS", "msg_id": "UNIQ_KEY"}
_WORDS: dict[type[Filter], str] = {
    StringContains: "CONTAINS",
    StringStartsWith: "STARTSWITH",
    StringEndsWith: "ENDSWITH",
}
_COMPARISONS = EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """The part of a read that passes the filters.

    Attributes:
        values: column -> wanted values; a column that is absent is not filtered.
        begin, end: wanted offsets, `end` exclusive.
        sql: filter that a wanted message matches, or None.
    """

    values: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    sql: str | None = None
    begin: int = 0
    end: int = MAX_OFFSET

    def apply(self, ranges: Iterable[Range]) -> list[Range]:
        """Return the part of each range that may hold a wanted message, without queues that hold none."""
        if not all(self.values.values()):
            return []
        kept = []
        for queue, start, end in ranges:
            of_queue = {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}
            if all(value in self.values.get(column, (value,)) for column, value in of_queue.items()):
                low = max(start, self.begin)
                kept.append(Range(queue, low, max(low, min(end, self.end))))
        return kept


def narrow(filters: Sequence[Filter], sql: str | None = None) -> tuple[Narrowing, list[Filter]]:
    """Convert filters, all of which have to hold, to a narrowing, with the SQL filter that the read has already.

    The second value has the filters that Spark still has to check. It includes filters on offsets, which cost Spark
    nothing, so this code need not compare exactly as Spark does.
    """
    narrowing, rest = Narrowing(sql=sql), []
    for each in filters:
        if isinstance(each, EqualTo | In) and len(each.attribute) == 1 and each.attribute[0] in _TYPES:
            column = each.attribute[0]
            values = each.value if isinstance(each, In) else (each.value,)
            # An empty tag is a null column. In Spark null equals no value, but a broker would find messages without a
            # tag.
            if all(type(value) is _TYPES[column] and value != "" for value in values):
                both = frozenset(values) & narrowing.values.get(column, frozenset(values))
                narrowing = replace(narrowing, values={**narrowing.values, column: both})
                continue
        elif isinstance(each, _COMPARISONS) and each.attribute == ("offset",) and type(each.value) is int:
            narrowing = _with_offsets(narrowing, each, each.value)
        elif (condition := _condition_of(each)) is not None:
            joined = condition if narrowing.sql is None else f"({narrowing.sql}) AND {condition}"
            if len(joined) <= MAX_EXPRESSION_CHARS:
                narrowing = replace(narrowing, sql=joined)
                continue
        rest.append(each)
    return narrowing, rest


def _condition_of(condition: Filter, *, negated: bool = False) -> str | None:
    """The SQL filter of a condition on a property, or None if a broker cannot check it as Spark does.

    Spark orders texts by their bytes and the language compares only numbers, so an order is never sent. An empty tag or
    key is a null column in Spark, and an absent property here. Spark adds IsNotNull to each condition on a column, not
    sent because the broker would examine messages where the hashes of tags suffice.
    """
    if isinstance(condition, Not):
        return None if negated else _condition_of(condition.child, negated=True)
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    name = _PROPERTIES.get(attribute[0]) if len(attribute) == 1 else None
    if name is None:
        return None
    word = "NOT " if negated else ""
    if isinstance(condition, IsNull):
        return f"{name} IS {word}NULL"
    values = condition.value if isinstance(condition, In) else (getattr(condition, "value", None),)
    if not values or not all(type(value) is str and value for value in values):
        return None
    texts = ["'" + value.replace("'", "''") + "'" for value in values]
    if isinstance(condition, EqualTo | In):
        return f"{name} {word}IN ({', '.join(texts)})"
    return f"{name} {word}{_WORDS[type(condition)]} {texts[0]}" if type(condition) in _WORDS else None


def _with_offsets(narrowing: Narrowing, condition: Filter, value: int) -> Narrowing:
    begin, end = narrowing.begin, narrowing.end
    if isinstance(condition, EqualTo | GreaterThan | GreaterThanOrEqual):
        begin = max(begin, value + 1 if isinstance(condition, GreaterThan) else value)
    if isinstance(condition, EqualTo | LessThan | LessThanOrEqual):
        end = min(end, value if isinstance(condition, LessThan) else value + 1)
    return replace(narrowing, begin=begin, end=end)
