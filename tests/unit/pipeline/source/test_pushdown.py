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
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from model.limits import MAX_EXPRESSION_CHARS
from model.message_queue import MessageQueue
from model.sql.compiled import compile_filter
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
        Not(IsNotNull(("key",))),
        StringStartsWith(("tag",), ""),
        StringStartsWith(("properties", "p"), "r"),
        StringStartsWith(("topic",), "r"),
        Not(Not(EqualTo(("key",), "k"))),
        In(("key",), ()),
        In(("msg_id",), ("a", 5)),
        EqualTo(("key",), ""),
        GreaterThan(("key",), "k"),
        EqualTo(("key",), "k" * MAX_EXPRESSION_CHARS),
    ],
    ids=str,
)
def test_what_is_not_sure_to_mean_the_same_here_is_left_to_spark(one: Filter) -> None:
    narrowing, rest = narrow([one])
    assert rest == [one]
    assert narrowing == Narrowing()


@pytest.mark.parametrize(
    ("one", "sql"),
    [
        (EqualTo(("key",), "k1"), "KEYS IN ('k1')"),
        (In(("msg_id",), ("a", "it's")), "UNIQ_KEY IN ('a', 'it''s')"),
        (Not(EqualTo(("tag",), "red")), "TAGS NOT IN ('red')"),
        (Not(In(("tag",), ("red", "blue"))), "TAGS NOT IN ('red', 'blue')"),
        (IsNull(("tag",)), "TAGS IS NULL"),
        (Not(IsNull(("key",))), "KEYS IS NOT NULL"),
        (StringStartsWith(("tag",), "r"), "TAGS STARTSWITH 'r'"),
        (StringEndsWith(("tag",), "d"), "TAGS ENDSWITH 'd'"),
        (Not(StringContains(("tag",), "e")), "TAGS NOT CONTAINS 'e'"),
    ],
    ids=str,
)
def test_conditions_on_the_tag_the_key_and_the_id_become_a_filter_of_the_broker(one: Filter, sql: str) -> None:
    narrowing, rest = narrow([one])
    assert (narrowing.sql, rest) == (sql, [])
    compile_filter(sql)
    both, _ = narrow([one], "price > 10")
    assert both.sql == f"(price > 10) AND {sql}"


COLUMNS: dict[str, str] = {"tag": "TAGS", "key": "KEYS", "msg_id": "UNIQ_KEY"}
words = st.sampled_from(("r", "red", "it's", "ed"))
attributes = st.sampled_from(sorted(COLUMNS)).map(lambda name: (name,))
simple = st.one_of(
    st.builds(EqualTo, attributes, words),
    st.builds(lambda attribute, values: In(attribute, tuple(values)), attributes, st.lists(words, min_size=1)),
    st.builds(StringStartsWith, attributes, words),
    st.builds(StringEndsWith, attributes, words),
    st.builds(StringContains, attributes, words),
    st.builds(IsNull, attributes),
    st.builds(IsNotNull, attributes),
)


def spark_says(one: Filter, row: dict[str, str]) -> bool | None:
    """What Spark makes of a condition: null, where a column is null and is not asked for that."""
    if isinstance(one, Not):
        inner = spark_says(one.child, row)
        return None if inner is None else not inner
    value = row.get(one.attribute[0])  # type: ignore[attr-defined]  # every filter of `simple` has one
    if isinstance(one, IsNull | IsNotNull):
        return (value is None) == isinstance(one, IsNull)
    if value is None:
        return None
    if isinstance(one, In):
        return value in one.value
    assert isinstance(one, EqualTo | StringStartsWith | StringEndsWith | StringContains)
    if isinstance(one, EqualTo):
        return bool(value == one.value)
    tests = {StringStartsWith: value.startswith, StringEndsWith: value.endswith, StringContains: value.__contains__}
    return bool(tests[type(one)](one.value))


@given(st.one_of(simple, simple.map(Not)), st.dictionaries(st.sampled_from(sorted(COLUMNS)), words))
def test_a_broker_keeps_exactly_the_rows_that_spark_would_keep(one: Filter, row: dict[str, str]) -> None:
    narrowing, rest = narrow([one])
    if narrowing.sql is not None:
        assert rest == []
        properties = {COLUMNS[name]: value for name, value in row.items()}
        assert compile_filter(narrowing.sql)(properties) is (spark_says(one, row) is True)
