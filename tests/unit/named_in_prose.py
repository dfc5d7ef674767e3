"""The prose of the project (docstrings, comments, pages), and an index of the code whose names it uses."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.docs.pages import PAGES, prose_of
from tests.unit.source_tree import PACKAGES, ROOT, Source, parse, sources, texts

COMMENT = re.compile(r"(?:^|(?<=\s))(?:#|//|/\*\*?)\s+(.*)")
WORD = re.compile(r"\w+")
COMMENTED = {".css", ".js", ".toml", ".yml"}
TOPS = {package.partition(".")[0] for package in PACKAGES} | {"tests", "tools", "examples"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A docstring, a comment or a page: where it is, and its text."""

    path: str
    line: int
    text: str

    @property
    def folder(self) -> str:
        return PurePosixPath(self.path).parent.as_posix()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def docstrings(source: Source) -> Iterator[ast.Constant]:
    """The strings that stand alone, so those of attributes too."""
    for node in source.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def prose_of_source(source: Source) -> Iterator[Prose]:
    for node in docstrings(source):
        yield Prose(path=source.path, line=node.lineno, text=str(node.value))
    yield from _comments(source.path, source.text)


def _comments(path: str, text: str) -> Iterator[Prose]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := COMMENT.search(line):
            yield Prose(path=path, line=number, text=found[1])


@functools.cache
def python_files() -> list[Source]:
    """Every Python file: also those of tools, examples and the top folder."""
    known = {source.path: source for source in sources()}
    return [known.get(path) or parse(path, text) for path, text in texts().items() if path.endswith(".py")]


@functools.cache
def prose() -> list[Prose]:
    """All of it; of pages without their code blocks."""
    found = [each for source in python_files() for each in prose_of_source(source)]
    found += [Prose(path=page, line=1, text=prose_of(page)) for page in PAGES]
    for path, text in texts().items():
        if PurePosixPath(path).suffix in COMMENTED or path in ("Dockerfile", "Makefile"):
            found += _comments(path, text)
    return found


@functools.cache
def files() -> frozenset[str]:
    """Files and folders, from the top folder."""
    found = set(texts())
    for folder in TOPS | {"docs", "pictures", "typings", "rlab"}:
        found |= {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*")}
    return frozenset(found | {parent.as_posix() for path in found for parent in Path(path).parents})


class Code:
    """Names that Python files define and use."""

    def __init__(self, of: Iterable[Source]) -> None:
        self._classes: dict[str, list[tuple[str, set[str], list[str]]]] = defaultdict(list)
        """Of each name of a class: file, members and bases."""
        self._words: dict[str, frozenset[str]] = {}
        self._defined: dict[str, set[str]] = {}
        for source in of:
            self._words[source.path] = frozenset(WORD.findall(_without_prose(source)))
            is_door = source.path.endswith("/__init__.py")
            self._defined[source.path] = {
                name
                for node in source.tree.body
                if is_door or not isinstance(node, ast.Import | ast.ImportFrom)
                for name in _bound_by(node)
            }
            for node in source.nodes:
                if isinstance(node, ast.ClassDef):
                    members = _members(node)
                    self._defined[source.path] |= members | {node.name}
                    self._classes[node.name].append((source.path, members, _bases(node)))

    def uses(self, word: str) -> bool:
        """Whether a file uses a word outside its prose."""
        return any(word in words for words in self._words.values())

    def defines(self, path: str, name: str) -> bool:
        """Whether a file defines a name, or a class with such a method or attribute of its own (`Class.member`).

        A word as any other, as the name of an option, counts if the file uses it.
        """
        owner, _, member = name.rpartition(".")
        if owner:
            return self._has(owner, member, path)
        return name in self._defined[path] or (name.isalpha() and name.islower() and name in self._words[path])

    def has_member(self, name: str, member: str) -> bool:
        """Whether a class, or one that it extends, has a member."""
        return self._has(name, member, "")

    def _has(self, name: str, member: str, only_in: str) -> bool:
        return any(
            member in members or any(self._has(base, member, only_in) for base in bases)
            for path, members, bases in self._classes.get(name, ())
            if path.startswith(only_in)
        )


def _without_prose(source: Source) -> str:
    lines = source.text.splitlines()
    for node in docstrings(source):
        lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(COMMENT.sub("", line) for line in lines)


def _bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


def _members(node: ast.ClassDef) -> set[str]:
    of_self = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
    }
    return of_self | {name for each in node.body for name in _bound_by(each)}


def _bound_by(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Assign():
            return {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Import() | ast.ImportFrom():
            return {each.asname or each.name.partition(".")[0] for each in node.names}
        case ast.If() | ast.Try():
            return {name for each in node.body for name in _bound_by(each)}
        case _:
            return set()


@functools.cache
def code() -> Code:
    """The names of all Python files."""
    return Code(python_files())
