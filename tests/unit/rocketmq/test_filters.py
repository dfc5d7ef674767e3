from __future__ import annotations

import pytest

from model.errors import FilterIllegal, InvalidParameter
from model.subscription import Sql, SubscriptionData
from rocketmq.filters import expression_of, kind_of


def test_an_expression_without_a_type_is_tags() -> None:
    assert expression_of("", "a || b") == expression_of("TAG", "a || b") == "a || b"


def test_sql92_is_a_filter() -> None:
    assert expression_of("SQL92", "a > 1") == Sql("a > 1")
    with pytest.raises(FilterIllegal, match="at its end"):
        expression_of("SQL92", "a >")


def test_another_type_is_refused_and_named() -> None:
    with pytest.raises(InvalidParameter, match="a filter of type 'XPATH' is not known"):
        expression_of("XPATH", "a > 1")


def test_each_subscription_has_its_type() -> None:
    assert [kind_of(SubscriptionData("t", "a", 1, is_sql)) for is_sql in (False, True)] == ["TAG", "SQL92"]
