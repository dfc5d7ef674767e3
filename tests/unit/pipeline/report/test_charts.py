from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from pipeline.report import charts


@pytest.mark.parametrize(
    ("value", "reported"),
    [(0, "0 ms"), (9.94, "9.9 ms"), (168.4, "168 ms"), (3_219.7, "3.22 s"), (63_000, "63 s"), (600_000, "10.0 min")],
)
def test_a_duration_has_three_digits_and_the_unit_that_fits(value: float, reported: str) -> None:
    assert charts.milliseconds(value) == reported


def interval(owner: str, from_ms: float, to_ms: float) -> dict[str, object]:
    return {"queue": "q<1>", "owner": owner, "from_ms": from_ms, "to_ms": to_ms, "ended": "lost", "handed_out": 5}


def titles(drawn: str) -> list[str]:
    return [str(each.text) for each in ElementTree.fromstring(drawn).iter("title")]


def test_other_charts_are_sound_and_empty_ones_draw_nothing_wrong() -> None:
    assert titles(charts.strip([("join", [3.0, 40.0, 5.0])], "x")) == [
        "join: 3 ms",
        "join: 5 ms",
        "join: 40 ms",
        "median 5 ms",
    ]
    assert charts.strip([("join", [])], "x") == ""
    assert titles(charts.bars([("< 10 ms", 0), ("10 ms +", 3)], "x")) == ["< 10 ms: 0", "10 ms +: 3"]
    ElementTree.fromstring(
        charts.lines([("lag", [(0.0, 1.0), (50.0, 2.0)]), ("mean", [])], [], 700_000, "ms", steps=True)
    )
    ElementTree.fromstring(charts.lines([("lag", [])], [], 0, "ms"))


LONG = (
    [("NOTIFY + START", [3.0, 40.0])],
    [(f"{n}00 ms +", n) for n in range(9)],
    [("lag", [(0.0, 123_456.0), (9e4, 2.0)])],
)


@pytest.mark.parametrize("width", [charts.WIDE, charts.NARROW])
def test_no_text_of_a_chart_is_outside_of_it_or_on_its_neighbour(width: float) -> None:
    strips, counted, series = LONG
    drawings = (
        charts.strip(strips, "x", width),
        charts.bars(counted, "x", width),
        charts.lines(series, [], 90_000, "messages", width),
    )
    for drawn in map(ElementTree.fromstring, drawings):
        spans: list[tuple[float, float, float]] = []
        for each in drawn.iter("text"):
            wide = 6.5 * len(str(each.text)) * (0.9 if each.get("class") == "small" else 1)
            x = float(each.attrib["x"]) - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[each.attrib["text-anchor"]]
            assert x >= -2, each.text
            assert x + wide <= width + 14, each.text
            spans.append((float(each.attrib["y"]), x, x + wide))
        for (y, _, end), (next_y, begin, _) in pairwise(sorted(spans)):
            assert next_y != y or begin >= end, "two texts are on each other"
