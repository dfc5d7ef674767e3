from __future__ import annotations

from xml.etree import ElementTree

from testbed.bench.rebalance.width import ChangeCost
from testbed.bench.rebalance.width_chart import HEIGHT, PANELS, WIDTH, chart
from tests.unit.testbed.bench.chart_lines import lines_of

CHANGES = ("cold", "join", "leave", "crash")


def costs_of(members: int, share: float = 1.0) -> list[ChangeCost]:
    return [
        ChangeCost(change=each, members=members, bytes_sent=int(1000 * members * share), cpu_s=members / 500, moves=1)
        for each in CHANGES
    ]


def test_each_change_is_a_line_in_both_panels_that_rises_with_its_cost() -> None:
    root = ElementTree.fromstring(chart([*costs_of(10), *costs_of(100), *costs_of(1000, 3.0)]))
    points = lines_of(root)
    assert len(points) == len(CHANGES) * len(PANELS)
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for line in points for x, y in line)
    (x_10, y_10), (x_100, y_100), (x_1000, y_1000) = points[0]
    assert x_100 - x_10 == x_1000 - x_100, "ten times as many are as far to the right"
    assert y_10 == y_100 > y_1000, "more costly is higher"
    of_cpu = [y for _, y in points[-1]]
    assert of_cpu[0] == of_cpu[1] == of_cpu[2]
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"10", "100", "1,000", "4,000", "join", "crash"} <= set(texts)


def test_a_single_size_is_drawn_too() -> None:
    assert len(lines_of(ElementTree.fromstring(chart(costs_of(30))))) == len(CHANGES) * len(PANELS)
