"""Texts, boxes and arrows of diagrams, and the picture that holds them. Pure.

The colours are those of the text around a picture, so they follow the light or the dark mode of a page.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape

LINE_PX = 17
CHAR_PX = 7.5
"""The width of a letter of 13 px, on the safe side."""
_STYLE = (
    ".diagram{max-width:100%;height:auto;min-width:520px;font:13px var(--md-text-font-family,sans-serif)}"
    ".diagram text{fill:currentColor;text-anchor:middle}"
    ".diagram .back{fill:var(--md-default-bg-color,#fff)}"
    ".diagram .box,.diagram .note{fill:currentColor;fill-opacity:.06;stroke:currentColor;stroke-opacity:.4}"
    ".diagram .note{stroke-dasharray:2 3}.diagram .life{stroke:currentColor;stroke-opacity:.25}"
    ".diagram .way{fill:none;stroke:currentColor;stroke-width:1.3}.diagram .dashed{stroke-dasharray:5 4}"
    ".diagram .tip{fill:currentColor}"
)


class NotDrawable(ValueError):
    """A diagram has a line that is not in the part of the language that the site draws."""


def wrapped(content: str, most_chars: int) -> list[str]:
    """Return the lines of a text; words stay whole."""
    return textwrap.wrap(content, most_chars, break_long_words=False) or [""]


def width_of(lines: Iterable[str]) -> float:
    """Return the width of the longest line."""
    return max(map(len, lines)) * CHAR_PX


def text(x: float, y: float, lines: Sequence[str]) -> str:
    """Draw lines around a middle."""
    top = y - (len(lines) - 1) * LINE_PX / 2 + 4.5
    rows = (f'<text x="{x:.1f}" y="{top + n * LINE_PX:.1f}">{escape(line)}</text>' for n, line in enumerate(lines))
    return "".join(rows)


def label(x: float, y: float, lines: Sequence[str]) -> str:
    """Draw lines over whatever is behind them."""
    return box(x, y, width_of(lines) + 10, len(lines) * LINE_PX, "back") + text(x, y, lines)


def box(x: float, y: float, width: float, height: float, style: str = "box") -> str:
    """Draw a box around a middle."""
    geometry = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {geometry} rx="5" class="{style}"/>'


def way(path: str, *, dashed: bool = False) -> str:
    """Draw the line of an arrow, along an SVG path."""
    return f'<path d="{path}" class="way{" dashed" if dashed else ""}" marker-end="url(#tip)"/>'


def picture(width: float, height: float, spoken: str, parts: Iterable[str]) -> str:
    """Return the element of a page; `spoken` is what a screen reader reads."""
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0.5L8 4L0 7.5z" class="tip"/></marker>'
    )
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    start = f'<svg class="diagram" {size} role="img" aria-label="{escape(spoken)}">'
    drawn = f"{start}<style>{_STYLE}</style><defs>{tip}</defs>{''.join(parts)}</svg>"
    return f'<div style="overflow-x:auto">{drawn}</div>'
