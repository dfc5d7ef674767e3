"""The parts of a filter. Each checks its operands when it is made, by the rules of RocketMQ's library. Pure.

    price > 10 AND NOT (region IN ('north', 'south'))

    Logic(and)  -+- Ordering(>, Property price, Constant 10)
                 +- Not -- In(Property region, 'north' 'south')

A property alone may stand where a condition is needed, and is then never true: properties are texts, and a condition
needs a boolean. RocketMQ: ComparisonExpression, LogicExpression, UnaryExpression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Value = None | bool | int | float | str
"""A value of an expression. Whole numbers beyond 32 bits are `Long`."""


class Long(int):
    """A whole number that Java keeps in 64 bits: a property is read in the width of the number it is compared with."""


class OperandIllegal(Exception):
    """An operand may not stand where it does; `parse` adds the position."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: Value


@dataclass(frozen=True, slots=True)
class Negation:
    """`-` in front of something: NULL unless that is a number."""

    of: Node


@dataclass(frozen=True, slots=True)
class Not:
    """NOT in front of a condition; it binds more closely than a comparison."""

    of: Node

    def __post_init__(self) -> None:
        _check_condition(self.of)


@dataclass(frozen=True, slots=True)
class Logic:
    """Conditions joined by AND, or by OR, in their order."""

    is_and: bool
    parts: tuple[Node, ...]

    def __post_init__(self) -> None:
        for part in self.parts:
            _check_condition(part)


@dataclass(frozen=True, slots=True)
class Equal:
    """Whether two values are equal."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        for operand in (self.left, self.right):
            if operand == _NULL:
                raise OperandIllegal("NULL cannot be compared: write IS NULL, or IS NOT NULL")
        if _is_boolean(self.left) and isinstance(self.right, Constant) and not _is_boolean(self.right):
            raise OperandIllegal("TRUE and FALSE are compared with properties: write the property first")


@dataclass(frozen=True, slots=True)
class Ordering:
    """Whether a number is above or below another one."""

    operator: Literal[">", ">=", "<", "<="]
    left: Node
    right: Node

    def __post_init__(self) -> None:
        for operand in (self.left, self.right):
            if isinstance(operand, Constant) and (type(operand.value) in (str, bool) or operand.value is None):
                raise OperandIllegal(f"{self.operator} compares numbers, so a literal beside it is one")
            if is_condition(operand):
                raise OperandIllegal(f"{self.operator} compares numbers, not conditions: join these with AND or OR")


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a property is absent."""

    of: Node


@dataclass(frozen=True, slots=True)
class In:
    """Whether a property is one of some texts, or with `negated` another text than these."""

    of: Node
    texts: tuple[str, ...]
    negated: bool

    def __post_init__(self) -> None:
        if not isinstance(self.of, Property):
            raise OperandIllegal("IN takes the name of a property on its left")


@dataclass(frozen=True, slots=True)
class Text:
    """Whether a text contains another one, or begins or ends with it; false for NULL and for '', with `negated` too."""

    word: Literal["CONTAINS", "STARTSWITH", "ENDSWITH"]
    of: Node
    text: str
    negated: bool


Node = Property | Constant | Negation | Not | Logic | Equal | Ordering | IsNull | In | Text

_NULL = Constant(None)
_CONDITIONS = (Not, Logic, Equal, Ordering, IsNull, In, Text)


def _is_boolean(node: Node) -> bool:
    return isinstance(node, Constant) and (node.value is None or type(node.value) is bool)


def is_condition(node: Node) -> bool:
    """Whether a node is true, false or NULL: a condition, or TRUE, FALSE or NULL itself."""
    return isinstance(node, _CONDITIONS) or _is_boolean(node)


def _check_condition(node: Node) -> None:
    if not is_condition(node) and not isinstance(node, Property):
        raise OperandIllegal("a condition is needed here, as price > 10, and not a value")


def condition(node: Node) -> Node:
    """Return a node that stands for a whole expression.

    Raises:
        OperandIllegal: it is a value.
    """
    _check_condition(node)
    return node


def between(value: Node, low: Node, high: Node) -> Node:
    """`value BETWEEN low AND high`, both included.

    Raises:
        OperandIllegal: an operand is not a number, or `high` is a number below `low`.
    """
    condition = Logic(True, (Ordering(">=", value, low), Ordering("<=", value, high)))
    if isinstance(low, Constant) and isinstance(high, Constant) and _number(high) < _number(low):
        raise OperandIllegal("BETWEEN takes the lower number first")
    return condition


def _number(constant: Constant) -> int | float:
    assert isinstance(constant.value, int | float), "a comparison has checked it"
    return constant.value


def not_between(value: Node, low: Node, high: Node) -> Node:
    """`value NOT BETWEEN low AND high`. Raises as `between`, but for the order of the numbers."""
    return Logic(False, (Ordering("<", value, low), Ordering(">", value, high)))
