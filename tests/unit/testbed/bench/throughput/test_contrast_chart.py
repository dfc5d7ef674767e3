from __future__ import annotations

from xml.etree import ElementTree

from testbed.bench.throughput.contrast_chart import HEIGHT, WIDTH, chart
from tests.unit.testbed.bench.chart_lines import lines_of


def test_each_way_has_a_line_inside_the_picture_that_is_high_where_its_backlog_is() -> None:
    picture = chart({"a": [0, 10, 100, 0], "b": [0, 1, 1], "c": [0, 0]}, 1.0, 2.0)
    root = ElementTree.fromstring(picture)
    points = lines_of(root)
    assert [len(line) for line in points] == [4, 3, 2]
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for line in points for x, y in line)
    assert min(points[0], key=lambda point: point[1]) == points[0][2]
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"a", "b", "c", "0", "100", "0 s", "3 s"} <= set(texts)


def test_times_are_marked_at_round_seconds() -> None:
    picture = chart({"a": [0] * 152, "b": [0], "c": [0]}, 1.0, 30.0)
    texts = [element.text or "" for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("text")]
    assert [text for text in texts if text.endswith(" s")] == ["0 s", "50 s", "100 s", "150 s"]
