"""The diagrams of all pages are drawn, nothing in them covers anything else, and what cannot be drawn is named."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest

from tests.docs.pages import ROOT, text_of
from tools.site.diagrams.draw import draw
from tools.site.diagrams.graph import Graph, read_flow, read_states
from tools.site.diagrams.layers import lay_out, layers_of
from tools.site.diagrams.marks import NotDrawable
from tools.site.links import pages

DIAGRAMS = [
    (page, source)
    for page in pages()
    for source in re.findall(r"^```mermaid\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
]


def graph_of(source: str) -> Graph:
    kind, *lines = [line.strip() for line in source.strip().splitlines()]
    return read_flow(lines) if kind.startswith("flowchart") else read_states(lines)


@pytest.mark.parametrize(("page", "source"), DIAGRAMS)
def test_every_diagram_of_a_page_is_drawn_with_all_its_words(page: str, source: str) -> None:
    drawn = ElementTree.fromstring(draw(source))
    shown = " ".join(text.text or "" for text in drawn.iter("text"))
    for label in re.findall(r': (.+)$|"([^"]+)"|-- (\w+) -->', source, re.MULTILINE):
        for word in "".join(label).split():
            assert word in shown, page
    spoken = drawn.find("svg")
    assert spoken is not None
    assert len(spoken.get("aria-label", "")) > 60


@pytest.mark.parametrize(("page", "source"), [each for each in DIAGRAMS if not each[1].startswith("sequence")])
def test_no_node_or_label_of_a_graph_covers_another(page: str, source: str) -> None:
    for one, other in itertools.combinations(lay_out(graph_of(source)).rects(), 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (page, one, other)


def test_there_is_a_page_of_each_kind() -> None:
    kinds = {source.split()[0] for _, source in DIAGRAMS}
    assert kinds == {"sequenceDiagram", "flowchart", "stateDiagram-v2"}
    assert (ROOT / "docs").is_dir()


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("pie\n a: 1", "'pie' is not a kind of diagram"),
        ("sequenceDiagram\n a->>b: x", "names a participant that is not declared"),
        ("sequenceDiagram\n participant a\n loop x", "'loop x' is neither"),
        ("flowchart LR\n a --> b", "'a --> b' is not an edge"),
        ('flowchart LR\n a{x} -- "y" --> b', "'a{x}' is not a node"),
        ("stateDiagram-v2\n a -> b", "'a -> b' is not a transition"),
        ("", "'' is not a kind"),
    ],
)
def test_what_cannot_be_drawn_is_named(source: str, named: str) -> None:
    with pytest.raises(NotDrawable, match=re.escape(named)):
        draw(source)


def test_an_edge_that_would_close_a_circle_leads_back() -> None:
    graph = read_states(["[*] --> a", "a --> b: go", "b --> a: back", "b --> b: stay", "b --> c: end"])
    assert layers_of(graph) == {"[*]": 0, "a": 1, "b": 2, "c": 3}


def test_a_node_stands_behind_all_from_which_edges_lead_to_it() -> None:
    graph = read_flow(['p & c -- "x" --> b', 'b -. "y" .-> c', "b -- z --> s[name servers]", "p -- z --> s"])
    assert layers_of(graph) == {"p": 0, "c": 0, "b": 1, "s": 2}
    assert graph.names["s"] == "name servers"


def test_markup_in_a_diagram_stays_text() -> None:
    drawn = draw("sequenceDiagram\n participant a\n participant b\n a->>b: <img src=x> & more")
    assert "<img" not in drawn
    assert "&lt;img src=x&gt; &amp; more" in drawn
