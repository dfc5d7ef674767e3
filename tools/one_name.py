"""Moves the packages below one name: `client/` of the repository is installed as `rlab/client/`, its imports with it.

    from model.errors import ConfigError         from rlab.model.errors import ConfigError
    import client.allocate                       import rlab.client.allocate; from rlab import client
    [*MODULE, "cli.main", "broker"]              [*MODULE, "rlab.cli.main", "broker"]

Nothing else changes: each line keeps its number, so that a traceback of what is installed points into the repository.
What is written down is the name of a module that exists, so a text like "broker.port" stays as it is, and so does a
name without a dot, which could be any word.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
NAME = "rlab"
_DOTTED = re.compile(r"[a-z_]\w*(\.\w+)+")


class _Edit(NamedTuple):
    line: int  # from 1
    column: int  # in bytes of UTF-8, as `ast` counts
    end_column: int
    text: str


def rewritten(text: str, modules: Set[str]) -> str:
    """A file with the names of these modules below `rlab`.

    Raises:
        SyntaxError: it is not Python.
    """
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    edits = [edit for node in ast.walk(ast.parse(text)) for edit in _edits(node, modules, lines)]
    for edit in sorted(edits, reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.column] + edit.text.encode() + line[edit.end_column :]
    return b"".join(lines).decode()


def modules_of(packages: Set[str], root: Path = ROOT) -> frozenset[str]:
    """The modules in folders of the repository, packages among them."""
    found = set(packages)
    for package in packages:
        found.update(f"{package}.{file.stem}" for file in (root / package.replace(".", "/")).glob("*.py"))
    return frozenset(name for name in found if not name.endswith(".__init__"))


def _edits(node: ast.AST, modules: Set[str], lines: list[bytes]) -> Iterator[_Edit]:
    tops = {name.partition(".")[0] for name in modules}
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module and node.module.partition(".")[0] in tops:
        start = lines[node.lineno - 1].index(node.module.encode(), node.col_offset + len("from "))
        yield _Edit(node.lineno, start, start, f"{NAME}.")
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] in tops:
                yield _edit_of_import(alias, alone=len(node.names) == 1, statement=node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
        first, second, *_ = node.value.split(".")
        if f"{first}.{second}" in modules and node.lineno == node.end_lineno:
            start = lines[node.lineno - 1].find(node.value.encode(), node.col_offset)
            if start >= 0:
                yield _Edit(node.lineno, start, start, f"{NAME}.")


def _edit_of_import(alias: ast.alias, *, alone: bool, statement: ast.Import) -> _Edit:
    """`import a.b` binds `a`, so what is below the name is imported, and then `a` is bound.

    Raises:
        SyntaxError: it stands in a list of several, where there is no place for the second.
    """
    assert alias.end_col_offset is not None, "ast.parse gives each node its end"
    top, dot, _ = alias.name.partition(".")
    if alias.asname:
        return _Edit(alias.lineno, alias.col_offset, alias.col_offset, f"{NAME}.")
    if not alone:
        raise SyntaxError(f"import {alias.name} in a statement of its own (line {alias.lineno})")
    binding = f"from {NAME} import {top}"
    text = f"import {NAME}.{alias.name}; {binding}" if dot else binding
    return _Edit(alias.lineno, statement.col_offset, alias.end_col_offset, text)
