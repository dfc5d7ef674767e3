from __future__ import annotations

import pytest

import traces.figures.changes
import traces.figures.group
from tests.unit.traces.figures.group_events import E, Story, moved_story
from traces.figures.causes import SILENT_MS
from traces.figures.group import GroupFigures
from traces.figures.queue import MAX_SILENT_CLAIMS
from traces.figures.trace import compute_figures


def test_a_move_costs_a_pause_and_what_was_dispatched_and_not_committed() -> None:
    _, owned, rebalances = moved_story().run(9_000)
    [taken] = [row for row in owned if row.owner == "c2"]
    assert (taken.from_client, taken.moved, taken.orphan_ms, taken.pause_ms) == ("c1", True, 10, 12)
    assert (taken.redelivered, taken.duplicates, taken.possible_duplicates, taken.backlog) == (5, 3, 0, 45)
    assert (taken.from_ms, taken.to_ms, taken.ended) == (160, 9_000, "open")
    assert (taken.first_message_ms, taken.handed_out, taken.reach) == (170, 3, 58)
    first, second = rebalances
    assert (first.kind, first.client, first.moves, first.needed, first.pause_ms) == ("CLIENT_START", "c1", 2, 2, 0)
    assert (second.client, second.trigger, second.members, second.passes) == ("c2", "LOCK+NOTIFY+START", 2, 2)
    assert (second.balance_ms, second.moves, second.needed, second.pause_max_ms) == (60, 1, 1, 12)
    [loads] = second.loads
    assert (loads.members, loads.queues, loads.jain, loads.spread) == (2, 2, 1.0, 0)


def test_totals_are_known_at_any_time_and_count_what_is_open() -> None:
    figures = compute_figures(moved_story().events, "g")
    totals = figures.totals()
    assert (totals.members_joined, totals.members, totals.rebalances, totals.moves) == (2, 2, 2, 3)
    assert (totals.needed, totals.acquisitions, totals.handed_out, totals.duplicates) == (3, 3, 63, 3)
    assert (totals.orphan_ms, totals.pause_ms, totals.double_ms, totals.backlog_max) == (10, 12, 0, 100)
    assert [owners for owners in figures.owners().values()] == [("c2",), ("c1",)]
    assert [row.moves for row in figures.rebalances()] == [2, 1]


def test_memory_follows_what_is_open_and_not_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (traces.figures.changes, traces.figures.group):
        monkeypatch.setattr(module, "MAX_KNOWN_CHANGES", 100)
    rounds = 1_000
    found = GroupFigures("g")
    story = Story()
    for number in range(rounds):
        t_ms = 1_000.0 * number
        client = f"c{number}"
        cause = story.client(t_ms, client, E.CLIENT_START)
        story.queue(t_ms + 1, client, E.QUEUE_ACQUIRED, cause, version=number, offset=0)
        gone = story.tell(t_ms + 2, "b", E.MEMBER_LEAVE, client=client, broker="b", detail="close")
        story.queue(t_ms + 3, client, E.LOCK_EXPIRED, gone, version=number)  # killed: it never drops the queue
        for event in story.events:
            found.feed(event)
        story.events.clear()
    [queue] = found._queues()
    assert len(queue._claims) <= MAX_SILENT_CLAIMS + 1
    assert len(found._running) + len(found._held) <= 2 * SILENT_MS / 1_000 + MAX_SILENT_CLAIMS
    assert len(found._changes._by_cause) <= 100
    assert len(found.members) == 0
    assert found.totals().moves == rounds
