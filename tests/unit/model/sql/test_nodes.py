from __future__ import annotations

from collections.abc import Callable

import pytest

from model.sql.nodes import (
    Constant,
    Equal,
    In,
    IsNull,
    Logic,
    Negation,
    Node,
    Not,
    OperandIllegal,
    Ordering,
    Property,
    between,
    condition,
    is_condition,
    not_between,
)

A = Property("a")
IS_NULL = IsNull(A)


@pytest.mark.parametrize("node", [IS_NULL, Not(A), Constant(True), Constant(None), Equal(A, Constant(1))])
def test_these_are_conditions(node: Node) -> None:
    assert is_condition(node)
    assert condition(node) is node


@pytest.mark.parametrize("node", [Constant(5), Constant("x"), Negation(A)])
def test_a_value_is_not_a_condition(node: Node) -> None:
    for make in (Not, condition, lambda it: Logic(True, (IS_NULL, it))):
        with pytest.raises(OperandIllegal, match="a condition is needed here"):
            make(node)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Equal(A, Constant(None)),
        lambda: Equal(Constant(True), Constant(1)),
        lambda: Ordering(">", A, Constant("x")),
        lambda: Ordering(">", Constant(True), A),
        lambda: Ordering(">", IS_NULL, A),
        lambda: In(Constant("a"), ("a",), False),
        lambda: between(A, Constant(2), Constant(1)),
        lambda: not_between(A, Constant("x"), Constant(1)),
    ],
)
def test_an_operand_that_may_not_stand_there_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(OperandIllegal):
        make()


def test_the_order_of_numbers_counts_for_between_alone() -> None:
    between(A, Negation(Constant(1)), Negation(Constant(2)))  # as in RocketMQ: only literals are compared
    not_between(A, Constant(2), Constant(1))
