"""The test that CONTRIBUTING.md shows to whoever writes his first one runs, and can fail."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.simulation.cluster.cluster import NotConverged
from tests.docs.pages import code_blocks
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


def shown(code: str) -> Any:
    """The test function of a block of code."""
    names: dict[str, Any] = {}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    return next(value for name, value in names.items() if name.startswith("test_"))


def test_the_shown_test_passes(simulate: Simulate) -> None:
    (code,) = code_blocks("CONTRIBUTING.md", "python")
    shown(code)(simulate)


def test_the_shown_test_fails_when_the_member_is_not_killed_but_hangs(simulate: Simulate) -> None:
    (code,) = code_blocks("CONTRIBUTING.md", "python")
    with pytest.raises(NotConverged):
        shown(code.replace("await first.crash()", "first.hang()"))(simulate)
