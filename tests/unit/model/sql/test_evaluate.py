from __future__ import annotations

import pytest

from model.sql.evaluate import compile_condition, compile_function
from model.sql.nodes import Constant, Negation, Node, Property
from model.sql.parse import parse
from model.sql.values import MistypedValue


def value_of(text: str, **properties: str) -> object:
    return compile_condition(parse(text))(properties)


def test_an_absent_property_is_null_and_null_is_not_a_match() -> None:
    assert value_of("price > 10") is None
    assert value_of("NOT (price > 10)") is None
    assert value_of("price > 10 OR TRUE") is True
    assert value_of("price > 10 AND FALSE") is False


def test_what_comes_after_the_decision_is_not_evaluated() -> None:
    assert value_of("a = 'x' OR a > 5", a="x") is True
    assert value_of("a = 'y' AND a > 5", a="x") is False
    with pytest.raises(MistypedValue):
        value_of("a > 5 OR a = 'x'", a="x")


def test_a_property_alone_is_not_true_because_it_is_a_text() -> None:
    assert value_of("vip", vip="true") is False
    assert value_of("vip = TRUE", vip="true") is True


@pytest.mark.parametrize(("node", "value"), [(Constant(5), -5), (Constant(1.5), -1.5), (Property("a"), None)])
def test_only_a_number_is_negated(node: Node, value: object) -> None:
    assert compile_function(Negation(node))({"a": "5"}) == value


def test_a_double_negation_is_the_number_again() -> None:
    assert value_of("a = - - 5", a="5") is True
    assert value_of("a = -2147483649", a="-2147483649") is True
