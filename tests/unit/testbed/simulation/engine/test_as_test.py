"""What is written is a test that runs the programme, and fails as long as the programme does."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.simulation.engine.as_test import as_test
from testbed.simulation.engine.programme import LoadPart, Programme, Step

PROGRAMME = Programme(load=LoadPart(messages=20), step=(Step(at_s=1.0, do="stop", who="billing-1"),), lasts_s=3.0)


def test_the_test_passes_without_the_defect_and_fails_with_it() -> None:
    def of(programme: Programme) -> Any:
        made: dict[str, Any] = {}
        exec(compile(as_test(programme, 'double-owner "x"'), "test_made.py", "exec"), made)
        return made["test_the_programme_keeps_its_promises"]

    of(PROGRAMME)()
    with pytest.raises(AssertionError):
        of(PROGRAMME.with_quirks(["OVERLAPPING_HANDOVER"]))()
