"""Arguments of a wrong type are refused by name."""

from __future__ import annotations

import math

import pytest

from model.arguments import (
    check_callable,
    check_integer,
    check_iterable,
    check_mapping,
    check_number,
    check_text,
    check_whole,
    short_repr,
)
from model.errors import InvalidParameter


@pytest.mark.parametrize("value", [None, 5, b"t", ["t"]])
def test_what_is_not_a_string_is_refused_by_name(value: object) -> None:
    check_text("the key", "")
    with pytest.raises(InvalidParameter, match=r"^the key must be a string, got "):
        check_text("the key", value)


@pytest.mark.parametrize("value", [None, "1", 1.0, True, [1]])
def test_what_is_not_a_whole_number_of_the_range_is_refused_by_name(value: object) -> None:
    check_whole("max_n", 1, 1, 5)
    check_whole("max_n", 5, 1, 5)
    with pytest.raises(InvalidParameter, match=r"^max_n must be a whole number from 1 to 5, got "):
        check_whole("max_n", value, 1, 5)
    check_integer("offset", -1)
    with pytest.raises(InvalidParameter, match=r"^offset must be a whole number, got "):
        check_integer("offset", value)
    for number in (0, 6):
        with pytest.raises(InvalidParameter, match=f"max_n must be 1 to 5, got {number}"):
            check_whole("max_n", number, 1, 5)


@pytest.mark.parametrize("value", [None, 5, "t", b"t"])
def test_one_string_is_not_a_list_of_strings(value: object) -> None:
    for several in (["t"], ("t",), {"t": 1}, iter(["t"])):
        check_iterable("topics", several)
    with pytest.raises(InvalidParameter, match=r"^topics must be a list, got "):
        check_iterable("topics", value)


@pytest.mark.parametrize("value", [None, "1", math.nan, -1, 2.5, True])
def test_what_is_not_a_number_of_the_range_is_refused_by_name(value: object) -> None:
    check_number("wait_s", 0, 0, 2)
    check_number("wait_s", 2.0, 0, 2)
    with pytest.raises(InvalidParameter, match=r"^wait_s must be 0 to 2, got "):
        check_number("wait_s", value, 0, 2)


def test_what_is_not_a_dict_and_what_is_not_a_function_is_refused_by_name() -> None:
    check_mapping("offsets", {})
    check_callable("listener", print)
    with pytest.raises(InvalidParameter, match=r"^offsets must be a dict, got \[\]"):
        check_mapping("offsets", [])
    with pytest.raises(InvalidParameter, match=r"^listener must be a function, got None"):
        check_callable("listener", None)


def test_a_long_value_is_shown_by_its_beginning() -> None:
    assert short_repr("x" * 98) == repr("x" * 98)
    assert short_repr("x" * 1_000_000) == "'" + "x" * 96 + "..."
