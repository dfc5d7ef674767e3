from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pictures import svg


@pytest.mark.parametrize(("rough", "nice"), [(0.3, 0.5), (1, 1), (1.2, 2), (21, 50), (70, 100), (0, 1)])
def test_steps_of_an_axis_are_round(rough: float, nice: float) -> None:
    assert svg.nice_step(rough) == pytest.approx(nice)


def test_scales_meet_their_ends_even_where_all_values_are_one() -> None:
    assert [svg.linear(2, 4, 0, 100)(value) for value in (2, 3, 4)] == [0, 50, 100]
    assert svg.linear(2, 2, 0, 100)(2) == 0
    assert [round(svg.logarithmic(1, 100, 0, 10)(value)) for value in (0, 1, 10, 100)] == [0, 0, 5, 10]


@pytest.mark.parametrize(("most", "wanted", "end"), [(100, 5, 100), (101, 5, 250), (3_000, 4, 4_000), (0, 4, 4)])
def test_an_axis_ends_at_a_round_step_that_holds_the_largest_value(most: float, wanted: int, end: float) -> None:
    assert svg.axis_end(most, wanted) == end
    assert svg.ticks(end, wanted)[-1] == end


def test_a_picture_in_a_file_has_a_style_for_each_class_that_benchmarks_use() -> None:
    drawn = svg.picture(10, 20, [svg.text(1, 2, "a < b", style="orange")])
    assert ElementTree.fromstring(drawn).attrib["viewBox"] == "0 0 10 20"
    assert "a &lt; b" in drawn
    assert "text.orange{" in drawn
