"""Prints docs/metrics.md with its current tables: `python -m metrics.page`."""

from __future__ import annotations

from pathlib import Path

from metrics import families
from metrics.families import Family, Kind

_PAGE = Path("docs", "metrics.md")
_MARK = "<!-- made by: python -m metrics.page -->\n\n"
_PARTS = {
    "INFO": "Every server",
    "BROKERS": "Name servers",
    "MESSAGES_STORED": "Brokers: messages and storage",
    "REPLICA_ROLE": "Brokers: copies",
    "MEMBERS": "Brokers: groups",
    "OWNED_QUEUES": "Clients",
    "GROUP_MEMBERS": "The exporter",
}
"""The name in `families.py` of the first metric of each table -> its title."""


def tables() -> str:
    """Return the tables, one for each part."""
    lines: list[str] = []
    for name, value in vars(families).items():
        if title := _PARTS.get(name):
            lines += ["", f"## {title}", "", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
        if isinstance(value, Family):
            lines.append(_row(value))
    return "\n".join([*lines[1:], ""])


def _row(family: Family) -> str:
    name = family.name if family.kind is Kind.HISTOGRAM else family.sample_name
    return f"| `{name}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} | {family.help} |"


if __name__ == "__main__":
    print(_PAGE.read_text(encoding="utf-8").partition(_MARK)[0] + _MARK + tables(), end="")  # noqa: T201
