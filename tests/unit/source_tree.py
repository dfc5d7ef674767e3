"""The files of the repository, read once for all tests of its style: their texts and their syntax trees."""

from __future__ import annotations

import ast
import functools
import gc
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pipeline.python_worker import no_search_for_cycles

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: list[str] = PYPROJECT["tool"]["setuptools"]["packages"]
PURE_MODULES: list[str] = next(
    contract["source_modules"]
    for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
    if contract["id"] == "pure"
)

TEXT_SUFFIXES = {".css", ".html", ".js", ".md", ".py", ".pyi", ".sh", ".toml", ".txt", ".yaml", ".yml"}
TEXT_NAMES = {".dockerignore", ".gitignore", "Dockerfile", "Makefile", "run"}
GENERATED = {ROOT / name for name in ("build", "dist", "labs", "report", "rlab-data")}
"""Left out, as hidden folders other than .ci are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One Python file: its path from the top folder, its text, its syntax tree, and every node of that."""

    path: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]


def parse(path: str, text: str) -> Source:
    tree = ast.parse(text, path)
    return Source(path=path, text=text, tree=tree, nodes=tuple(ast.walk(tree)))


@functools.cache
def texts() -> dict[str, str]:
    """Every text file of the repository by its path from the top folder."""
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(
            name
            for name in folders
            if name == ".ci"
            or not (
                name.startswith((".", "__pycache__")) or name.endswith(".egg-info") or Path(folder, name) in GENERATED
            )
        )
        for name in sorted(names):
            if name in TEXT_NAMES or Path(name).suffix in TEXT_SUFFIXES:
                path = Path(folder, name)
                found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    return found


@functools.cache
def sources() -> list[Source]:
    """Every Python file of the installed packages and of the tests."""
    tops = {package.partition(".")[0] for package in PACKAGES} | {"tests"}
    with no_search_for_cycles():
        found = [
            parse(path, text) for path, text in texts().items() if path.endswith(".py") and path.split("/")[0] in tops
        ]
    gc.freeze()  # millions of nodes that stay: no collection of a later test looks at them
    return found


@functools.cache
def shipped() -> list[Source]:
    """Every Python file of the installed packages."""
    return [source for source in sources() if not source.path.startswith("tests/")]
