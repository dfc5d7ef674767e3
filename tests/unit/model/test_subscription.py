"""Subscriptions: what a tag expression means, and which ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import InvalidParameter
from model.limits import MAX_EXPRESSION_CHARS
from model.message import tag_hash
from model.subscription import ALL, SubscriptionData, parse_expression, subscription_of


@pytest.mark.parametrize("expression", ["*", "", "  ", " * "])
def test_a_star_or_nothing_means_everything(expression: str) -> None:
    assert parse_expression(expression) is None
    subscription = subscription_of("t", expression, 1)
    assert (subscription.expression, subscription.tags, subscription.tag_hashes) == (ALL, None, None)


@pytest.mark.parametrize(
    ("expression", "tags"),
    [("a", {"a"}), ("a||b", {"a", "b"}), (" a || b ", {"a", "b"}), ("a||a", {"a"}), ("a|| ||b||", {"a", "b"})],
)
def test_tags_are_joined_by_two_bars(expression: str, tags: set[str]) -> None:
    assert parse_expression(expression) == frozenset(tags)


@pytest.mark.parametrize("expression", ["||", " || || "])
def test_an_expression_without_any_tag_is_refused_and_shown(expression: str) -> None:
    with pytest.raises(InvalidParameter, match="names no tag: use"):
        subscription_of("t", expression, 1)


def test_an_illegal_topic_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="topic name"):
        subscription_of("a b", "*", 1)
    with pytest.raises(InvalidParameter, match="half of a surrogate pair"):
        subscription_of("t", "\ud800", 1)


def test_a_subscription_keeps_its_expression_and_version() -> None:
    assert subscription_of("t", " b||a ", 7) == SubscriptionData("t", "b||a", 7)


def test_hashes_are_sorted_so_that_equal_subscriptions_pull_with_equal_bytes() -> None:
    hashes = tuple(sorted([tag_hash("b"), tag_hash("a"), tag_hash("polygenelubricants")]))
    assert subscription_of("t", "polygenelubricants||b||a", 1).tag_hashes == hashes
    assert subscription_of("t", "a||polygenelubricants||b", 1).tag_hashes == hashes
    assert hashes[0] < 0


def test_an_expression_may_be_as_long_as_the_limit_and_not_longer() -> None:
    longest = "a" * MAX_EXPRESSION_CHARS
    assert subscription_of("t", longest, 1).expression == longest
    with pytest.raises(InvalidParameter, match=f"has {MAX_EXPRESSION_CHARS + 1} characters, more than"):
        subscription_of("t", longest + "a", 1)


@pytest.mark.parametrize("expression", [None, 5, b"red", ["red", "blue"]])
def test_tags_that_are_no_string_are_refused_as_such(expression: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"to 't' must be a string as 'tagA \|\| tagB', got "):
        subscription_of("t", expression, 1)
