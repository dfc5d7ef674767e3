"""A programme written as a test of pytest: the file fails as long as the programme does. Pure."""

from __future__ import annotations

from testbed.simulation.engine.programme import Programme
from testbed.simulation.engine.text import text_of

_TEMPLATE = '''"""{title}

Written by rlab sim --shrink.
"""

from __future__ import annotations

from rlab.testbed.simulation.engine.run import run_programme
from rlab.testbed.simulation.engine.text import programme_of

PROGRAMME = r"""
{text}"""


def test_the_programme_keeps_its_promises() -> None:
    assert run_programme(programme_of(PROGRAMME)).findings == ()
'''


def as_test(programme: Programme, found: str) -> str:
    """Write the test; `found` is what the programme shows, in a line."""
    title = f"A small programme that shows: {found}".replace('"', "'").replace("\\", "/")
    return _TEMPLATE.format(title=title[:118], text=text_of(programme))
