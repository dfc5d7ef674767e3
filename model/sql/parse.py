"""Parses a SQL filter to nodes. An error has its position, the expected tokens, and an example. Pure.

This module, and lark with it, is imported when the first filter is read, because most processes read none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from model.errors import FilterIllegal
from model.limits import MAX_EXPRESSION_CHARS, MAX_EXPRESSION_DEPTH
from model.sql.grammar import GRAMMAR, KEYWORDS, WORDS
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
    OperandIllegal,
    Ordering,
    Property,
    Text,
    between,
    condition,
    not_between,
)

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

EXAMPLE = "price > 10 AND region = 'north'"
_HINTS = {
    '"': "texts have single quotes, as 'north'",
    "!": "not equal is written <>",
    "=": "equal is written =",
    "&": "conditions are joined with AND",
    "|": "conditions are joined with OR; tags are conditions too, as TAGS IN ('a', 'b')",
    ";": "a filter is one expression without an end mark",
}
_SHOWN_CHARS = 40
_MAX_DOUBLE, _MIN_DOUBLE = 1.7976931348623157e308, 4.9e-324
_MAX_INTEGER, _MAX_LONG = 2**31 - 1, 2**63 - 1


def parse(text: str) -> Node:
    """Read a filter.

    Raises:
        FilterIllegal: it is too long, too deeply nested, or not an expression of the language.
    """
    if len(text) > MAX_EXPRESSION_CHARS:
        raise FilterIllegal(
            f"the SQL filter has {len(text)} characters, more than {MAX_EXPRESSION_CHARS}: let the producers set a "
            "property with the answer, and filter on that"
        )
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415 - see the module header

    try:
        tree = _parser().parse(text)
    except UnexpectedToken as error:
        position = len(text) if error.token.type == "$END" else cast("int", error.token.start_pos)
        _refuse(text, position, _expected_clause(error.accepts or error.expected), _hint(text, position))
    except UnexpectedCharacters as error:
        position = cast("int", error.pos_in_stream)
        problem = (
            "the quote is never closed" if text[position] == "'" else f"{text[position]!r} is not part of the language"
        )
        _refuse(text, position, problem, _HINTS.get(text[position], ""))
    return _TreeBuilder(text).build(tree)


@cache
def _parser() -> Lark:
    from lark import Lark, Token  # noqa: PLC0415 - see the module header

    def keyword(token: Token) -> Token:
        word = token.upper()
        return Token.new_borrow_pos(word, token.value, token) if word in KEYWORDS else token

    return Lark(GRAMMAR, parser="lalr", lexer="basic", lexer_callbacks={"ID": keyword}, propagate_positions=True)


def _expected_clause(expected: Iterable[str]) -> str:
    words = sorted({WORDS[name] for name in expected if name in WORDS}, key=lambda word: (word.isupper(), word))
    return f"expected {' or '.join((', '.join(words[:-1]), words[-1]) if len(words) > 1 else words)}"


def _hint(text: str, position: int) -> str:
    if text[position:].lower().startswith("like"):
        return "LIKE is not in the language: use CONTAINS, STARTSWITH or ENDSWITH"
    if text[position : position + 1] == "(" and text[:position].rstrip()[-1:].isalnum():
        return "the language has no functions"
    if text[position - 1 : position + 1] in ("==", "!="):
        return _HINTS[text[position - 1]]
    return _HINTS.get(text[position : position + 1], "")


def _refuse(text: str, position: int, why: str, hint: str = "") -> NoReturn:
    where = (
        f"at character {position + 1}, {text[position : position + _SHOWN_CHARS]!r}"
        if position < len(text)
        else "at its end"
    )
    hint = f" ({hint})" if hint else ""
    raise FilterIllegal(f"SQL filter {text[:200]!r}: {why}{hint}, {where}. Example: {EXAMPLE}")


class _TreeBuilder:
    """Builds the nodes of one filter, leaves first. Without recursion, so a deep tree cannot exceed Python's limit."""

    def __init__(self, text: str) -> None:
        self._text = text

    def build(self, tree: Tree[Token]) -> Node:
        built: dict[int, tuple[Node, int]] = {}
        # The depth counts nodes and not levels of the tree: parentheses do not add to it.
        for subtree in tree.iter_subtrees():
            parts = [
                built[id(child)] if hasattr(child, "data") else child for child in subtree.children
            ]  # tokens have no `data`
            nodes = [part for part in parts if type(part) is tuple]
            depth = 1 + max((depth for _, depth in nodes), default=0)
            position = cast("int", getattr(subtree.meta, "start_pos", 0))
            try:
                node = self._make_node(subtree.data, [part[0] if type(part) is tuple else part for part in parts])
            except OperandIllegal as error:
                _refuse(self._text, position, str(error))
            if any(node is part for part, _ in nodes):
                depth -= 1  # parentheses, or a list of one
            if depth > MAX_EXPRESSION_DEPTH:
                _refuse(self._text, position, f"more than {MAX_EXPRESSION_DEPTH} conditions inside each other")
            built[id(subtree)] = node, depth
        return built[id(tree)][0]

    def _make_node(self, rule: str, parts: list[Any]) -> Node:
        match rule:
            case "constant":
                return Constant(_value(parts[0]))
            case "property":
                return Property(str(parts[0]))
            case "and_list" | "or_list":
                conditions = tuple(parts[::2])
                return Logic(rule == "and_list", conditions) if len(conditions) > 1 else conditions[0]
            case "equal":
                return Not(Equal(parts[0], parts[2])) if parts[1].type == "NE" else Equal(parts[0], parts[2])
            case "compare":
                return Ordering(cast("Literal['>']", str(parts[1])), parts[0], parts[2])
            case "negate":
                return Negation(parts[1])
            case "not_":
                return Not(parts[1])
            case "start":
                return condition(parts[0])
            case _:
                return _word_condition(rule, parts)


def _word_condition(rule: str, parts: list[Any]) -> Node:
    """The conditions in words: IS NULL, BETWEEN, IN, CONTAINS; each may be negated with NOT."""
    left = parts[0]
    negated = any(getattr(part, "type", "") == "NOT" for part in parts)
    match rule:
        case "is_null":
            return Not(IsNull(left)) if negated else IsNull(left)
        case "between":
            low, high = parts[-3], parts[-1]
            return not_between(left, low, high) if negated else between(left, low, high)
        case "in_list":
            return In(
                left, tuple(_unquoted(part) for part in parts[1:] if getattr(part, "type", "") == "STRING"), negated
            )
        case "text":
            word = cast("Literal['CONTAINS']", parts[-2].upper())
            return Text(word, left, _unquoted(parts[-1]), negated)
    raise AssertionError(f"the grammar has no rule {rule!r}")


def _unquoted(token: str) -> str:
    return token[1:-1].replace("''", "'")


def _value(token: Token) -> bool | int | float | str | None:
    match token.type:
        case "STRING":
            return _unquoted(token)
        case "INTEGER":
            # 19 digits and an L: a longer one is too large, and int() of a very long text is slow.
            number = int(token.rstrip("lL")) if len(token) <= 20 else _MAX_LONG + 1
            if number > _MAX_LONG:
                raise OperandIllegal(f"whole numbers go up to {_MAX_LONG}")
            return number if number <= _MAX_INTEGER else Long(number)
        case "DECIMAL":
            value = float(token)
            # 0.0 is below the smallest number, and refused, as by RocketMQ.
            if not _MIN_DOUBLE <= value <= _MAX_DOUBLE:
                raise OperandIllegal(f"decimal numbers go from {_MIN_DOUBLE} to {_MAX_DOUBLE}: for zero write 0")
            return value
        case "NULL":
            return None
    return token.type == "TRUE"
