from __future__ import annotations

import re

from pipeline.report.style import STYLE


def test_every_colour_is_a_variable_that_is_there_in_light_and_dark() -> None:
    themes = [set(re.findall(r"(--\w+):", block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", STYLE)]
    assert len(themes) == 3, "light, chosen dark, and dark by the system"
    assert themes[0] == themes[1] == themes[2] >= set(re.findall(r"var\((--\w+)", STYLE)) - {"--columns"}


def test_no_rule_ends_the_style_element() -> None:
    assert "</" not in STYLE
