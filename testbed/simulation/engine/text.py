"""Reads and writes programmes as TOML, and writes a pytest test that runs one. Pure.

A programme is the script of a simulated run, see `programme.py`.

    parse_programme(write_programme(programme)) == programme

Only what differs from its default is written, so that a programme shows what matters in it.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

from model.errors import ConfigError
from testbed.simulation.engine.programme import (
    ClockPart,
    ClusterPart,
    GroupPart,
    LoadPart,
    Programme,
    PromisePart,
    Step,
    TopicPart,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
_TABLES: dict[str, type[Any]] = {"cluster": ClusterPart, "promise": PromisePart, "load": LoadPart}
_TABLE_ARRAYS: dict[str, type[Any]] = {"topic": TopicPart, "group": GroupPart, "step": Step, "clock": ClockPart}
_TYPES: dict[str, tuple[type[Any], ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "tuple[str, ...]": (list,),
}
_TYPE_NAMES = {"str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false"}


def parse_programme(text: str) -> Programme:
    """Read a programme.

    Raises:
        ConfigError: it is not TOML, or not a valid programme; the text has the place and the reason.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not a programme: {error}") from None
    values: dict[str, Any] = {}
    for name, value in document.items():
        if name in _TABLES:
            values[name] = _make_record(_TABLES[name], value, name)
        elif name in _TABLE_ARRAYS:
            if not isinstance(value, list):
                raise ConfigError(f"{name}: write it as [[{name}]], because there may be several")
            values[name] = tuple(
                _make_record(_TABLE_ARRAYS[name], row, f"{name} {n}") for n, row in enumerate(value, 1)
            )
        else:
            values[name] = value
    return _make_record(Programme, values, "programme")


def write_programme(programme: Programme) -> str:
    """Return the TOML text of a programme."""
    lines = _field_lines(programme, without={*_TABLES, *_TABLE_ARRAYS})
    for name in _TABLES:
        if rows := _field_lines(getattr(programme, name)):
            lines += ["", f"[{name}]", *rows]
    for name in _TABLE_ARRAYS:
        if name == "step" or getattr(programme, name) != getattr(Programme(), name):
            for record in getattr(programme, name):
                lines += ["", f"[[{name}]]", *_field_lines(record)]
    return "\n".join(lines).lstrip() + "\n"


def _field_lines(record: Any, without: Collection[str] = ()) -> list[str]:
    """A line for each field of a record that differs from its default."""
    changed = [each for each in fields(record) if each.default is MISSING or getattr(record, each.name) != each.default]
    return [f"{each.name} = {_toml_value(getattr(record, each.name))}" for each in changed if each.name not in without]


def _toml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_toml_value(each) for each in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _make_record(kind: type[T], values: Any, where: str) -> T:
    """Make a record from a table. `where` begins the message of an error.

    Raises:
        ConfigError: a name is unknown, a value has the wrong type, or a field is missing.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: expected a table, got {values!r}")
    known_fields = {each.name: each for each in fields(kind)}
    made_values: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known_fields:
            near = difflib.get_close_matches(name, known_fields, 1)
            raise ConfigError(
                f"{where}: unknown name {name!r}"
                + (f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known_fields)}")
            )
        made_values[name] = _checked_value(str(known_fields[name].type), value, f"{where}: {name}")
    for name, each in known_fields.items():
        if name not in made_values and each.default is MISSING:
            raise ConfigError(f"{where}: {name!r} is missing")
    return kind(**made_values)


def _checked_value(annotation: str, value: Any, where: str) -> Any:
    types = _TYPES.get(annotation)
    if types is None:
        return value  # a table that was made before: `parse_programme` makes the tables first
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ConfigError(f"{where} must be {_TYPE_NAMES.get(annotation, 'a list of strings')}, got {value!r}")
    if annotation == "tuple[str, ...]":
        if not all(isinstance(each, str) for each in value):
            raise ConfigError(f"{where} must be a list of strings, got {value!r}")
        return tuple(value)
    return float(value) if annotation == "float" else value


_MAX_TITLE_CHARS = 117
"""So that the first line of the module has at most 120 characters."""

_TEMPLATE = '''"""{title}

Written by rlab sim --shrink.
"""

from __future__ import annotations

from rlab.testbed.simulation.engine.run import run_programme
from rlab.testbed.simulation.engine.text import parse_programme

PROGRAMME = r"""
{text}"""


def test_the_programme_keeps_its_promises() -> None:
    assert run_programme(parse_programme(PROGRAMME)).findings == ()
'''


def write_test(programme: Programme, finding: str) -> str:
    """Return the source of a test module that runs the programme. `finding` describes the failure in one line."""
    title = f"A small programme that shows: {finding}".replace('"', "'").replace("\\", "/")
    return _TEMPLATE.format(title=title[:_MAX_TITLE_CHARS], text=write_programme(programme))
