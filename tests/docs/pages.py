"""Reads the pages of the documentation: their tables, their links, their code blocks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))

_CODE_BLOCK = re.compile(r"^```(\w*)(?: [^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose_of(page: str) -> str:
    """A page without its code blocks."""
    return _CODE_BLOCK.sub("", text_of(page))


def code_blocks(page: str, language: str) -> list[str]:
    return [code for found, code in _CODE_BLOCK.findall(text_of(page)) if found == language]


def table_of(page: str, heading: str | None) -> list[dict[str, str]]:
    """The rows of the table below a heading, by the names of its columns; backticks around a whole cell are dropped.

    Args:
        page: path of the page.
        heading: one of the second level; None for what comes before the first of them.
    """
    text = text_of(page)
    section = text if heading is None else text.split(f"\n## {heading}\n", 1)[1]
    section = section.split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    columns, _, *rows = (_cells(line) for line in lines)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _cells(line: str) -> list[str]:
    cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    return [cell.strip("`") if re.fullmatch(r"`[^`]*`", cell) else cell for cell in cells]


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
