"""Subscriptions: what a tag expression means, and which ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import FilterIllegal, InvalidParameter, RequestCodeNotSupported
from model.limits import MAX_EXPRESSION_CHARS
from model.message import tag_hash
from model.subscription import ALL, Expression, Sql, SubscriptionData, make_subscription, parse_expression


@pytest.mark.parametrize("expression", ["*", "", "  ", " * "])
def test_a_star_or_nothing_means_everything(expression: str) -> None:
    assert parse_expression(expression) is None
    subscription = make_subscription("t", expression, 1)
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
        make_subscription("t", expression, 1)


def test_an_illegal_topic_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="topic name"):
        make_subscription("a b", "*", 1)
    with pytest.raises(InvalidParameter, match="half of a surrogate pair"):
        make_subscription("t", "\ud800", 1)


def test_a_subscription_keeps_its_expression_and_version() -> None:
    assert make_subscription("t", " b||a ", 7) == SubscriptionData("t", "b||a", 7)


def test_hashes_are_sorted_so_that_equal_subscriptions_pull_with_equal_bytes() -> None:
    hashes = tuple(sorted([tag_hash("b"), tag_hash("a"), tag_hash("polygenelubricants")]))
    assert make_subscription("t", "polygenelubricants||b||a", 1).tag_hashes == hashes
    assert make_subscription("t", "a||polygenelubricants||b", 1).tag_hashes == hashes
    assert hashes[0] < 0


def test_an_expression_may_be_as_long_as_the_limit_and_not_longer() -> None:
    longest = "a" * MAX_EXPRESSION_CHARS
    assert make_subscription("t", longest, 1).expression == longest
    with pytest.raises(InvalidParameter, match=f"has {MAX_EXPRESSION_CHARS + 1} characters, more than"):
        make_subscription("t", longest + "a", 1)


@pytest.mark.parametrize("expression", [None, 5, b"red", ["red", "blue"]])
def test_tags_that_are_not_string_are_refused_as_such(expression: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"to 't' must be a string as 'tagA \|\| tagB', or a filter as .*, got "):
        make_subscription("t", expression, 1)


def test_a_filter_by_sql_is_checked_when_it_is_made() -> None:
    with pytest.raises(FilterIllegal, match="at its end"):
        Sql("price >")
    with pytest.raises(InvalidParameter, match="the text of an SQL filter must be"):
        Sql(5)  # type: ignore[arg-type]  # what a caller might pass
    with pytest.raises(InvalidParameter, match="half of a surrogate pair"):
        Sql("a = '\ud800'")


def test_a_subscription_by_sql_has_a_filter_and_no_tags() -> None:
    subscription = make_subscription("t", Sql("price > 10"), 7)
    assert subscription == SubscriptionData("t", "price > 10", 7, is_sql=True)
    assert (subscription.tags, subscription.tag_hashes, subscription.sql) == (None, None, "price > 10")
    assert subscription.given == Sql("price > 10")
    assert make_subscription("t", "a", 7).given == "a"


@pytest.mark.parametrize(
    ("expression", "header", "text"),
    [
        ("*", {}, "t=*"),
        ("a", {"tag_hashes": [97]}, "t=a"),
        (Sql("a = 'x y'"), {"sql": "a = 'x y'"}, """t=SQL"a = 'x y'\""""),
    ],
)
def test_a_pull_and_a_reader_get_the_form_of_the_expression(
    expression: Expression, header: dict[str, Any], text: str
) -> None:
    subscription = make_subscription("t", expression, 1)
    assert subscription.to_header() == header
    assert str(subscription) == text


def test_the_same_text_as_tags_and_as_a_filter_wants_different_messages() -> None:
    assert make_subscription("t", "a", 1).wants != make_subscription("t", Sql("a"), 1).wants


def test_only_a_filter_explains_that_a_broker_does_not_know_it() -> None:
    error = RequestCodeNotSupported("no")
    assert make_subscription("t", "a", 1).explained(error, "broker-a") is error
    by_sql = make_subscription("t", Sql("a = 1"), 1)
    assert "broker 'broker-a' is of a version without SQL filters" in str(by_sql.explained(error, "broker-a"))
    other = InvalidParameter("no")
    assert by_sql.explained(other, "broker-a") is other
