"""Names of classes, functions, parameters and variables have the words of the field, and not those of a dialect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.unit.plain_words import (
    ALLOWED_NAMES,
    ALLOWED_PARTICIPLES,
    ALLOWED_VAGUE,
    NAME_PATTERNS,
    PARTICIPLE,
    VAGUE,
    VAGUE_ROOMS,
)
from tests.unit.source_tree import Source, parse, shipped, sources

pytestmark = pytest.mark.walk

FINDERS = tuple(re.compile(f"(?:^|_){pattern}(?:_|$)") for pattern, _, _ in NAME_PATTERNS)
CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def in_words(name: str) -> str:
    """The name in lower case with underscores: "LeaseTable" becomes "lease_table"."""
    return CAPITAL.sub("_", name).lower()


def is_plain(name: str) -> bool:
    return name in ALLOWED_NAMES or not any(finder.search(in_words(name)) for finder in FINDERS)


def names_of(source: Source) -> Iterator[str]:
    """Every name that a file defines."""
    for node in source.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@pytest.mark.parametrize(("pattern", "bad", "good"), NAME_PATTERNS)
def test_each_pattern_of_names_finds_its_example_and_not_the_plain_one(pattern: str, bad: str, good: str) -> None:
    assert re.search(f"(?:^|_){pattern}(?:_|$)", bad)
    assert is_plain(good)


def test_the_words_of_a_name_are_found_in_each_way_of_writing_it() -> None:
    found = parse(
        "client/example.py", "class ToldVersion:\n    def _tell(self, owed_s): self.heard, GUEST = owed_s, 1\n"
    )
    assert [name for name in names_of(found) if not is_plain(name)] == [
        "ToldVersion",
        "_tell",
        "owed_s",
        "heard",
        "GUEST",
    ]


def test_names_have_the_words_of_the_field() -> None:
    found = {source.path: sorted({name for name in names_of(source) if not is_plain(name)}) for source in sources()}
    assert {path: names for path, names in found.items() if names} == {}


def test_each_allowed_name_is_there_and_would_be_found() -> None:
    everything = {name for source in sources() for name in names_of(source)}
    assert sorted(set(ALLOWED_NAMES) - everything) == []
    assert [name for name in ALLOWED_NAMES if not any(finder.search(in_words(name)) for finder in FINDERS)] == []


def public_participles(source: Source) -> list[str]:
    """The public classes and functions of a module whose names are bare participles."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = [node.name for node in source.tree.body if isinstance(node, kinds)]
    return [name for name in names if re.fullmatch(PARTICIPLE, in_words(name))]


def test_a_bare_participle_is_found_and_a_name_with_its_noun_or_verb_is_not() -> None:
    found = parse(
        "client/example.py",
        "class Parked: ...\nclass Feed: ...\ndef _sent(): ...\ndef kept(): ...\ndef keep(): ...\n",
    )
    assert public_participles(found) == ["Parked", "kept"]


def test_no_public_class_or_function_is_a_bare_participle() -> None:
    found = {source.path: public_participles(source) for source in shipped()}
    wrong = {path: [name for name in names if name not in ALLOWED_PARTICIPLES] for path, names in found.items()}
    assert {path: names for path, names in wrong.items() if names} == {}
    stale = set(ALLOWED_PARTICIPLES) - {name for names in found.values() for name in names}
    assert sorted(stale) == []


def vague_variables(source: Source) -> list[str]:
    """The parameters and local variables of a file whose names do not say what they have."""
    found: dict[str, None] = {}
    for function in source.nodes:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for node in ast.walk(function):
            match node:
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) if name in VAGUE:
                    found[name] = None
                case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) if name in VAGUE:
                    found[name] = None
    return list(found)


def test_a_vague_variable_is_found_wherever_it_is_bound_and_a_field_of_that_name_is_not() -> None:
    text = (
        "def f(at, position):\n"
        "    found, row = [one for one in position], {key: 1 for key in position}\n"
        "    match row:\n"
        "        case [gone, *lost] if (known := gone.given):\n"
        "            return lambda who: row.what(made=known)\n"
        "class Row:\n"
        "    place: int\n"
    )
    assert sorted(vague_variables(parse("client/example.py", text))) == [
        *("at", "found", "gone", "known", "lost", "one", "who")
    ]


def test_parameters_and_local_variables_say_what_they_have() -> None:
    found = {source.path: vague_variables(source) for source in shipped() if not source.path.startswith(VAGUE_ROOMS)}
    wrong = {path: [name for name in names if f"{path} {name}" not in ALLOWED_VAGUE] for path, names in found.items()}
    assert {path: names for path, names in wrong.items() if names} == {}, "plain_words.py says how such a name reads"
    assert sorted(set(ALLOWED_VAGUE) - {f"{path} {name}" for path, names in found.items() for name in names}) == []
