from __future__ import annotations

import re
import subprocess
import sys

import pytest

from model.errors import FilterIllegal
from model.limits import MAX_EXPRESSION_CHARS, MAX_EXPRESSION_DEPTH
from model.own_name import PREFIX
from model.sql.nodes import Constant, Equal, In, IsNull, Logic, Long, Negation, Not, Ordering, Property, Text
from model.sql.parse import parse

A, B = Property("a"), Property("b")
A_IS_1 = Equal(A, Constant(1))
VALUE = "'(', +, -, a number, a text as 'north', the name of a property, FALSE, NOT, NULL or TRUE"


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a = 1 OR b = 1 AND a = 1", Logic(False, (A_IS_1, Logic(True, (Equal(B, Constant(1)), A_IS_1))))),
        ("(a = 1)", A_IS_1),
        ("a <> 1", Not(A_IS_1)),
        ("NOT a = 1", Equal(Not(A), Constant(1))),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("a not in ('it''s', 'x')", In(A, ("it's", "x"), True)),
        ("a StartsWith 'x'", Text("STARTSWITH", A, "x", False)),
        ("a BETWEEN 1 AND 2", Logic(True, (Ordering(">=", A, Constant(1)), Ordering("<=", A, Constant(2))))),
        ("a NOT BETWEEN 1 AND 2", Logic(False, (Ordering("<", A, Constant(1)), Ordering(">", A, Constant(2))))),
        ("a > -1.5", Ordering(">", A, Negation(Constant(1.5)))),
        ("a > +5l /* five */", Ordering(">", A, Constant(5))),
        ("android = TRUE -- mobile\n", Equal(Property("android"), Constant(True))),
    ],
)  # fmt: skip
def test_a_filter_becomes_its_parts(text: str, node: object) -> None:
    assert parse(text) == node


def test_a_whole_number_beyond_32_bits_is_long() -> None:
    parsed = parse("a = 2147483648")
    assert isinstance(parsed, Equal)
    assert isinstance(parsed.right, Constant)
    assert type(parsed.right.value) is Long


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("price >", f"expected {VALUE}, at its end"),
        ("a = 1 b", "the end, AND, BETWEEN, CONTAINS, ENDSWITH, IN, IS, NOT, OR or STARTSWITH, at character 7, 'b'"),
        ("a IN (1)", "expected a text as 'north', at character 7, '1)'"),
        ("a == 1", "(equal is written =), at character 4"),
        ("a != 1", "(not equal is written <>), at character 3"),
        ("a like 'x%'", "(LIKE is not in the language: use CONTAINS, STARTSWITH or ENDSWITH), at character 3"),
        ("abs(a) > 1", "(the language has no functions), at character 4"),
        ("red || blue", "tags are conditions too, as TAGS IN ('a', 'b')), at character 5"),
        ('a = "x"', "(texts have single quotes, as 'north'), at character 5"),
        ("a = 'x", "the quote is never closed, at character 5"),
        ("a = NULL", "NULL cannot be compared: write IS NULL, or IS NOT NULL, at character 1"),
        ("b = 1 AND a > 'x'", "> compares numbers, so a literal beside it is one, at character 11"),
        ("(a = 1) > 2", "> compares numbers, not conditions"),
        ("5", "a condition is needed here, as price > 10, and not a value"),
        ("TRUE = 1", "write the property first"),
        ("5 IN ('x')", "IN takes the name of a property on its left"),
        ("a BETWEEN 5 AND 1", "BETWEEN takes the lower number first"),
        ("a > 9223372036854775808", "whole numbers go up to 9223372036854775807, at character 5"),
        ("a > " + "9" * 1000, "whole numbers go up to 9223372036854775807"),
        ("a > 0.0", "for zero write 0, at character 5"),
        ("a > 1e999", "decimal numbers go from"),
        ("", "at its end"),
        ("a = 1;", "a filter is one expression without an end mark"),
    ],
)  # fmt: skip
def test_an_error_has_the_position_what_was_expected_and_an_example(text: str, error: str) -> None:
    with pytest.raises(FilterIllegal, match=re.escape(error)) as caught:
        parse(text)
    assert str(caught.value).endswith("Example: price > 10 AND region = 'north'")


def test_a_filter_may_be_as_long_as_the_limit_and_not_longer() -> None:
    text = "a = 1 OR "
    longest = text * (MAX_EXPRESSION_CHARS // len(text)) + "b"
    longest += " " * (MAX_EXPRESSION_CHARS - len(longest))
    parse(longest)
    with pytest.raises(FilterIllegal, match=f"has {MAX_EXPRESSION_CHARS + 1} characters, more than"):
        parse(longest + " ")


@pytest.mark.parametrize(
    "most", ["NOT " * (MAX_EXPRESSION_DEPTH - 1) + "a", "a" + " IS NULL" * (MAX_EXPRESSION_DEPTH - 1)]
)
def test_a_filter_may_be_as_deep_as_the_limit_and_not_deeper(most: str) -> None:
    parse(most)
    with pytest.raises(FilterIllegal, match=f"more than {MAX_EXPRESSION_DEPTH} conditions inside each other"):
        parse(most.replace("a", "NOT a", 1) if most.startswith("NOT") else most + " IS NULL")


def test_parentheses_and_long_chains_are_not_deep() -> None:
    assert parse("(" * 1000 + "a = 1" + ")" * 1000) == parse("a = 1")
    chain = parse(" AND ".join(["a = 1"] * 300))
    assert isinstance(chain, Logic)
    assert len(chain.parts) == 300


def test_lark_is_imported_at_the_first_filter_and_not_before() -> None:
    names = f"{PREFIX}client, {PREFIX}broker.broker, {PREFIX}model.sql.compiled as it"
    script = f"import sys, {names}; early = 'lark' in sys.modules\n" \
        "it.compile_filter('a = 1'); print(early, 'lark' in sys.modules)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
