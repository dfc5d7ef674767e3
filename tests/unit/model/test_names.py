"""Legal and illegal names, at each limit and one past it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from model.limits import MAX_GROUP_CHARS, MAX_NAME_CHARS, MAX_TOPIC_CHARS
from model.names import (
    SYSTEM_TOPICS,
    check_group,
    check_id,
    check_topic,
    dlq_topic,
    is_group_topic,
    is_retry_topic,
    is_system_topic,
    retry_topic,
)


@pytest.mark.parametrize("name", ["a", "orders", "A-b_9", "%RETRY%group", "a|b", "x" * MAX_TOPIC_CHARS])
def test_a_legal_topic_is_returned_as_it_is(name: str) -> None:
    assert check_topic(name) == name


@pytest.mark.parametrize("name", ["a b", "a/b", "ä", "a\n", "a.b", "a\x00", "@", "主题"])
@pytest.mark.parametrize(("check", "what"), [(check_topic, "topic"), (check_group, "group")])
def test_a_name_with_another_character_is_refused_and_shown(check: Callable[[str], str], what: str, name: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(f"{what} name {name!r} may only have the characters")):
        check(name)


@pytest.mark.parametrize(
    ("check", "what", "limit"), [(check_topic, "topic", MAX_TOPIC_CHARS), (check_group, "group", MAX_GROUP_CHARS)]
)
def test_a_name_has_one_to_the_limit_of_characters(check: Callable[[str], str], what: str, limit: int) -> None:
    assert check("x" * limit) == "x" * limit
    with pytest.raises(InvalidParameter, match=f"{what} name has {limit + 1} characters, more than the {limit}"):
        check("x" * (limit + 1))
    with pytest.raises(InvalidParameter, match=f"{what} name is empty"):
        check("")


def test_the_reserved_group_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="DEFAULT_CONSUMER is reserved"):
        check_group("DEFAULT_CONSUMER")
    assert check_topic("DEFAULT_CONSUMER") == "DEFAULT_CONSUMER"


def test_the_longest_group_has_a_legal_retry_topic() -> None:
    topic = retry_topic("g" * MAX_GROUP_CHARS)
    assert topic == check_topic(topic) == "%RETRY%" + "g" * MAX_GROUP_CHARS


def test_retry_topics_are_known_by_their_prefix() -> None:
    assert is_retry_topic(retry_topic("g"))
    assert not is_retry_topic("g")
    assert not is_retry_topic("%DLQ%g")


def test_topics_of_groups_are_those_of_retries_and_of_dead_letters() -> None:
    assert is_group_topic(retry_topic("g"))
    assert is_group_topic(dlq_topic("g"))
    assert not is_group_topic("g")


def test_system_topics_are_known_and_legal() -> None:
    assert [is_system_topic(check_topic(topic)) for topic in SYSTEM_TOPICS] == [True] * 6
    assert not is_system_topic("orders")


@pytest.mark.parametrize("value", ["a", "10.0.0.5@1234#7f", "!~", "x" * MAX_NAME_CHARS])
def test_a_legal_id_is_returned_as_it_is(value: str) -> None:
    assert check_id("client id", value) == value


@pytest.mark.parametrize("value", ["", " ", "a b", "a\n", "\x7f", "é", "x" * (MAX_NAME_CHARS + 1)])
def test_an_illegal_id_is_refused_and_shown(value: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(f"client id {value!r} must have 1 to 255")):
        check_id("client id", value)


@given(st.text(max_size=3))
def test_ids_that_are_legal_sort_alike_by_code_point_and_by_utf_16(value: str) -> None:
    # Members sort the member list themselves, so that every implementation has to agree on the order.
    try:
        check_id("client id", value)
    except InvalidParameter:
        return
    assert value.isascii()
    assert value.isprintable()
    assert " " not in value


@pytest.mark.parametrize("name", [None, 5, b"t", ["t"], ("t", "u")])
def test_a_name_that_is_not_a_string_is_refused_as_such(name: Any) -> None:
    for check in (check_topic, check_group, lambda name: check_id("broker", name)):
        with pytest.raises(InvalidParameter, match="must be a string, got "):
            check(name)
