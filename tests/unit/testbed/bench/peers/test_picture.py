from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

from testbed.bench.peers.picture import draw
from testbed.bench.peers.table import compare


def test_every_system_of_every_measurement_has_a_bar_and_its_figure() -> None:
    sends = compare("send-1", "messages/s", {"rlab": [5000.0], "redis-py": [2500.0]}, more_is_better=True)
    waits = compare("latency-20000-p99", "ms", {"rlab": [3.0], "nats-py": [math.inf]}, more_is_better=False)
    svg = draw([sends, waits])
    ET.fromstring(svg)  # well-formed
    bars = [float(width) for width in re.findall(r'<rect x="\S+" y="\S+" width="([\d.]+)"', svg)]
    assert len(bars) == 4
    assert bars[0] == 2 * bars[1]
    assert bars[3] == bars[2]  # what is lost fills the panel
    for text in ("send-1, messages/s (more is better)", "5,000", "2,500", "less is better", ">lost<"):
        assert text in svg
