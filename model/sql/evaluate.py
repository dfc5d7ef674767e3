"""Turns a filter into one function of a message's properties; each part is a closure over its own parts. Pure.

The result is TRUE, FALSE or NULL (None), and only TRUE matches. AND stops at the first FALSE and OR at the first TRUE,
from the left, so the conditions after it cannot fail. RocketMQ: Expression.evaluate.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from model.sql.nodes import (
    Constant,
    Equal,
    In,
    IsNull,
    Logic,
    Long,
    Negation,
    Node,
    Not,
    Ordering,
    Property,
    Text,
    Value,
)
from model.sql.values import compare_numbers, equal, make_reader, order

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_HOLDS: dict[str, Callable[[int], bool]] = {
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
}


def compile_function(node: Node) -> Evaluate:
    """Compile a node; the function raises MistypedValue for a message whose values cannot be compared."""
    match node:
        case Property(name):
            return lambda properties: properties.get(name)
        case Constant(value):
            return lambda properties: value
        case Negation(operand):
            return _negation(operand)
        case Not(operand):
            return _not(compile_condition(operand))
        case Logic(is_and, parts):
            return _logic(is_and, tuple(map(compile_condition, parts)))
        case Equal():
            return _equal(node)
        case Ordering():
            return _comparison(node)
        case IsNull(operand):
            inner = compile_function(operand)
            return lambda properties: inner(properties) is None
        case In():
            return _in(node)
        case Text():
            return _text(node)


def compile_condition(node: Node) -> Evaluate:
    """Compile a node where a condition stands, as a whole filter: a property there is a text, which is not true."""
    if isinstance(node, Property):
        name = node.name
        return lambda properties: False if name in properties else None
    return compile_function(node)


def _negation(operand: Node) -> Evaluate:
    number = _number_of(Negation(operand))
    if number is not None:
        return lambda properties: number
    inner = compile_function(operand)

    def negated(properties: Properties) -> None:
        inner(properties)  # it may be MistypedValue; else it is not a number

    return negated


def _number_of(node: Node) -> int | float | None:
    """The number that a literal is, with its signs; None for everything else."""
    if isinstance(node, Negation):
        number = _number_of(node.of)
        if number is None:
            return None
        return Long(-number) if type(number) is Long else -number
    if isinstance(node, Constant) and isinstance(node.value, int | float) and type(node.value) is not bool:
        return node.value
    return None


def _not(inner: Evaluate) -> Evaluate:
    def negated(properties: Properties) -> bool | None:
        value = inner(properties)
        return None if value is None else not value

    return negated


def _logic(is_and: bool, parts: tuple[Evaluate, ...]) -> Evaluate:
    decides = not is_and

    def joined(properties: Properties) -> bool | None:
        unknown = False
        for part in parts:
            value = part(properties)
            if value is None:
                unknown = True
            elif value is decides:
                return decides
        return None if unknown else is_and

    return joined


def _equal(node: Equal) -> Evaluate:
    left, right = node.left, node.right
    if isinstance(left, Property) and isinstance(right, Constant) and type(right.value) is str:
        # The usual filter, without a call of its own for each operand.
        name, constant = left.name, right.value

        def is_text(properties: Properties) -> bool | None:
            value = properties.get(name)
            return None if value is None else value == constant

        return is_text
    first, second = compile_function(left), compile_function(right)
    return lambda properties: equal(first(properties), second(properties))


def _comparison(node: Ordering) -> Evaluate:
    left, right, holds = node.left, node.right, _HOLDS[node.operator]
    number = _number_of(right)
    if isinstance(left, Property) and number is not None:
        # The usual filter of numbers. Only doubles need Java's order: it has two zeros, and a place for NaN.
        name, read, bound = left.name, make_reader(number), number
        above = _OPERATORS[node.operator]
        is_double = isinstance(number, float)

        def is_beyond(properties: Properties) -> bool | None:
            value = properties.get(name)
            if value is None:
                return None
            return holds(compare_numbers(read(value), bound)) if is_double else above(read(value), bound)

        return is_beyond
    first, second = compile_function(left), compile_function(right)

    def is_above(properties: Properties) -> bool | None:
        value = first(properties)
        sign = None if value is None else order(value, second(properties))
        return None if sign is None else holds(sign)

    return is_above


def _in(node: In) -> Evaluate:
    assert isinstance(node.of, Property), "its node has checked it"
    name, texts, negated = node.of.name, frozenset(node.texts), node.negated

    def is_in(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else (value in texts) is not negated

    return is_in


def _text(node: Text) -> Evaluate:
    inner, text, negated = compile_function(node.of), node.text, node.negated
    holds: dict[str, Callable[[str], bool]] = {
        "CONTAINS": lambda value: text in value,
        "STARTSWITH": lambda value: value.startswith(text),
        "ENDSWITH": lambda value: value.endswith(text),
    }
    test = holds[node.word]

    def has_text(properties: Properties) -> bool:
        value = inner(properties)
        return isinstance(value, str) and text != "" and test(value) is not negated

    return has_text
