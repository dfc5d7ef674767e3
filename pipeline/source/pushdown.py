"""Narrows a read by the filters that Spark pushes down. Pure.

Filtered queues are not read, filtered offsets are not pulled, and tags go to the broker, which skips by their hash.
Only filters with values of exactly the expected type are used; Spark evaluates every other one, which is returned to
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from pipeline.source.offsets import Range

_TYPES = {"topic": str, "broker": str, "queue_id": int, "tag": str}
_COMPARISONS = EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """The part of a read that filters leave.

    Attributes:
        topics, brokers, queue_ids, tags: wanted values, or None for all.
        begin, end: wanted offsets, `end` exclusive; None for no bound.
    """

    topics: frozenset[object] | None = None
    brokers: frozenset[object] | None = None
    queue_ids: frozenset[object] | None = None
    tags: frozenset[object] | None = None
    begin: int | None = None
    end: int | None = None

    def apply(self, ranges: Iterable[Range]) -> list[Range]:
        """Return the part of each range that may hold a wanted message; queues without one are left out."""
        if self.tags == frozenset():
            return []
        kept = []
        for queue, start, end in ranges:
            if (
                _has(self.topics, queue.topic)
                and _has(self.brokers, queue.broker_name)
                and _has(self.queue_ids, queue.queue_id)
            ):
                low = start if self.begin is None else max(start, self.begin)
                high = end if self.end is None else min(end, self.end)
                kept.append(Range(queue, low, max(low, high)))
        return kept


def narrow(filters: Sequence[Filter]) -> tuple[Narrowing, list[Filter]]:
    """Turn filters, all of which have to hold, into a narrowing.

    Returns:
        The narrowing, and the filters that Spark still has to check. Those on offsets are among them: they cost it
        nothing, and so this code need not compare exactly as Spark does.
    """
    found, rest = Narrowing(), []
    for one in filters:
        if isinstance(one, EqualTo | In) and len(one.attribute) == 1 and one.attribute[0] in _TYPES:
            column = one.attribute[0]
            values = one.value if isinstance(one, In) else (one.value,)
            # An empty tag is a null column, which equals nothing in Spark, but not on the broker.
            if all(type(value) is _TYPES[column] and value != "" for value in values):
                found = _with_values(found, column, frozenset(values))
                continue
        elif isinstance(one, _COMPARISONS) and one.attribute == ("offset",) and type(one.value) is int:
            found = _with_offsets(found, one, one.value)
        rest.append(one)
    return found, rest


def _with_values(found: Narrowing, column: str, values: frozenset[object]) -> Narrowing:
    match column:
        case "topic":
            return replace(found, topics=_both(found.topics, values))
        case "broker":
            return replace(found, brokers=_both(found.brokers, values))
        case "queue_id":
            return replace(found, queue_ids=_both(found.queue_ids, values))
        case _:
            return replace(found, tags=_both(found.tags, values))


def _with_offsets(found: Narrowing, one: Filter, value: int) -> Narrowing:
    begin, end = found.begin, found.end
    if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
        low = value + 1 if isinstance(one, GreaterThan) else value
        begin = low if begin is None else max(begin, low)
    if isinstance(one, EqualTo | LessThan | LessThanOrEqual):
        high = value if isinstance(one, LessThan) else value + 1
        end = high if end is None else min(end, high)
    return replace(found, begin=begin, end=end)


def _both(before: frozenset[object] | None, values: frozenset[object]) -> frozenset[object]:
    return values if before is None else before & values


def _has(wanted: frozenset[object] | None, value: object) -> bool:
    return wanted is None or value in wanted
