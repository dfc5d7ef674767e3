"""Runs a notebook cell by cell in one namespace, and shows the value of a cell's last line, as Jupyter does.

It has none of the additions of IPython: a notebook of this project is plain Python.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from process.output import print_line


def show(value: object) -> None:
    """Print the value of a cell, if it has one."""
    if value is not None:
        print_line(str(value))


async def run(name: str, cells: list[dict[str, Any]]) -> None:
    """Run all cells; in an event loop that runs, as there is one in the thread of Jupyter."""
    names: dict[str, Any] = {"__name__": "__main__", "_show": show}
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        source, place = "".join(cell["source"]), f"{name}, cell {cell['id']}"
        tree = ast.parse(source, place)
        last = tree.body[-1]
        if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
            shown = ast.Call(ast.Name("_show", ast.Load()), [last.value], [])
            tree.body[-1] = ast.copy_location(ast.Expr(shown), last)
        exec(compile(ast.fix_missing_locations(tree), place, "exec"), names)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    asyncio.run(run(file.name, json.loads(file.read_text(encoding="utf-8"))["cells"]))
