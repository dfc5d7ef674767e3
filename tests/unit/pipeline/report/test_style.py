from __future__ import annotations

import re

from pipeline.report import svg as report_svg
from pipeline.report.style import STYLE


def test_every_colour_is_a_variable_or_that_of_an_owner_and_is_there_in_light_and_dark() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert (
        set(re.findall(r"--\w+", light)) == set(re.findall(r"--\w+", dark)) >= set(re.findall(r"var\((--\w+)", STYLE))
    )


def test_every_owner_has_a_colour() -> None:
    assert all(f".o{number} " in STYLE for number in range(report_svg.OWNER_COLOURS))
    assert "</style>" not in STYLE
