"""Headers are checked against the table before a handler sees them."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import InvalidParameter
from model.limits import MAX_PULL_BATCH
from remoting.command import REQUEST, Command
from remoting.wire.field import Field
from remoting.wire.request_code import RequestCode
from remoting.wire.schema import SCHEMA, check_header

EXAMPLES: dict[type, Any] = {str: "text", int: 1, bool: True, list: [1]}


def good_header(code: RequestCode) -> dict[str, Any]:
    return {field.name: field.minimum or EXAMPLES[field.type] for field in SCHEMA[code].fields}


def check(code: RequestCode, header: dict[str, Any]) -> None:
    check_header(Command(REQUEST, code, 1, header, None))


EVERY_FIELD = [
    pytest.param(code, field, id=f"{code.name}.{field.name}")
    for code, schema in SCHEMA.items()
    for field in schema.fields
]


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: code.name)
def test_a_header_with_every_field_passes_and_fields_from_a_newer_version_do_no_harm(code: RequestCode) -> None:
    check(code, {**good_header(code), "of a newer version": 1})


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: code.name)
def test_every_code_says_who_sends_it_and_why(code: RequestCode) -> None:
    schema = SCHEMA[code]
    assert schema.sender
    assert schema.purpose.endswith(".")
    names = [field.name for field in schema.fields]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("code", "field"), EVERY_FIELD)
@pytest.mark.parametrize("absent", [True, False], ids=["absent", "nil"])
def test_a_missing_field_is_named_and_an_optional_one_may_be_missing(
    code: RequestCode, field: Field, absent: bool
) -> None:
    header = {**good_header(code), field.name: None}
    if absent:
        del header[field.name]
    if not field.required:
        check(code, header)
        return
    with pytest.raises(InvalidParameter, match=f"{code.name}: field '{field.name}' must be of type .*, got nothing"):
        check(code, header)


@pytest.mark.parametrize(("code", "field"), EVERY_FIELD)
@pytest.mark.parametrize("value", ["text", 1, 1.0, True, [1], {}, b"bytes"], ids=repr)
def test_a_field_of_another_type_is_named_optional_or_not(code: RequestCode, field: Field, value: object) -> None:
    if type(value) is field.type:
        check(code, good_header(code))
        return
    header = {**good_header(code), field.name: value}
    with pytest.raises(InvalidParameter, match=f"{code.name}: field '{field.name}' must be of type"):
        check(code, header)


@pytest.mark.parametrize(("code", "field"), EVERY_FIELD)
def test_a_number_at_its_bounds_passes_and_one_past_them_is_named(code: RequestCode, field: Field) -> None:
    for bound, past in ((field.minimum, -1), (field.maximum, 1)):
        if bound is not None:
            check(code, {**good_header(code), field.name: bound})
            with pytest.raises(InvalidParameter, match=f"field '{field.name}' must be .*, got {bound + past}$"):
                check(code, {**good_header(code), field.name: bound + past})


def test_a_range_is_told_in_words() -> None:
    header = good_header(RequestCode.PULL_MESSAGE)
    with pytest.raises(InvalidParameter, match=f"'max_n' must be 1 to {MAX_PULL_BATCH}, got 0"):
        check(RequestCode.PULL_MESSAGE, {**header, "max_n": 0})
    with pytest.raises(InvalidParameter, match="'offset' must be at least 0, got -1"):
        check(RequestCode.PULL_MESSAGE, {**header, "offset": -1})


def test_the_error_is_short_whatever_was_sent() -> None:
    nested: list[Any] = []
    for _ in range(1_000):
        nested = [nested]
    for value in (nested, b"x" * 1_000_000):
        with pytest.raises(InvalidParameter) as caught:
            check(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": value})
        assert len(str(caught.value)) < 200
