"""Prints the tables of docs/metrics.md: `python -m rlab.metrics.page`."""

from __future__ import annotations

from metrics import families
from metrics.families import Family, Kind

_PARTS = {
    "Every server": ("INFO", "WAITING_REQUESTS"),
    "Name servers": ("BROKERS", "ROUTES"),
    "Brokers: messages and storage": ("MESSAGES_STORED", "DISK_FULL"),
    "Brokers: groups": ("MEMBERS", "PRODUCERS"),
    "Clients": ("OWNED_QUEUES", "PASSES"),
    "The exporter": ("GROUP_MEMBERS", "TRACE_MISSING"),
}
"""Title of a table -> the names of its first and last metric in `families.py`."""


def tables() -> str:
    """Return the tables, one for each part."""
    names = [name for name, value in vars(families).items() if isinstance(value, Family)]
    lines: list[str] = []
    for title, ends in _PARTS.items():
        first, last = names.index(ends[0]), names.index(ends[-1])
        lines += [f"## {title}", "", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
        lines += [_row(getattr(families, name)) for name in names[first : last + 1]]
        lines.append("")
    return "\n".join(lines)


def _row(family: Family) -> str:
    shown = family.name if family.kind is Kind.HISTOGRAM else family.sample_name
    return f"| `{shown}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} | {family.help} |"


if __name__ == "__main__":
    print(tables(), end="")  # noqa: T201
