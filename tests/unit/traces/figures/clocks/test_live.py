from __future__ import annotations

from model.events import Event
from tests.unit.traces.check.histories import clean, numbered
from traces.figures.clocks.live import COMPARE_S, LiveClocks

TRUE = [event for event in numbered(clean()) if event.seq >= 0]
WRONG = [event._replace(t_ms=event.t_ms + 60_000 * (event.node == "c1")) for event in TRUE]


def apart(events: list[Event]) -> float:
    return max(abs(event.t_ms - true.t_ms) for event, true in zip(events, TRUE, strict=True))


def test_events_of_right_clocks_pass_as_they_are() -> None:
    clocks = LiveClocks()
    assert clocks.correct(TRUE, 0.0) is TRUE
    assert (clocks.faults, clocks.news()) == ((), [])


def test_events_that_come_later_have_the_offset_of_those_by_which_clocks_were_compared() -> None:
    clocks = LiveClocks()
    half = len(WRONG) // 2
    right = [*clocks.correct(WRONG[:half], 0.0), *clocks.correct(WRONG[half:], 1.0)]
    assert apart(right) < 10


def test_a_clock_that_is_set_is_known_at_the_next_comparison() -> None:
    clocks = LiveClocks()
    half = len(WRONG) // 2
    clocks.correct(TRUE[:half], 0.0)
    clocks.correct(WRONG[half:], 1.0)
    assert clocks.news() == []
    clocks.correct(WRONG[-1:], COMPARE_S)
    assert [(fault.node, fault.is_set) for fault in clocks.faults] == [("c1", True)]


def test_a_wrong_clock_is_news_once() -> None:
    clocks = LiveClocks()
    clocks.correct(WRONG, 0.0)
    assert [str(fault) for fault in clocks.news()] == ["the clock of c1 is 60 s ahead"]
    clocks.correct(WRONG[-1:], COMPARE_S)
    assert clocks.news() == []
    assert [fault.node for fault in clocks.faults] == ["c1"]
