"""A killed member cannot send its last events: no tool takes their absence for a fault of its group."""

from __future__ import annotations

import logging

import pytest

from model.events import Event, EventKind
from model.limits import RUN_SEQS
from testbed.simulation.engine.draw import draw
from testbed.simulation.engine.run import run_programme
from traces.check.check import HistoryCheck
from traces.check.limits import HistoryLimits
from traces.check.reading import in_order

pytestmark = pytest.mark.simulation

UNSENT_MS = 1_000.0
"""Clients send their events once a second."""


def without_unsent(events: list[Event]) -> list[Event]:
    """The events of which some broker has been told: not the last ones of a client that was killed."""
    runs: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        runs.setdefault((event.node, event.seq // RUN_SEQS), []).append(event)
    unsent = set()
    for reported in runs.values():
        is_client = any(event.node == event.client for event in reported)
        if is_client and not any(event.kind == EventKind.CLIENT_STOP for event in reported):
            unsent |= {event.id for event in reported if event.t_ms > reported[-1].t_ms - UNSENT_MS}
    return [event for event in events if event.id not in unsent]


@pytest.mark.parametrize("seed", [0, 3, 7])
def test_the_unsent_events_of_killed_members_accuse_no_one(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    events: list[Event] = []
    programme = draw(seed, "plain")
    assert run_programme(programme, watch=events.append).ok
    reported = without_unsent(events)
    assert len(reported) < len(events), "some member was killed"
    promise = programme.promise
    check = HistoryCheck(
        HistoryLimits(
            orphan_ms=promise.orphan_s * 1000,
            stale_ms=promise.stale_s * 1000,
            flap_moves=promise.flap_moves,
            needless_passes=promise.needless_passes,
        )
    )
    for event in in_order(reported):
        check.feed(event)
    certain = [str(each.text) for each in check.finish().anomalies if not each.doubt]
    assert certain == []
