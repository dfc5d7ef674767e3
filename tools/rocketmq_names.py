"""Makes docs/rocketmq-names.md: RocketMQ's classes and methods from A to Z, each with its place in this project.

    python -m tools.rocketmq_names > docs/rocketmq-names.md

A docstring names its counterpart after "RocketMQ:", and each name in that sentence becomes a row.
`rocketmq_names.toml` has the names that no docstring has: names of fields and arguments, and names without a place
here, with the reason.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("model", "remoting", "namesrv", "broker", "client", "rocketmq", "examples/core")
_NOTE = re.compile(r"RocketMQ: (.+?)(?:\.(?=\s+[A-Z])|\.?$)", re.DOTALL)
_NAME = re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:_[A-Z0-9]+)*(?:\.[a-z]\w*)?")
_LIKE_CODE = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|_[A-Z]|\.[a-z]|MQ")

_OF_OTHERS = frozenset({"APIs", "Double", "Integer", "Long", "MiB", "OWN_ATTEMPTS", "RocketMQ", "gRPC", "jj"})
"""Words of such sentences that look like names of RocketMQ, and are words of Java, of this project or of prose."""
_FILE = re.compile(r"\.(json|proto|py)$|^service\.")

BY_HAND: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def noted() -> Iterator[tuple[str, str]]:
    """Each name after "RocketMQ:" in a docstring, with the place of that docstring."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = file.relative_to(ROOT).as_posix()
            yield from _noted_in(ast.parse(file.read_text(encoding="utf-8")), path, "")


def _noted_in(node: ast.AST, path: str, owner: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        qualified = "" if isinstance(node, ast.Module) else f"{owner}.{node.name}".lstrip(".")
        location = f"`{path}`: `{qualified}`" if qualified else f"`{path}`"
        for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
            for note in _NOTE.findall(" ".join(paragraph.split())):
                for name in names_in(note):
                    yield name, location
        owner = qualified
    for child in ast.iter_child_nodes(node):
        yield from _noted_in(child, path, owner)


def names_in(note: str) -> Iterator[str]:
    """The names of code in a sentence; for `RebalanceImpl.lock` both parts."""
    for name_found in _NAME.findall(note):
        if _LIKE_CODE.search(name_found) and not _FILE.search(name_found):
            yield from (name for name in name_found.split(".") if name not in _OF_OTHERS)


@cache
def places() -> dict[str, list[str]]:
    """The places of each name, in the order of names without regard to case."""
    by_name: dict[str, dict[str, None]] = {name: {text: None} for name, text in BY_HAND.items()}
    for name, location in noted():
        if name not in BY_HAND:
            by_name.setdefault(name, {})[location] = None
    return {name: _one_a_file(by_name[name]) for name in sorted(by_name, key=lambda name: (name.lower(), name))}


def _one_a_file(where: Iterable[str]) -> list[str]:
    """The first place in each file, at most three of them."""
    files = {location.partition(":")[0]: location for location in reversed(list(where))}
    return list(files.values())[::-1][:3]


def page() -> str:
    """The page."""
    rows = "\n".join(f"| {name} | {'; '.join(where)} |" for name, where in places().items())
    return f"""# RocketMQ's names, A to Z

RocketMQ's classes, methods and constants, each with its place in this project, or the reason why it has none. The page
is made from the notes in docstrings (`python -m tools.rocketmq_names`); a test compares them. How the two differ is in
[rocketmq.md](rocketmq.md), and the mechanism alone, under these names, in `examples/core/`.

| RocketMQ's name | here |
|---|---|
{rows}
"""


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201
