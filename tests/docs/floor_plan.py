"""Draws the floor plans of docs/architecture.md from `rooms.toml` and from the first sentences of the rooms.

    python -m tests.docs.floor_plan > docs/architecture.md.new       # prints the whole page, with its plans drawn anew

A test compares the page with what this draws, so that it cannot show a house that is not there.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from pathlib import Path

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "architecture.md"
PLAN = re.compile(r"(<!-- plan: ([\w.]+) -->\n)```text\n.*?```\n", re.DOTALL)
WIDTH = 118


def floors(container: str) -> list[list[str]]:
    """The rooms of a package or folder, the top floor first."""
    contracts = tomllib.loads((ROOT / "rooms.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each.get("containers") == [container]]
    return [[room.strip(" ()") for room in re.split(r"[|:]", layer)] for layer in layers]


def first_sentence(module: str) -> str:
    """What a room or a file says that it is."""
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    words = " ".join(docstring.partition("\n\n")[0].split()).removesuffix(" Pure.")
    return re.split(r"(?<=[.:;])\s(?=[A-Z])", words)[0].rstrip(".")


def plan(container: str) -> str:
    """The floors of a package as text: every room imports only from floors below its own."""
    rows: list[str] = []
    table = floors(container)
    indent = 4 + max(len(room) for floor in table for room in floor) + 3
    for number, floor in zip(range(len(table), 0, -1), table, strict=True):
        for room in sorted(floor):
            path = ROOT / container.replace(".", "/") / room
            name = f"{room}/" if path.is_dir() else room
            said = textwrap.wrap(first_sentence(f"{container}.{room}"), WIDTH - indent)
            label = f"{number:>2}" if room == sorted(floor)[0] else "  "
            rows.append(f"{label}  {name:<{indent - 4}}{said[0]}")
            rows.extend(" " * indent + line for line in said[1:])
    return "\n".join(rows) + "\n"


def drawn(page: str) -> str:
    """A page with its plans drawn anew."""
    return PLAN.sub(lambda found: f"{found[1]}```text\n{plan(found[2])}```\n", page)


if __name__ == "__main__":
    sys.stdout.write(drawn(Path(PAGE).read_text(encoding="utf-8")))
