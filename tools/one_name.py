"""Moves the packages below one name: `client/` of the repository is installed as `rlab/client/`, with new imports.

    from model.errors import ConfigError         from rlab.model.errors import ConfigError
    import client.allocate                       import rlab.client.allocate; from rlab import client
    [*MODULE, "cli.main", "broker"]              [*MODULE, "rlab.cli.main", "broker"]

Nothing else changes: each line keeps its number, so that a traceback of an installation points into the repository.
Only names of existing modules are rewritten, so a text like "broker.port" is unchanged, and so is a name without a dot,
which could be any word: model/own_name.py has such names at run time. A text that is itself a program with such
imports, as in tests, is rewritten like a file.
"""

from __future__ import annotations

import ast
import re
import shutil
import tomllib
from collections.abc import Iterator, Set
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
NAME = "rlab"
SHOWN = ("docs/*.md", "docs/labs/**/*", "examples/**/*")
"""Files that are installed beside the packages: what commands copy (lessons, examples), and the pages linked there."""
_DOTTED = re.compile(r"[a-z_]\w*(\.\w+)+")


class _Edit(NamedTuple):
    start: int  # in bytes of UTF-8
    end: int
    text: str


def write_installed(folder: Path) -> None:
    """Write the installed files into a folder: `rlab/`, and the modules beside it that others find by their names."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    settings = project["setuptools"]
    packages: list[str] = settings["packages"]
    below = folder / NAME
    shutil.rmtree(below, ignore_errors=True)
    for package in packages:
        _copy(package, "*.py", below)
    for package, patterns in settings["package-data"].items():
        for pattern in patterns:
            _copy(package, pattern, below)
    for file in shown_files():
        _copy_file(file, below)
    for module in settings["py-modules"]:
        shutil.copyfile(ROOT / f"{module}.py", folder / f"{module}.py")
    _copy(NAME, "__main__.py", folder)
    _copy(NAME, "renamed.py", folder)
    docstring = ast.get_docstring(ast.parse((ROOT / NAME / "__init__.py").read_text(encoding="utf-8")))
    finds_old_names = "from rlab.renamed import install\n\ninstall()\n"
    (below / "__init__.py").write_text(f'"""{docstring}\n"""\n\n{finds_old_names}', encoding="utf-8")
    (below / "py.typed").touch()
    modules = modules_of(frozenset(packages))
    for file in sorted(folder.rglob("*.py")):
        file.write_text(rewritten(file.read_text(encoding="utf-8"), modules), encoding="utf-8")


def _copy(package: str, pattern: str, into: Path) -> None:
    source = ROOT / package.replace(".", "/")
    for file in source.glob(pattern):
        _copy_file(file, into)


def _copy_file(file: Path, into: Path) -> None:
    target = into / file.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def shown_files() -> list[Path]:
    """The files of `SHOWN`."""
    files = (file for pattern in SHOWN for file in ROOT.glob(pattern))
    return sorted(file for file in files if file.is_file() and "__pycache__" not in file.parts)


def rewritten(text: str, modules: Set[str]) -> str:
    """A file with the names of these modules below `rlab`.

    Raises:
        SyntaxError: the text is not Python.
    """
    source = text.encode()
    for edit in sorted(_Rewriting(text, modules).edits(), reverse=True):
        source = source[: edit.start] + edit.text.encode() + source[edit.end :]
    return source.decode()


def modules_of(packages: Set[str], root: Path = ROOT) -> frozenset[str]:
    """The modules in folders of the repository, packages included."""
    modules = set(packages)
    for package in packages:
        modules.update(f"{package}.{file.stem}" for file in (root / package.replace(".", "/")).glob("*.py"))
    return frozenset(name for name in modules if not name.endswith(".__init__"))


class _Rewriting:
    """The edits of one file."""

    def __init__(self, text: str, modules: Set[str]) -> None:
        self._modules = modules
        self._tops = {name.partition(".")[0] for name in modules}
        self._source = text.encode()
        lines = [len(line.encode()) for line in text.splitlines(keepends=True)]
        self._line_starts = [0, *accumulate(lines)]
        self._tree = ast.parse(text)

    def edits(self) -> Iterator[_Edit]:
        """All edits, unordered."""
        nodes = list(ast.walk(self._tree))
        left = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
        left.update(id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values)
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.level == 0 and self._is_ours(node.module or ""):
                yield self._prefix(node, node.module or "", len("from "))
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if self._is_ours(alias.name):
                        yield self._import(alias, node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left:
                yield from self._text(node, node.value)

    def _is_ours(self, name: str) -> bool:
        return name.partition(".")[0] in self._tops

    def _at(self, line: int | None, column: int | None) -> int:
        assert line is not None, "ast.parse gives each node its position"
        assert column is not None, "ast.parse gives each node its position"
        return self._line_starts[line - 1] + column

    def _prefix(self, node: ast.stmt | ast.expr, name: str, after: int) -> _Edit:
        start = self._source.index(name.encode(), self._at(node.lineno, node.col_offset) + after)
        return _Edit(start, start, f"{NAME}.")

    def _import(self, alias: ast.alias, statement: ast.Import) -> _Edit:
        """`import a.b` binds `a`, so the edit imports the name below `rlab`, and then binds `a`.

        Raises:
            SyntaxError: the statement imports several modules, which leaves no place for the second statement.
        """
        start = self._at(alias.lineno, alias.col_offset)
        if alias.asname:
            return _Edit(start, start, f"{NAME}.")
        if len(statement.names) > 1:
            raise SyntaxError(f"import {alias.name} in a statement of its own (line {alias.lineno})")
        top, dot, _ = alias.name.partition(".")
        binding = f"from {NAME} import {top}"
        text = f"import {NAME}.{alias.name}; {binding}" if dot else binding
        start = self._at(statement.lineno, statement.col_offset)
        return _Edit(start, self._at(alias.end_lineno, alias.end_col_offset), text)

    def _text(self, node: ast.Constant, value: str) -> Iterator[_Edit]:
        start, end = self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)
        if _DOTTED.fullmatch(value):
            if ".".join(value.split(".")[:2]) in self._modules and value.encode() in self._source[start:end]:
                yield self._prefix(node, value, 0)
        elif "import " in value and (programme := _programme(value, self._modules)) != value:
            yield _Edit(start, end, repr(programme))


def _programme(text: str, modules: Set[str]) -> str:
    """A text that is a program for Python, rewritten; any other text unchanged."""
    try:
        return rewritten(text, modules)
    except SyntaxError:
        return text
