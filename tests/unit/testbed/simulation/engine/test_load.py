"""Clients of a programme: every mode gets every message, and what the clients see is what the judge is told."""

from __future__ import annotations

import pytest

from testbed.simulation.engine.programme import GroupPart, LoadPart, Programme
from testbed.simulation.engine.run import run_programme

LOAD = LoadPart(producers=2, messages=20, pause_s=0.1, keys=4)


@pytest.mark.parametrize(
    "group",
    [
        GroupPart(name="g", strategy="AVG_BY_CIRCLE", fails=0.2, poisoned=9),
        GroupPart(name="g", order="key", fails=0.1, poisoned=9),
        GroupPart(name="g", order="queue", fails=0.1, poisoned=9),
        GroupPart(name="g", mode="pop", fails=0.1, poisoned=9),
        GroupPart(name="g", mode="pop", members=4, stock=3, fails=0.1, poisoned=9),
        GroupPart(name="g", members=3, waiting=2),
    ],
    ids=["plain", "key", "queue", "pop", "grpc", "waiting"],
)
def test_a_group_of_any_mode_is_done_with_every_message(group: GroupPart) -> None:
    outcome = run_programme(Programme(load=LOAD, group=(group,), lasts_s=5.0))
    assert outcome.findings == ()
    assert outcome.sent == 40
    assert outcome.deliveries >= 40
    if group.poisoned and group.order == "none":
        assert outcome.dead_letters == 4, "two of each producer"


def test_delayed_messages_come_too() -> None:
    outcome = run_programme(Programme(load=LoadPart(messages=20, delayed=3), lasts_s=5.0))
    assert outcome.ok
    assert outcome.deliveries == 20
