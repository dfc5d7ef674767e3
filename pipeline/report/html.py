"""The document of a page, and its tables. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from pictures.assets import bundle_scripts
from pipeline.report.style import STYLE

_SCRIPT = bundle_scripts(("dom.js", "canvas.js", "palette.js", "history.js", "timeline.js", "report.js"))


def document(title: str, body: str, pictures: Sequence[dict[str, Any]]) -> str:
    """Return the file: it loads nothing, and runs no other script."""
    # Only "</" could end the element, and any user can choose names of groups and clients.
    data = json.dumps(pictures, separators=(",", ":")).replace("<", "\\u003c")
    allowed = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f'<body><main>{body}</main><script type="application/json" id="pictures">{data}</script>'
        f'<script type="module">{_SCRIPT}</script></body></html>\n'
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a head that begins with a star marks a column of numbers."""
    numbers = [head.startswith("*") for head in heads]
    names = [head.lstrip("*") for head in heads]

    def cells(tag: str, values: Iterable[str]) -> str:
        # On a narrow page the cells of a row are below each other, each after its head.
        return "".join(
            f'<{tag}{" class=" + chr(34) + "n" + chr(34) if number else ""} data-head="{escape(name)}">{value}</{tag}>'
            for value, number, name in zip(values, numbers, names, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells("th", names)}</tr></thead><tbody>{body}</tbody></table></div>'
