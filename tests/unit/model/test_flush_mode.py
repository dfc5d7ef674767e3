"""The names of the modes are what people write on the command line and in a file."""

from __future__ import annotations

from model.flush_mode import FlushMode


def test_the_modes_are_those_of_the_documentation() -> None:
    assert list(FlushMode) == ["async", "sync"]
