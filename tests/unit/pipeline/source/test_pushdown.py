from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from model.message_queue import MessageQueue
from pipeline.source.offsets import Range
from pipeline.source.pushdown import Narrowing, narrow

RANGES = [Range(MessageQueue(topic, broker, number), 3, 12) for topic in "tu" for broker in "ab" for number in range(3)]

HOLDS: dict[type[Filter], Callable[[int, int], bool]] = {
    EqualTo: lambda offset, value: offset == value,
    GreaterThan: lambda offset, value: offset > value,
    GreaterThanOrEqual: lambda offset, value: offset >= value,
    LessThan: lambda offset, value: offset < value,
    LessThanOrEqual: lambda offset, value: offset <= value,
}

comparisons = st.builds(
    lambda kind, value: kind(("offset",), value), st.sampled_from(sorted(HOLDS, key=str)), st.integers(-2, 15)
)


@given(st.lists(comparisons, max_size=4))
def test_what_is_not_read_has_no_offset_that_was_wanted_and_spark_checks_the_rest(filters: list[Filter]) -> None:
    narrowing, rest = narrow(filters)
    assert rest == filters
    read = {(queue, offset) for queue, start, end in narrowing.apply(RANGES) for offset in range(start, end)}
    wanted = {
        (queue, offset)
        for queue, start, end in RANGES
        for offset in range(start, end)
        if all(HOLDS[type(one)](offset, one.value) for one in filters)  # type: ignore[attr-defined]
    }
    assert read == wanted


def test_queues_that_are_refused_are_not_read() -> None:
    narrowing, rest = narrow([EqualTo(("topic",), "t"), In(("queue_id",), (0, 2)), EqualTo(("broker",), "b")])
    assert rest == []
    assert [str(one.queue) for one in narrowing.apply(RANGES)] == ["t@b:0", "t@b:2"]


def test_filters_of_one_column_have_to_hold_together() -> None:
    narrowing, _ = narrow([In(("queue_id",), (0, 1)), In(("queue_id",), (1, 2)), EqualTo(("topic",), "u")])
    assert [str(one.queue) for one in narrowing.apply(RANGES)] == ["u@a:1", "u@b:1"]


def test_tags_that_exclude_each_other_read_nothing() -> None:
    narrowing, rest = narrow([EqualTo(("tag",), "red"), In(("tag",), ("blue", "green"))])
    assert rest == []
    assert narrowing.apply(RANGES) == []


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("tag",), ""),
        EqualTo(("tag",), None),
        EqualTo(("queue_id",), True),
        EqualTo(("queue_id",), "0"),
        In(("tag",), ("red", None)),
        EqualTo(("body",), b"x"),
        EqualTo(("properties", "p"), "q"),
        GreaterThan(("queue_id",), 1),
        GreaterThan(("offset",), 1.5),
        Not(EqualTo(("queue_id",), 1)),
        IsNotNull(("tag",)),
        StringStartsWith(("tag",), "r"),
    ],
    ids=str,
)
def test_what_is_not_sure_to_mean_the_same_here_is_left_to_spark(one: Filter) -> None:
    narrowing, rest = narrow([one])
    assert rest == [one]
    assert narrowing == Narrowing()
