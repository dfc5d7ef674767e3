"""docs/architecture.md shows the floors that the import contracts hold, and every room of every package."""

from __future__ import annotations

import pytest

from tests.docs.floor_plan import PAGE, PLAN, drawn, floors
from tests.unit.source_tree import PACKAGES

pytestmark = pytest.mark.walk


def test_the_plans_of_the_page_are_those_of_the_contracts() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if drawn(page) != page:
        pytest.fail(
            "docs/architecture.md is old: run `python -m tests.docs.floor_plan > page && mv page docs/architecture.md`"
        )


def test_every_room_stands_on_a_floor_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = {f"{found[2]}.{room}" for found in PLAN.finditer(page) for floor in floors(found[2]) for room in floor}
    flat = {"model", "remoting", "rocketmq", "namesrv"}
    assert [room for room in PACKAGES if "." in room and room not in shown and room.partition(".")[0] not in flat] == []
