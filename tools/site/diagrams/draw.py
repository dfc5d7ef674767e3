"""Draws a diagram of a page, whatever its kind. Pure.

draw("sequenceDiagram ...")     the element of the page
"""

from __future__ import annotations

from tools.site.diagrams.graph import read_flow, read_states
from tools.site.diagrams.layers import draw_graph
from tools.site.diagrams.marks import NotDrawable
from tools.site.diagrams.sequence import draw_sequence


def draw(source: str) -> str:
    """Return the element of a page.

    Raises:
        NotDrawable: the text has a line or a kind that the site does not draw.
    """
    kind, *lines = [line.strip() for line in source.splitlines() if line.strip()] or [""]
    if kind == "sequenceDiagram":
        return draw_sequence(lines)
    if kind == "flowchart LR":
        return draw_graph(read_flow(lines))
    if kind == "stateDiagram-v2":
        return draw_graph(read_states(lines))
    raise NotDrawable(
        f"{kind!r} is not a kind of diagram that the site draws: sequenceDiagram, flowchart LR and stateDiagram-v2 are"
    )
