"""Values of filters, read from texts and compared as Java does. Pure.

Properties are texts. Beside a number they are read as a number of that kind, so `10.5` is not a whole number and
`price > 10` has no answer for it, while `price > 10.0` has one. A text that cannot be read makes the whole message fail
the filter: `MistypedValue`.
RocketMQ: ComparisonExpression.__compare; Java: Integer.valueOf, Long.valueOf, Double.valueOf, Double.compareTo.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import copysign, isnan
from typing import Any

from model.sql.nodes import Long, Value


class MistypedValue(Exception):
    """Two values cannot be compared, so the message does not match."""


_LAST_OF_INTEGER, _LAST_OF_LONG = 2**31 - 1, 2**63 - 1
_DIGITS_OF_LONG = 19
_LAST_OF_BMP = "\uffff"  # Java reads a text in units of 16 bits, of which a digit is one
# Without a way back (`++`): a long text that is not a number is refused in one pass.
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?)"
)
_BLANK = "".join(map(chr, range(33)))  # as of String.trim


def _whole(text: str, last: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal() or not (digits.isascii() or max(digits) <= _LAST_OF_BMP):
        raise MistypedValue
    if len(digits) > _DIGITS_OF_LONG:
        digits = digits.lstrip("0") or "0"
        if len(digits) > _DIGITS_OF_LONG:
            raise MistypedValue
    value = -int(digits) if text[0] == "-" else int(digits)
    if not -last - 1 <= value <= last:
        raise MistypedValue
    return value


def read_integer(text: str) -> int:
    """Read a whole number of 32 bits. Raises MistypedValue."""
    return _whole(text, _LAST_OF_INTEGER)


def read_long(text: str) -> int:
    """Read a whole number of 64 bits. Raises MistypedValue."""
    return _whole(text, _LAST_OF_LONG)


def read_double(text: str) -> float:
    """Read a number of double precision. Raises MistypedValue."""
    text = text.strip(_BLANK)
    match = _DOUBLE.fullmatch(text)
    if match is None:
        raise MistypedValue
    text = text.rstrip("fFdD") if match["hex"] is None else text[: match.end("hex")]
    try:
        return float(text) if match["hex"] is None else float.fromhex(text)
    except OverflowError:
        return float("-inf" if text[0] == "-" else "inf")


def read_boolean(text: str) -> bool:
    """Read a boolean: true in any case is true, everything else is false."""
    return text.lower() == "true"


_READERS: dict[type[Any], Callable[[str], Value]] = {
    bool: read_boolean,
    int: read_integer,
    Long: read_long,
    float: read_double,
}


def make_reader(value: Value) -> Callable[[str], Value]:
    """Return the function that reads a text as a value of this kind; the value is neither a text nor NULL."""
    return _READERS[type(value)]


def compare(left: Value, right: Value) -> int:
    """Return a number below, equal to or above 0; -1 also for kinds that Java does not convert.

    Raises:
        MistypedValue: a text is not of the kind of the other value.
    """
    kind, other = type(left), type(right)
    if kind is not other:
        if kind is bool:
            if other is str:
                raise MistypedValue  # Java casts the wrong one of the two
            return -1
        if kind is str:
            left = _READERS[other](left)  # type: ignore[arg-type]  # by `kind`
        elif other is str:
            right = _READERS[kind](right)  # type: ignore[arg-type]  # by `other`
        elif other is bool:
            return -1
    return compare_numbers(left, right)


def compare_numbers(left: Any, right: Any) -> int:
    """Compare two values of like kinds. As in Java, -0.0 is below 0.0, and NaN is above all other numbers."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if left == right == 0:
            left, right = copysign(1, left), copysign(1, right)
        elif isnan(left) or isnan(right):
            left, right = isnan(left), isnan(right)
    return int(left > right) - int(left < right)


def equal(left: Value, right: Value) -> bool | None:
    """Whether two values are equal, by Java's rules for NULL: NULL on the left alone is NULL, on the right alone false.

    Raises:
        MistypedValue: a text is not of the kind of the other value.
    """
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    return compare(left, right) == 0


def order(left: Value, right: Value) -> int | None:
    """Compare as numbers; None if one of the values is NULL.

    Raises:
        MistypedValue: a text is not a number of the kind of the other value, or of double precision beside another
            text.
    """
    if left is None or right is None:
        return None
    if type(left) is str and type(right) is str:
        return compare_numbers(read_double(left), read_double(right))
    return compare(left, right)
