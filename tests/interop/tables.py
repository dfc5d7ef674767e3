"""The tables of docs/rocketmq.md: each feature with each client, and each client with each kind of servers."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "rocketmq.md"
FEATURES, PAIRS = "<!-- interop: client x feature -->", "<!-- interop: client x servers -->"
OUTWARD, LIVES = "<!-- interop: our client x servers -->", "<!-- interop: lives on {} -->"
GRPC = "<!-- interop: gRPC clients on {} -->"
RATES = "<!-- interop: rates beside Java -->"
GRPC_SENDS = "<!-- interop: sends over gRPC -->"
END = "<!-- end -->"
Table = dict[str, dict[str, str]]
"""Column -> row -> cell."""
_BY_BROKER = ("assignment by the broker", "POP")
_WITHOUT: dict[str, tuple[str, ...]] = {
    "Go 5": ("recall", "body of 4 MiB"),
    "Node.js 1": ("body of 4 MiB",),
    "Java 4": _BY_BROKER,
    "Go": ("mqadmin", "lite pull", "SQL filter, a wrong one", *_BY_BROKER),
    "C++": ("mqadmin", "lite pull", "transaction", "consume from", "SQL", "dead letter", *_BY_BROKER),
    "Node.js": (
        *("mqadmin", "lite pull", "pull consumer", "transaction", "SQL", "send async", "send one-way", "batch"),
        *("orderly", "order by", *_BY_BROKER),
    ),
}
"""Clients by how their names begin -> how the names of features begin that they do not have.

The gRPC clients for Go and Node.js receive 4 MiB at most, which is less than a body of 4 MiB and its message.
"""
_NOT_RUN, _NONE = "not run", "–"


def table_in(page: str, begin: str) -> Table:
    """A table of the page."""
    lines = page.partition(begin)[2].partition(END)[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if not rows:
        return {}
    columns, cells = rows[0][1:], rows[2:]
    return {
        column: {row[0]: row[n] for row in cells if row[n] not in (_NOT_RUN, _NONE)}
        for n, column in enumerate(columns, 1)
    }


def table_of(found: Table, corner: str) -> str:
    """A table of Markdown; a cell that nobody ran says so."""
    names = dict.fromkeys(name for cells in found.values() for name in cells)
    lines = [f"| {corner} | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    for name in names:
        said = (cells.get(name) or _empty(column, name) for column, cells in found.items())
        lines.append(f"| {name} | " + " | ".join(said) + " |")
    return "\n".join(lines)


def _empty(client: str, feature: str) -> str:
    without = (names for begin, names in _WITHOUT.items() if client.startswith(begin))
    return _NONE if feature.startswith(next(without, (_NOT_RUN,))) else _NOT_RUN


def summary(outcomes: dict[str, str]) -> str:
    """A cell about all features of a client: how many went well, and the names of the others."""
    others = [name for name, outcome in outcomes.items() if outcome != "ok"]
    counted = f"{len(outcomes) - len(others)} of {len(outcomes)}"
    return f"{counted}; not: {', '.join(others)}" if others else counted


def write(found: Table, begin: str, corner: str) -> None:
    """Write what was run into the page; columns and rows that were not run now stay."""
    page = PAGE.read_text()
    before, _, rest = page.partition(begin)
    known = table_in(page, begin)
    merged = {column: {**known.get(column, {}), **found.get(column, {})} for column in {**known, **found}}
    PAGE.write_text(before + begin + "\n" + table_of(merged, corner) + "\n" + END + rest.partition(END)[2])
