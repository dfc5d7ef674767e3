"""The lines of a chart, read from its SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree


def lines_of(root: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """The points of each line that shows figures, in the order in which they are drawn."""
    paths = [each.attrib["d"] for each in root.iter() if each.attrib.get("class", "").startswith("line ")]
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)] for path in paths]
