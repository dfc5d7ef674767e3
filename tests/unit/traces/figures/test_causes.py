from __future__ import annotations

from tests.unit.traces.figures.group_events import E, Story, moved_story
from traces.figures.causes import SILENT_MS
from traces.figures.group import GroupFigures
from traces.figures.records import Rebalance


def test_the_needed_moves_never_exceed_the_moves_where_rebalances_overlap() -> None:
    story = Story()
    first = story.client(0, "c1", E.CLIENT_START)
    for queue_id in range(6):
        story.queue(1, "c1", E.QUEUE_ACQUIRED, first, queue_id=queue_id, version=1, offset=0)
    causes = [story.client(10, client, E.CLIENT_START) for client in ("c2", "c3")]
    for queue_id, client in ((4, "c2"), (5, "c3"), (3, "c2"), (2, "c3")):
        story.queue(20, "c1", E.QUEUE_DROPPED, causes[0], queue_id=queue_id, version=1, detail="revoked")
        cause = causes[client == "c3"]
        story.queue(30, client, E.QUEUE_ACQUIRED, cause, queue_id=queue_id, version=2, offset=0)
    assert [(row.moves, row.needed) for row in story.run()[2]] == [(6, 6), (2, 2), (2, 2)]


def test_a_strategy_that_swaps_moves_more_than_was_needed() -> None:
    story = Story()
    for client in ("c1", "c2"):
        cause = story.client(0, client, E.CLIENT_START)
        for queue_id in range(2):
            story.queue(1, client, E.QUEUE_ACQUIRED, cause, topic="tu"[client == "c2"], queue_id=queue_id, offset=0)
            story.queue(1, client, E.QUEUE_ACQUIRED, cause, queue_id=10 * (client == "c2") + queue_id, offset=0)
    swap = story.client(50, "c1", E.REBALANCE_BEGIN, detail="TIMER")
    story.queue(60, "c1", E.QUEUE_DROPPED, swap, queue_id=0, detail="revoked")
    story.queue(60, "c2", E.QUEUE_DROPPED, swap, queue_id=10, detail="revoked")
    story.queue(70, "c2", E.QUEUE_ACQUIRED, swap, queue_id=0, offset=0)
    story.queue(70, "c1", E.QUEUE_ACQUIRED, swap, queue_id=10, offset=0)
    [*_, row] = story.run()[2]
    assert (row.cause, row.moves, row.needed) == (swap, 2, 0)


def test_a_rebalance_is_returned_once_nothing_of_it_is_open_and_its_cause_is_silent() -> None:
    story = moved_story()
    figures = GroupFigures("g")
    for event in story.events:
        assert not [row for row in figures.feed(event) if isinstance(row, Rebalance)]
    story.queue(6_000, "c2", E.QUEUE_DROPPED, "c2/9", version=9, detail="shutdown")
    figures.feed(story.events[-1])
    later = 6_000 + SILENT_MS
    rows = figures.feed(story.events[-1]._replace(t_ms=later, kind="REBALANCE_BEGIN", seq=99, cause="c2/99"))
    assert [row.cause for row in rows if isinstance(row, Rebalance)] == ["c2/1"]


def test_passes_by_timer_that_change_nothing_leave_nothing_behind() -> None:
    story = Story()
    story.client(0, "c1", E.CLIENT_START)
    for number in range(200):
        cause = story.client(100.0 * number, "c1", E.REBALANCE_BEGIN, detail="TIMER")
        story.client(100.0 * number + 1, "c1", E.REBALANCE_END, cause, n=0, detail="TIMER balanced")
    figures, _, rebalances = story.run()
    assert rebalances == []
    assert len(figures._running) == 0
