from __future__ import annotations

import time

import pytest

from model.sql.nodes import Long, Value
from model.sql.values import (
    MistypedValue,
    compare,
    compare_numbers,
    equal,
    make_reader,
    order,
    read_boolean,
    read_double,
    read_integer,
    read_long,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("0" * 40 + "7", 7),
        ("٣", 3),
    ],
)
def test_whole_numbers_are_read_as_java_reads_them(text: str, value: int) -> None:
    assert read_integer(text) == value == read_long(text)


@pytest.mark.parametrize("text", ["", "-", "+", " 7", "7 ", "1_0", "1.0", "1e3", "--7", "0x7", "𝟩", "9" * 30])
def test_what_java_does_not_read_as_a_whole_number_is_mistyped(text: str) -> None:
    for read in (read_integer, read_long):
        with pytest.raises(MistypedValue):
            read(text)


def test_the_width_of_a_whole_number_bounds_it() -> None:
    assert read_long("2147483648") == 2**31
    assert read_long(str(-(2**63))) == -(2**63)
    for read, text in ((read_integer, "2147483648"), (read_integer, "-2147483649"), (read_long, str(2**63))):
        with pytest.raises(MistypedValue):
            read(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("7", 7.0), ("7.", 7.0), (".5", 0.5), ("-1e3", -1000.0), ("10f", 10.0), ("10D", 10.0), (" \t7\x00", 7.0)),
        *(("0x1p3", 8.0), ("0x1.8P1d", 3.0), ("Infinity", float("inf")), ("-1e400", float("-inf"))),
        *(("0x1p9999", float("inf")), ("-0x1p9999", float("-inf")), ("1e-400", 0.0)),
    ],
)
def test_doubles_are_read_as_java_reads_them(text: str, value: float) -> None:
    assert read_double(text) == value


@pytest.mark.parametrize("text", ["", "inf", "nan", "1_0", "1e", "10ff", "0x1", "٣", "1 0", "\xa07", "."])
def test_what_java_does_not_read_as_a_double_is_mistyped(text: str) -> None:
    with pytest.raises(MistypedValue):
        read_double(text)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("yes", False), ("", False)])
def test_only_true_is_true(text: str, value: bool) -> None:
    assert read_boolean(text) is value


def test_doubles_have_the_order_of_java() -> None:
    nan = float("nan")
    assert compare_numbers(-0.0, 0.0) == -1
    assert compare_numbers(0, 0.0) == 0
    assert [compare_numbers(nan, float("inf")), compare_numbers(1.0, nan), compare_numbers(nan, nan)] == [1, -1, 0]
    assert compare_numbers(2, 1.5) == 1


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [
        ("10", 9, 1),
        (9, "10", -1),
        ("10", Long(10), 0),
        ("1.5", 1.5, 0),
        ("TRUE", True, 0),
        (True, 1, -1),
        (1, True, -1),
    ],
)
def test_a_text_is_read_as_the_kind_of_the_other_value(left: Value, right: Value, sign: int) -> None:
    assert compare(left, right) == sign


def test_a_boolean_on_the_left_is_never_compared_with_a_text() -> None:
    with pytest.raises(MistypedValue):
        compare(True, "true")


def test_null_has_its_own_rules() -> None:
    assert equal(None, None) is True
    assert equal(None, 1) is None
    assert equal(1, None) is False
    assert order(None, 1) is order(1, None) is None


def test_two_texts_are_ordered_as_doubles_and_equal_as_texts() -> None:
    assert order("9", "10") == -1
    assert equal("10", "10.0") is False
    with pytest.raises(MistypedValue):
        order("9", "ten")


def test_each_kind_of_number_has_its_reader() -> None:
    assert [make_reader(value) for value in (True, 1, Long(1), 1.0)] == [
        read_boolean,
        read_integer,
        read_long,
        read_double,
    ]


@pytest.mark.parametrize("tail", ["", "x", ".", "e5", "p3"])
def test_a_text_of_a_million_characters_is_read_or_refused_in_one_pass(tail: str) -> None:
    began = time.process_time()
    for start in ("1" * 1_000_000, "0x" + "f" * 1_000_000, "1." + "1" * 1_000_000, " " * 1_000_000, "0" * 1_000_000):
        for read in (read_double, read_long):
            try:
                read(start + tail)
            except MistypedValue:
                continue
    assert time.process_time() - began < 5  # a quadratic reading would take hours
