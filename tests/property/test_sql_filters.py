"""Filters beside a naive twin, drawn with the text, which evaluates it by RocketMQ's rules written out one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from model.sql.compiled import compile_filter
from model.sql.evaluate import compile_condition
from model.sql.parse import parse
from model.sql.values import MistypedValue

NAMES = ("a", "b", "price", "TAGS")
Message = Mapping[str, str]


class Failed(Exception):
    """The values cannot be compared."""


class Drawn(NamedTuple):
    text: str
    checkers: Callable[[Message], bool | None]
    lookups: int


def whole(text: str) -> Fraction:
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not digits or any(letter not in "0123456789" for letter in digits):
        raise Failed
    value = Fraction(digits) * (-1 if sign == "-" else 1)
    if not -(2**31) <= value < 2**31:
        raise Failed
    return value


def decimal(text: str) -> Fraction:
    try:
        return Fraction(text)
    except ValueError:
        raise Failed from None


_SIGNS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: not a < b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: not a > b,
}


def numeric(name: str, sign: str, literal: str) -> Drawn:
    read = decimal if "." in literal else whole

    def checkers(message: Message) -> bool | None:
        return _SIGNS[sign](read(message[name]), Fraction(literal)) if name in message else None

    return Drawn(f"{name} {sign} {literal}", checkers, 1)


def between_of(name: str, low: int, high: int) -> Drawn:
    low, high = sorted((low, high))

    def checkers(message: Message) -> bool | None:
        return None if name not in message else low <= whole(message[name]) <= high

    return Drawn(f"{name} BETWEEN {low} AND {high}", checkers, 2)


def is_equal(name: str, text: str, negated: bool) -> Drawn:
    def checkers(message: Message) -> bool | None:
        return None if name not in message else (message[name] == text) != negated

    return Drawn(f"{name} {'<>' if negated else '='} {quoted(text)}", checkers, 1)


def among(name: str, texts: list[str], negated: bool) -> Drawn:
    def checkers(message: Message) -> bool | None:
        return None if name not in message else any(message[name] == text for text in texts) != negated

    word = "NOT IN" if negated else "IN"
    return Drawn(f"{name} {word} ({', '.join(map(quoted, texts))})", checkers, 1)


def worded(name: str, word: str, text: str, negated: bool) -> Drawn:
    def checkers(message: Message) -> bool:
        if name not in message or not text:
            return False
        value, size = message[name], len(text)
        if word == "CONTAINS":
            found = any(value[at : at + size] == text for at in range(len(value)))
        else:
            found = (value[:size] if word == "STARTSWITH" else value[-size:]) == text
        return found != negated

    return Drawn(f"{name} {'NOT ' if negated else ''}{word} {quoted(text)}", checkers, 1)


def is_null(name: str, negated: bool) -> Drawn:
    return Drawn(f"{name} IS {'NOT ' if negated else ''}NULL", lambda message: (name in message) == negated, 1)


def alone(name: str) -> Drawn:
    return Drawn(name, lambda message: False if name in message else None, 1)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def negation(of: Drawn) -> Drawn:
    def checkers(message: Message) -> bool | None:
        value = of.checkers(message)
        return None if value is None else not value

    return Drawn(f"NOT ({of.text})", checkers, of.lookups)


def joined(parts: list[Drawn], is_and: bool) -> Drawn:
    def checkers(message: Message) -> bool | None:
        values = []
        for part in parts:
            values.append(part.checkers(message))
            if values[-1] is not None and values[-1] != is_and:
                return values[-1]
        return None if None in values else is_and

    texts = [f"({part.text})" for part in parts]
    return Drawn((" AND " if is_and else " OR ").join(texts), checkers, sum(part.lookups for part in parts))


names = st.sampled_from(NAMES)
texts = st.sampled_from(("", "n", "north", "it's", "10", "-7", "true", "AND", "ü"))
numbers = st.sampled_from(("0", "5", "10", "-7", "2147483647", "2.5", "-10.25"))
leaves = st.one_of(
    st.builds(numeric, names, st.sampled_from(sorted(_SIGNS)), numbers),
    st.builds(between_of, names, st.integers(-20, 20), st.integers(-20, 20)),
    st.builds(is_equal, names, texts, st.booleans()),
    st.builds(among, names, st.lists(texts, min_size=1, max_size=6), st.booleans()),
    st.builds(worded, names, st.sampled_from(("CONTAINS", "STARTSWITH", "ENDSWITH")), texts, st.booleans()),
    st.builds(is_null, names, st.booleans()),
    st.builds(alone, names),
)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(negation, inner), st.builds(joined, st.lists(inner, min_size=2, max_size=4), st.booleans())
    ),
    max_leaves=12,
)
values = st.one_of(texts, numbers, st.integers(-(2**32), 2**32).map(str), st.text(max_size=5))
messages = st.dictionaries(names, values)


class Counted(dict[str, str]):
    """A message that counts how often a property was looked up."""

    lookups = 0

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]  # of one kind
        self.lookups += 1
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.lookups += 1
        return super().__contains__(name)


def naive(drawn: Drawn, message: Message) -> bool | str | None:
    try:
        return drawn.checkers(message)
    except Failed:
        return "failed"


def ours(text: str, message: Message) -> object:
    try:
        return compile_condition(parse(text))(message)
    except MistypedValue:
        return "failed"


def plain(message: Message) -> bool:
    """Whether the twin reads its values as Java does: it has no exponents, blanks or digits of other scripts."""
    return all(value.isascii() and not set(value) & set(" \t\n\r\x0b\x0c_/eEdDfF") for value in message.values())


@given(filters, messages.filter(plain))
def test_a_filter_judges_as_its_naive_twin(drawn: Drawn, message: dict[str, str]) -> None:
    expected = naive(drawn, message)
    assert ours(drawn.text, message) == expected
    assert compile_filter(drawn.text)(message) is (expected is True)


@given(filters, messages)
def test_each_part_of_a_filter_is_evaluated_once_at_most_so_a_message_costs_as_much_as_the_filter_is_long(
    drawn: Drawn, message: dict[str, str]
) -> None:
    counted = Counted(message)
    compile_filter(drawn.text)(counted)
    assert counted.lookups <= drawn.lookups <= len(drawn.text)


@given(filters, messages)
def test_the_blanks_and_the_case_of_keywords_mean_nothing(drawn: Drawn, message: dict[str, str]) -> None:
    spread = drawn.text.replace(" AND ", "\n and /* both */ ").replace(" OR ", "\tor ").replace("NOT ", "not  ")
    if "'AND'" not in drawn.text:
        assert ours(spread, message) == ours(drawn.text, message)
