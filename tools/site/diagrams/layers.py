"""Places the nodes of a graph in layers from left to right, and draws its edges. Pure.

A node stands behind all from which edges lead to it; an edge that would close a circle leads back. Of two nodes with
edges both ways, the one bows up and the other down; an edge to the node itself is a loop above it, and an edge over a
layer passes above or below the nodes between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tools.site.diagrams.graph import START, Edge, Graph
from tools.site.diagrams.marks import LINE_PX, box, label, picture, text, way, width_of, wrapped

_LABEL_CHARS, _LOOP_CHARS = 20, 26
_ROW_PX, _BOX_PX, _BOW_PX, _LOOP_PX, _OVER_PX = 140.0, 34.0, 58.0, 46.0, 100.0
_DOT_PX, _APART_PX = 12.0, 5.0

Point = tuple[float, float]
Rect = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The line of an edge as an SVG path, and its label with the middle of its place."""

    path: str
    middle: Point
    lines: tuple[str, ...]
    dashed: bool

    @property
    def rect(self) -> Rect:
        """The place of the label."""
        return _rect(self.middle, width_of(self.lines), len(self.lines) * LINE_PX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Nodes with middle and size, and the ways of the edges."""

    middles: Mapping[str, Point]
    widths: Mapping[str, float]
    ways: tuple[Way, ...]

    def rects(self) -> Iterator[Rect]:
        """The places of nodes and labels, which must not cover each other."""
        for node, middle in self.middles.items():
            yield _rect(middle, self.widths[node], _DOT_PX if node == START else _BOX_PX)
        yield from (each.rect for each in self.ways if each.lines != ("",))


def draw_graph(graph: Graph) -> str:
    """Return the element of a page."""
    layout = lay_out(graph)
    rects = list(layout.rects())
    left, top = min(each[0] for each in rects) - 8, min(each[1] for each in rects) - 8
    width, height = max(each[2] for each in rects) + 8 - left, max(each[3] for each in rects) + 8 - top
    marks = [f'<g transform="translate({-left:.1f} {-top:.1f})">']
    marks += [way(each.path, dashed=each.dashed) for each in layout.ways]
    for node, (x, y) in layout.middles.items():
        if node == START:
            marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_DOT_PX / 2}" class="tip"/>')
        else:
            marks.append(box(x, y, layout.widths[node], _BOX_PX) + text(x, y, [graph.names[node]]))
    marks += [label(*each.middle, each.lines) for each in layout.ways if each.lines != ("",)]
    spoken = "; ".join(
        f"{graph.names[each.start] or 'the start'} to {graph.names[each.end]}{': ' * bool(each.label)}{each.label}"
        for each in graph.edges
    )
    return picture(width, height, spoken, [*marks, "</g>"])


def lay_out(graph: Graph) -> Layout:
    """Return the places of nodes, labels and lines."""
    layers = layers_of(graph)
    widths = {
        node: _DOT_PX if node == START else max(70.0, width_of([name]) + 26) for node, name in graph.names.items()
    }
    middles: dict[str, Point] = {}
    x = 0.0
    for layer in range(max(layers.values()) + 1):
        nodes = [node for node in graph.names if layers[node] == layer]
        wide = max(widths[node] for node in nodes)
        for n, node in enumerate(nodes):
            middles[node] = (x + wide / 2, (n - (len(nodes) - 1) / 2) * _ROW_PX)
        x += wide + _gap_after(layer, graph, layers)
    ways = [_way_of(edge, graph, middles, widths, layers) for edge in graph.edges]
    return Layout(middles=middles, widths=widths, ways=tuple(ways))


def layers_of(graph: Graph) -> dict[str, int]:
    """Return the layer of each node, from 0 at the left."""
    forward: list[Edge] = []
    for edge in graph.edges:
        if edge.start not in _reached(edge.end, forward):
            forward.append(edge)
    layers = dict.fromkeys(graph.names, 0)
    for _ in layers:
        for edge in forward:
            layers[edge.end] = max(layers[edge.end], layers[edge.start] + 1)
    return layers


def _reached(node: str, edges: list[Edge]) -> set[str]:
    reached, waiting = {node}, [node]
    while waiting:
        current = waiting.pop()
        more = {edge.end for edge in edges if edge.start == current} - reached
        reached |= more
        waiting += more
    return reached


def _gap_after(layer: int, graph: Graph, layers: Mapping[str, int]) -> float:
    labels = [
        wrapped(edge.label, _LABEL_CHARS)
        for edge in graph.edges
        if sorted((layers[edge.start], layers[edge.end])) == [layer, layer + 1]
    ]
    return max([60.0, *(width_of(lines) + 84 for lines in labels if lines != [""])])


def _way_of(
    edge: Edge, graph: Graph, middles: Mapping[str, Point], widths: Mapping[str, float], layers: Mapping[str, int]
) -> Way:
    start, end = middles[edge.start], middles[edge.end]
    if edge.start == edge.end:
        return _loop(edge, start)
    if abs(layers[edge.start] - layers[edge.end]) > 1:
        return _around(edge, start, end)
    side = -1 if start[0] > end[0] else 1
    x1, x2 = start[0] + side * widths[edge.start] / 2, end[0] - side * widths[edge.end] / 2
    both = any(other.start == edge.end and other.end == edge.start for other in graph.edges)
    bow, apart = (-side * _BOW_PX, -side * _APART_PX) if both else (0.0, 0.0)
    x, y = (x1 + x2) / 2, (start[1] + end[1]) / 2
    path = _path("M", x1, start[1] + apart) + _path("Q", x, y + bow, x2, end[1] + apart)
    lines = tuple(wrapped(edge.label, _LABEL_CHARS))
    return Way(path=path, middle=(x, y + bow / 2), lines=lines, dashed=edge.dashed)


def _loop(edge: Edge, middle: Point) -> Way:
    x, top, lines = middle[0], middle[1] - _BOX_PX / 2, tuple(wrapped(edge.label, _LOOP_CHARS))
    high = top - _LOOP_PX
    path = _path("M", x - 16, top) + _path("C", x - 44, high, x + 44, high, x + 16, top)
    return Way(path=path, middle=(x, high - len(lines) * LINE_PX / 2 + 6), lines=lines, dashed=edge.dashed)


def _around(edge: Edge, start: Point, end: Point) -> Way:
    """Above all nodes between, or below them if it starts in the lower half."""
    beyond = 1 if start[1] > 0 else -1
    y1, y2 = start[1] + beyond * _BOX_PX / 2, end[1] + beyond * _BOX_PX / 2
    bend = beyond * (_OVER_PX + max(beyond * y1, beyond * y2))
    path = _path("M", start[0], y1) + _path("C", start[0] + 40, bend, end[0] - 40, bend, end[0], y2)
    middle = ((start[0] + end[0]) / 2, (y1 + y2) / 8 + 0.75 * bend)
    return Way(path=path, middle=middle, lines=(edge.label,), dashed=edge.dashed)


def _path(letter: str, *numbers: float) -> str:
    return letter + " ".join(f"{each:.1f}" for each in numbers)


def _rect(middle: Point, width: float, height: float) -> Rect:
    return (middle[0] - width / 2, middle[1] - height / 2, middle[0] + width / 2, middle[1] + height / 2)
