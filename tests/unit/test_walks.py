"""A test that walks over a whole table of the project has a mark, with which `make walks` finds it.

A new request, event or option makes such a test fail, wherever it is; nobody can guess all places.
"""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator

import pytest

from tests.unit.source_tree import Source, parse, sources
from tests.unit.test_tidy import imported_names, resolve

MARK = "pytest.mark.walk"
pytestmark = pytest.mark.walk

TABLES = frozenset(
    {
        "cli.main.app",
        "client.allocate.registry.BUILT_IN_STRATEGIES",
        "client.trigger.Trigger",
        "metrics.doctor.problems.Problem",
        "model.errors.ERROR_BY_CODE",
        "model.events.EventKind",
        "model.limits",
        "model.quirks.Quirk",
        "model.response_code.ResponseCode",
        "remoting.request_code.RequestCode",
        "remoting.wire.schema.SCHEMA",
        "testbed.bench.catalog.BENCHMARKS",
        "testbed.simulation.engine.verbs.VERBS",
        "traces.check.verdict.Rule",
    }
)
"""What every feature adds a row to."""

WHOLE = frozenset({"dir", "frozenset", "get_command", "len", "list", "set", "sorted", "tuple", "vars"})
"""Calls that use every row of their argument."""

LEFT_OUT = {
    "tests/process/test_examples.py": "starts processes for each strategy",
    "tests/property/test_group_target_laws.py::test_when_all_see_one_view_each_queue_of_a_wanted_topic_has_one_target_that"
    "_wants_it": "hypothesis draws hundreds of groups for each strategy",
    "tests/property/test_rebalance_laws.py": "hypothesis draws one of the table",
    "tests/simulation/test_replay.py::test_the_recorded_rules_give_the_recorded_moves": "replays hundreds of histories",
    "tests/simulation/test_triggers.py": "takes 20 s; tests/docs/test_lists.py knows whether it has each trigger",
    "tests/unit/client/admin/test_expected_owners.py": "asks each for its name",
    "tests/unit/model/test_event_log.py": "hypothesis draws one of the table",
    "tests/unit/test_stale_words.py": "is part of `make check`",
}
"""Tests and files that walk over a table and are not part of `make walks`, each with the reason."""


def unmarked(source: Source) -> Iterator[str]:
    """The tests of a file that use a whole table and have no mark; a helper needs a mark somewhere in its file."""
    aliases = imported_names(source)
    marked = [top for top in source.tree.body if is_marked(top)]
    if any(isinstance(top, ast.Assign) for top in marked):
        return
    for top in source.tree.body:
        if any(resolve(table, aliases) in TABLES for node in ast.walk(top) for table in used_whole(node)):
            name = getattr(top, "name", "")
            if not (top in marked if name.startswith("test_") else marked):
                yield f"{source.path}::{name}" if name.startswith("test_") else source.path


def is_marked(top: ast.stmt) -> bool:
    """Whether a test has the mark, or a line sets it for the file."""
    match top:
        case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
            return MARK in ast.unparse(value)
        case ast.FunctionDef(decorator_list=decorators) | ast.AsyncFunctionDef(decorator_list=decorators):
            return any(ast.unparse(each) == MARK for each in decorators)
    return False


def used_whole(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions of which a node uses every row."""
    match node:
        case ast.For(iter=whole) | ast.AsyncFor(iter=whole) | ast.comprehension(iter=whole):
            yield table_of(whole)
        case ast.Call(func=ast.Name(id=name), args=[whole, *_]) if name in WHOLE:
            yield table_of(whole)
        case ast.Call(func=ast.Attribute(attr="parametrize"), args=[_, whole, *_]):
            yield table_of(whole)


def table_of(node: ast.expr) -> ast.expr:
    """The table whose items, keys or values an expression takes, or the expression itself."""
    match node:
        case ast.Call(func=ast.Attribute(value=table, attr="items" | "keys" | "values"), args=[]):
            return table
    return node


def test_each_table_has_the_name_that_it_has_in_the_code() -> None:
    for table in sorted(TABLES):
        assert pkgutil.resolve_name(table), table


def test_a_test_that_walks_over_a_table_is_marked() -> None:
    tests = [source for source in sources() if source.path.startswith("tests/") and "/test_" in source.path]
    found = [path for source in tests for path in unmarked(source)]
    assert sorted(found) == sorted(LEFT_OUT), f"mark what walks over a whole table with @{MARK}"


EVENTS = "from model.events import EventKind\n"
LOOP = "def test_each() -> None:\n    for kind in EventKind:\n        pass\n"


@pytest.mark.parametrize(
    ("text", "walking"),
    [
        (EVENTS + LOOP, ["tests/example.py::test_each"]),
        (EVENTS + f"@{MARK}\n" + LOOP, []),
        (EVENTS + f"pytestmark = [pytest.mark.tcp, {MARK}]\n" + LOOP, []),
        (
            EVENTS + "@pytest.mark.parametrize('kind', EventKind)\ndef test_one(): pass\n",
            ["tests/example.py::test_one"],
        ),
        (EVENTS + "KINDS = sorted(EventKind)\n", ["tests/example.py"]),
        (EVENTS + f"KINDS = sorted(EventKind)\n@{MARK}\ndef test_kinds(): pass\n", []),
        ("from model import limits\ndef test_limits(): vars(limits).items()\n", ["tests/example.py::test_limits"]),
        (EVENTS + "def test_one_kind(): assert EventKind.MOVED in seen\n", []),
    ],
)
def test_walks_are_found(text: str, walking: list[str]) -> None:
    assert list(unmarked(parse("tests/example.py", text))) == walking
