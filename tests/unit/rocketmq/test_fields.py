"""What clients write in several ways."""

from __future__ import annotations

import pytest

from model.errors import FilterIllegal, InvalidParameter
from model.subscription import Sql, SubscriptionData
from rocketmq.fields import (
    FieldError,
    Fields,
    choice,
    expression_type,
    json_bytes,
    json_object,
    make_expression,
    objects,
)

NAMES = ("A", "B")


def test_numbers_are_read_from_numbers_and_from_texts() -> None:
    fields = Fields({"a": "3", "b": 4, "c": ""})
    assert [fields.number("a"), fields.number("b"), fields.number("c", 5), fields.number("d", 6)] == [3, 4, 5, 6]


@pytest.mark.parametrize("value", ["x", "1.5", str(2**63), "9" * 10_000, [], 1.5])
def test_what_is_not_a_number_of_64_bits_is_refused(value: object) -> None:
    with pytest.raises(FieldError, match="field n must be"):
        Fields({"n": value}).number("n")


def test_a_field_that_is_missing_is_named() -> None:
    for read in (Fields({}).number, Fields({"x": ""}).text):
        with pytest.raises(FieldError, match="the field x is missing"):
            read("x")


def test_a_flag_is_a_text_and_a_number_of_cpp() -> None:
    fields = Fields({"a": "true", "b": "false", "c": "1", "d": "0"})
    assert [fields.flag(name) for name in "abcde"] == [True, False, True, False, False]


def test_an_enumeration_is_read_by_name_and_by_number_and_strange_names_are_the_default() -> None:
    assert [choice("x", value, NAMES, "A") for value in (None, 1, "B", "UNKNOWN")] == ["A", "B", "B", "A"]
    with pytest.raises(FieldError, match="must be one of A, B"):
        choice("x", 2, NAMES, "A")


def test_lists_that_are_left_out_are_empty() -> None:
    assert objects(None, "x") == []
    assert objects([{}], "x") == [{}]
    wrong: list[object] = [{}, [1], "x"]
    for value in wrong:
        with pytest.raises(FieldError, match="x must be a list of objects"):
            objects(value, "x")


def test_a_body_is_a_json_object() -> None:
    assert json_object(json_bytes({"ü": 1})) == {"ü": 1}
    for body in (b"", b"[]", b"[" * 100_000, b"\xff", rb'{"a":"\ud800"}'):
        with pytest.raises(FieldError, match="the body"):
            json_object(body)


def test_an_expression_without_a_type_is_tags() -> None:
    assert make_expression("", "a || b") == make_expression("TAG", "a || b") == "a || b"


def test_sql92_is_a_filter() -> None:
    assert make_expression("SQL92", "a > 1") == Sql("a > 1")
    with pytest.raises(FilterIllegal, match="at its end"):
        make_expression("SQL92", "a >")


def test_another_type_is_refused_and_named() -> None:
    with pytest.raises(InvalidParameter, match="a filter of type 'XPATH' is not known"):
        make_expression("XPATH", "a > 1")


def test_each_subscription_has_its_type() -> None:
    assert [expression_type(SubscriptionData("t", "a", 1, is_sql)) for is_sql in (False, True)] == ["TAG", "SQL92"]
