"""Checks the types of arguments of the API, where a wrong type would raise an unclear error far away. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from model.errors import InvalidParameter


def check_text(subject: str, value: object) -> None:
    """Raise InvalidParameter, with the name of the argument, unless the value is a string."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{subject} must be a string, got {short_repr(value)}")


def check_whole(subject: str, value: object, low: int, high: int) -> None:
    """Raise InvalidParameter, with the argument's name, unless the value is a whole number from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidParameter(f"{subject} must be a whole number from {low} to {high}, got {short_repr(value)}")
    if not low <= value <= high:
        raise InvalidParameter(f"{subject} must be {low} to {high}, got {value}")


def check_integer(subject: str, value: object) -> None:
    """Raise InvalidParameter, with the name of the argument, unless the value is a whole number; a bool is not."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidParameter(f"{subject} must be a whole number, got {short_repr(value)}")


def check_number(subject: str, value: object, low: float, high: float) -> None:
    """Raise InvalidParameter, with the name of the argument, unless the value is a number from `low` to `high`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidParameter(f"{subject} must be {low:g} to {high:g}, got {short_repr(value)}")


def check_iterable(subject: str, values: object) -> None:
    """Raise InvalidParameter, with the argument's name, for a single string or a value that is not iterable."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidParameter(f"{subject} must be a list, got {short_repr(values)}")


def check_mapping(subject: str, value: object) -> None:
    """Raise InvalidParameter, with the name of the argument, unless the value is a mapping."""
    if not isinstance(value, Mapping):
        raise InvalidParameter(f"{subject} must be a dict, got {short_repr(value)}")


def check_callable(subject: str, value: object) -> None:
    """Raise InvalidParameter, with the name of the argument, unless the value is callable."""
    if not callable(value):
        raise InvalidParameter(f"{subject} must be a function, got {short_repr(value)}")


def short_repr(value: object, max_chars: int = 100) -> str:
    """At most `max_chars` characters of a value, for an error. The `repr()` of a user's value may fail."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<a {type(value).__name__} whose repr() raises {type(error).__name__}>"
    return text if len(text) <= max_chars else f"{text[: max_chars - 3]}..."
