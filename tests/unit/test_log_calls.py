"""Every call that writes a log line has as many values as its text has places for them, and a level that has a name.

ruff checks calls with plain arguments alone; here values are often written as `*(a, b, c)`, and many lines go through
`LogLines`, whose text is the third argument.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.unit.source_tree import Source, parse, sources

PLACE = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
NAMES = {"debug", "info", "warning", "error", "critical", "exception", "log", "failure"}


def _texts_by_name(function: ast.AST) -> dict[str, list[str]]:
    """The texts that local names are given in a function."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                found.setdefault(name, []).append(text)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.IfExp(body=ast.Constant(value=str() as first), orelse=ast.Constant(value=str() as second)),
            ):
                found.setdefault(name, []).extend((first, second))
    return found


def _is_logger(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2] in ("logger", "_logger") or ast.unparse(node).startswith(
        "logging.getLogger("
    )


def _text_and_values(call: ast.Call) -> tuple[ast.expr, list[ast.expr]] | None:
    """The text of a line and its values; None if the call writes none."""
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return None
    name, arguments = call.func.attr, call.args
    if name not in NAMES:
        return None
    if _is_logger(call.func.value):
        at = None if name == "failure" else 1 if name == "log" else 0
    else:
        at = 2 if name != "log" and _is_logger(arguments[0]) else None
    return None if at is None or len(arguments) <= at else (arguments[at], arguments[at + 1 :])


def _count(values: list[ast.expr]) -> int | None:
    n = 0
    for value in values:
        if not isinstance(value, ast.Starred):
            n += 1
        elif isinstance(value.value, ast.Tuple):
            inner = _count(value.value.elts)
            if inner is None:
                return None
            n += inner
        else:
            return None  # as many as the caller of a helper gives
    return n


def log_calls(source: Source) -> Iterator[str]:
    """Lines with too few or too many values, and levels that are computed."""
    if "logger" not in source.text:
        return
    texts: dict[ast.AST, dict[str, list[str]]] = {}  # of each call, by the innermost function around it
    for function in source.nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = _texts_by_name(function)
            texts.update((node, inside) for node in ast.walk(function) if isinstance(node, ast.Call) and inside)
    for node in source.nodes:
        found = _text_and_values(node) if isinstance(node, ast.Call) else None
        if found is None or not isinstance(node, ast.Call):
            continue
        text, values = found
        where = f"{source.path}:{node.lineno}"
        if isinstance(node.func, ast.Attribute) and node.func.attr == "log" and isinstance(node.args[0], ast.BinOp):
            yield f"{where} writes a level without a name: {ast.unparse(node.args[0])}"
        formats = texts.get(node, {}).get(text.id, []) if isinstance(text, ast.Name) else []
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            formats = [text.value]
        count = _count(values)
        if count:
            for each in formats:
                places = sum(place != "%%" for place in PLACE.findall(each))
                if places != count:
                    yield f"{where} has {count} values for {places} places: {each!r}"
        elif count == 0:
            # Without values the text is written as it is, also what looks like a place.
            yield from (f"{where} fills no place of {each!r}" for each in formats if PLACE.search(each))


def test_each_log_line_has_a_value_for_each_of_its_places() -> None:
    problems = [problem for source in sources() for problem in log_calls(source)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ('logger.warning("%s of %d", name)', "has 1 values for 2 places"),
        ('logger.warning("%s of %d", *(a, b), c)', "has 3 values for 2 places"),
        ('self._logger.info("%s is left")', "fills no place"),
        ('logger.log(logging.WARNING + 1, "%s", a)', "writes a level without a name: logging.WARNING + 1"),
        ('self._lines.warning(logger, now, "%s and %s", a)', "has 1 values for 2 places"),
        (
            'def f():\n    text = "%s"\n    self._lines.failure(logger, now, text, a, b, error=error)\n'
            'def g():\n    text = "%s %s"',
            "has 2 values for 1 places",
        ),
    ],
)
def test_the_rule_sees_what_is_wrong(code: str, problem: str) -> None:
    [found] = log_calls(parse("client/x.py", code))
    assert problem in found


@pytest.mark.parametrize(
    "code",
    [
        'logger.warning("%s of %5.1f %% done", *(a, b))',
        'logger.log(level, "%s", a)',
        'logger.warning("all of them")',
        'logger.warning("%s: %s", *values)',
        'math.log(2, "%s")',
        "self._lines.warning(logger, now, text, *values)",
    ],
)
def test_the_rule_accepts_what_is_right(code: str) -> None:
    assert list(log_calls(parse("client/x.py", code))) == []
