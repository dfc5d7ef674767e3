"""A what-if as an HTML page: the recommendation, the picture, and the configurations as a table. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #ddd; text-align: left }
td.n, th.n { text-align: right } img { max-width: 100% } .lead { font-size: 17px; max-width: 70ch }
"""


def whatif_page(
    title: str, advice: str, picture: bytes, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> str:
    """Return the page, which needs no other file; names of number columns begin with ">", `picture` is a PNG."""
    kinds = [' class="n"' if column.startswith(">") else "" for column in columns]
    head = "".join(f"<th{kind}>{escape(column.lstrip('>'))}</th>" for kind, column in zip(kinds, columns, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>\n'
        f'<h1>What if</h1><p>{escape(title)}</p>\n<p class="lead">{escape(advice)}</p>\n'
        f'<img alt="costs of the configurations" src="data:image/png;base64,{b64encode(picture).decode()}">\n'
        f"<table><tr>{head}</tr>\n{body}\n</table>\n"
        + "".join(f"<p>{escape(note)}</p>\n" for note in notes)
        + "</html>\n"
    )
