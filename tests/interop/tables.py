"""The tables of docs/rocketmq.md: each feature with each client, and each client with each kind of servers."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "rocketmq.md"
FEATURES, PAIRS = "<!-- interop: client x feature -->", "<!-- interop: client x servers -->"
OUTWARD, LIVES = "<!-- interop: our client x servers -->", "<!-- interop: lives of a group -->"
END = "<!-- end -->"
Table = dict[str, dict[str, str]]
"""Column -> row -> cell."""


def table_in(page: str, begin: str) -> Table:
    """A table of the page."""
    lines = page.partition(begin)[2].partition(END)[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if not rows:
        return {}
    columns, cells = rows[0][1:], rows[2:]
    return {column: {row[0]: row[n] for row in cells} for n, column in enumerate(columns, 1)}


def table_of(found: Table, corner: str) -> str:
    """A table of Markdown; a cell that nobody ran says so."""
    names = dict.fromkeys(name for cells in found.values() for name in cells)
    lines = [f"| {corner} | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for name in names:
        lines.append(f"| {name} | " + " | ".join(cells.get(name, "not run") for cells in found.values()) + " |")
    return "\n".join(lines)


def summary(outcomes: dict[str, str]) -> str:
    """A cell about all features of a client: how many went well, and the names of the others."""
    others = [name for name, outcome in outcomes.items() if outcome != "ok"]
    counted = f"{len(outcomes) - len(others)} of {len(outcomes)}"
    return f"{counted}; not: {', '.join(others)}" if others else counted


def turned(table: Table) -> Table:
    """The same with rows as columns."""
    columns = dict.fromkeys(name for cells in table.values() for name in cells)
    return {column: {row: cells[column] for row, cells in table.items() if column in cells} for column in columns}


def write(found: Table, begin: str, corner: str) -> None:
    """Write what was run into the page; columns and rows that were not run now stay."""
    page = PAGE.read_text()
    before, _, rest = page.partition(begin)
    known = table_in(page, begin)
    merged = {column: {**known.get(column, {}), **found.get(column, {})} for column in {**known, **found}}
    PAGE.write_text(before + begin + "\n" + table_of(merged, corner) + "\n" + END + rest.partition(END)[2])
