"""The text of a programme: TOML in, TOML out, or a test of pytest that fails as long as the programme does. Pure.

    parse_programme(write_programme(programme)) == programme

Only what differs from its default is written, so that a programme shows what matters in it.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

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

T = TypeVar("T")
_PARTS: dict[str, type[Any]] = {"cluster": ClusterPart, "promise": PromisePart, "load": LoadPart}
_ROWS: dict[str, type[Any]] = {"topic": TopicPart, "group": GroupPart, "step": Step, "clock": ClockPart}
_TYPES: dict[str, tuple[type[Any], ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "tuple[str, ...]": (list,),
}
_WORDS = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false"}


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
        if name in _PARTS:
            values[name] = _record(_PARTS[name], value, name)
        elif name in _ROWS:
            if not isinstance(value, list):
                raise ConfigError(f"{name}: write it as [[{name}]], because there may be several")
            values[name] = tuple(_record(_ROWS[name], row, f"{name} {n}") for n, row in enumerate(value, 1))
        else:
            values[name] = value
    return _record(Programme, values, "programme")


def write_programme(programme: Programme) -> str:
    """Write a programme."""
    lines = _rows_of(programme, without={*_PARTS, *_ROWS})
    for name in _PARTS:
        if rows := _rows_of(getattr(programme, name)):
            lines += ["", f"[{name}]", *rows]
    for name in _ROWS:
        if name == "step" or getattr(programme, name) != getattr(Programme(), name):
            for record in getattr(programme, name):
                lines += ["", f"[[{name}]]", *_rows_of(record)]
    return "\n".join(lines).lstrip() + "\n"


def _rows_of(record: Any, without: Collection[str] = ()) -> list[str]:
    """A line for each field of a record that differs from its default."""
    reported = [
        each for each in fields(record) if each.default is MISSING or getattr(record, each.name) != each.default
    ]
    return [f"{each.name} = {_written(getattr(record, each.name))}" for each in reported if each.name not in without]


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_written(each) for each in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _record(kind: type[T], values: Any, where: str) -> T:
    """Make a record from a table, with a clear refusal of what does not belong there."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: expected a table, got {values!r}")
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]  # T is a dataclass
    made: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(
                f"{where}: unknown name {name!r}"
                + (f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}")
            )
        made[name] = _value(str(known[name].type), value, f"{where}: {name}")
    for name, each in known.items():
        if name not in made and each.default is MISSING:
            raise ConfigError(f"{where}: {name!r} is missing")
    return kind(**made)


def _value(annotation: str, value: Any, where: str) -> Any:
    types = _TYPES.get(annotation)
    if types is None:
        return value
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ConfigError(f"{where} must be {_WORDS.get(annotation, 'a list of texts')}, got {value!r}")
    if annotation == "tuple[str, ...]":
        if not all(isinstance(each, str) for each in value):
            raise ConfigError(f"{where} must be a list of texts, got {value!r}")
        return tuple(value)
    return float(value) if annotation == "float" else value


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


def as_test(programme: Programme, found: str) -> str:
    """Write the test; `found` is what the programme shows, in a line."""
    title = f"A small programme that shows: {found}".replace('"', "'").replace("\\", "/")
    return _TEMPLATE.format(title=title[:118], text=write_programme(programme))
