"""The diagrams of pages, drawn as SVG when the site is built: no script and no server draws them in the browser.

Pages have them in the language of Mermaid, which GitHub draws too. The part of it that they use is read here; a line
that is not in that part is an error that names it, so that no diagram is ever half drawn.

    marks.py      texts, boxes, arrows, and the picture that holds them
    sequence.py   `sequenceDiagram`: messages between participants, from top to bottom
    graph.py      `flowchart LR` and `stateDiagram-v2` as nodes and edges
    layers.py     the places of nodes and the ways of edges
    draw.py       chooses by the first line

Read `draw.py`, then `sequence.py`.
"""
