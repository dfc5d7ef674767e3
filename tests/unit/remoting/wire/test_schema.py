"""Headers are checked against the table before a handler sees them."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import InvalidParameter
from model.limits import MAX_EXPRESSION_CHARS, MAX_FIELD_CHARS, MAX_PULL_BATCH, MAX_SEARCHED_CHARS, MAX_TOPICS
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from remoting.wire.field import Field
from remoting.wire.schema import SCHEMA, check_header

pytestmark = pytest.mark.walk

RECEIVERS = (
    "-> any replica",
    *("-> broker", "-> name server", "-> any server", "-> any server's gate", ", one-way"),
    *("-> master", "-> replica"),
)

LONGEST = {
    "key": MAX_SEARCHED_CHARS,
    "message_id": MAX_SEARCHED_CHARS,
    "sql": MAX_EXPRESSION_CHARS,
    "message_types": MAX_TOPICS,
}
"""The most characters of the header fields that may be longer than others."""
EXAMPLES: dict[type, Any] = {str: "text", int: 1, bool: True, list: [1]}


def good_header(code: RequestCode) -> dict[str, Any]:
    return {field.name: good_value(field) for field in SCHEMA[code].fields}


def good_value(field: Field) -> Any:
    return [EXAMPLES[field.items]] if field.items is not None else field.minimum or EXAMPLES[field.type]


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
    assert schema.sender.endswith(RECEIVERS), "the tests that every receiver has its handlers go by these"
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
        if bound is not None and field.type is int:
            check(code, {**good_header(code), field.name: bound})
            with pytest.raises(InvalidParameter, match=f"field '{field.name}' must be .*, got {bound + past}$"):
                check(code, {**good_header(code), field.name: bound + past})


@pytest.mark.parametrize(("code", "field"), EVERY_FIELD)
def test_a_text_has_as_many_characters_as_its_limit_and_one_more_is_refused_by_name(
    code: RequestCode, field: Field
) -> None:
    if str not in (field.type, field.items):
        return
    longest = LONGEST.get(field.name, MAX_FIELD_CHARS)
    for text, is_good in (("x" * longest, True), ("x" * (longest + 1), False)):
        header = {**good_header(code), field.name: [text] if field.items is str else text}
        if is_good:
            check(code, header)
            continue
        with pytest.raises(InvalidParameter, match=f"'{field.name}' may have at most {longest} characters"):
            check(code, header)


def test_a_range_is_reported_in_words() -> None:
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


LISTS = [
    pytest.param(code, field, id=f"{code.name}.{field.name}")
    for code, field in (
        (code, field) for code, schema in SCHEMA.items() for field in schema.fields if field.type is list
    )
]


@pytest.mark.parametrize(("code", "field"), LISTS)
def test_an_item_of_a_list_of_another_type_is_refused(code: RequestCode, field: Field) -> None:
    assert field.items is not None, "a list says what is in it"
    good = EXAMPLES[field.items]
    check(code, {**good_header(code), field.name: []})
    check(code, {**good_header(code), field.name: [good, good]})
    for bad in ("text", 1, 1.0, True, None, [1], b"bytes"):
        if type(bad) is not field.items:
            with pytest.raises(InvalidParameter, match=f"{code.name}: field '{field.name}' must be a list of"):
                check(code, {**good_header(code), field.name: [good, bad]})


def test_an_item_of_a_list_out_of_its_bounds_is_refused() -> None:
    header = good_header(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
    check(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**header, "queue_ids": [3, 0]})
    with pytest.raises(InvalidParameter, match="field 'queue_ids' must be a list of numbers, each at least 0"):
        check(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**header, "queue_ids": [3, -1]})
