"""Reads `flowchart LR` and `stateDiagram-v2` as nodes and edges. Pure.

A -- text --> B[a name]         an edge; -. text .-> is dashed; A & B stands for both
[*] --> visible                 a state begins there
visible --> invisible: pop      a transition with its reason
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.site.diagrams.marks import NotDrawable

START = "[*]"
_FLOW = re.compile(r'(.+?) +(--|-\.) +"?(.+?)"? +(-->|\.->) +(.+)')
_STATE = re.compile(r"(\S+) --> (\S+?)(?:: (.+))?")
_NODE = re.compile(r"(\w+)(?:\[(.+)\])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An arrow between two nodes."""

    start: str
    end: str
    label: str
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes with their names, in the order of their first use, and edges."""

    names: dict[str, str]
    edges: tuple[Edge, ...]


def read_flow(lines: Iterable[str]) -> Graph:
    """Read a flowchart.

    Raises:
        NotDrawable: a line is not an edge with a label.
    """
    names: dict[str, str] = {}

    def nodes(side: str) -> Iterator[str]:
        for each in side.split(" & "):
            match = _NODE.fullmatch(each.strip())
            if match is None:
                raise NotDrawable(f"{each!r} is not a node: a word, with its name in [] if it has another one")
            names[match[1]] = match[2] or names.get(match[1], match[1])
            yield match[1]

    edges: list[Edge] = []
    for line in lines:
        match = _FLOW.fullmatch(line)
        if match is None:
            raise NotDrawable(f"{line!r} is not an edge: A -- text --> B, or A -. text .-> B")
        starts, ends = list(nodes(match[1])), list(nodes(match[5]))
        edges += [
            Edge(start=start, end=end, label=match[3], dashed=match[2] == "-.") for start in starts for end in ends
        ]
    return Graph(names=names, edges=tuple(edges))


def read_states(lines: Iterable[str]) -> Graph:
    """Read a diagram of states.

    Raises:
        NotDrawable: a line is not a transition.
    """
    names: dict[str, str] = {}
    edges: list[Edge] = []
    for line in lines:
        match = _STATE.fullmatch(line)
        if match is None:
            raise NotDrawable(f"{line!r} is not a transition: one --> other: reason")
        for name in (match[1], match[2]):
            names[name] = "" if name == START else name.replace("_", " ")
        edges.append(Edge(start=match[1], end=match[2], label=match[3] or ""))
    return Graph(names=names, edges=tuple(edges))
