"""Grids of rules, the front of those that nothing beats, and finding out what a trace was recorded with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.allocate.registry import BUILT_IN_STRATEGIES
from model.errors import ConfigError
from model.events import Event
from pipeline.replay.costs import Costs
from pipeline.replay.job import Grid, as_recorded, find_baseline, pareto_front, read_group, try_rules
from pipeline.replay.rules import Handover
from tests.unit.pipeline.replay.golden_trace import golden_events
from traces.figures.trace import compute_figures

COSTS = st.builds(Costs, *([st.integers(0, 3)] * 6))


@pytest.mark.walk
def test_a_grid_is_every_combination() -> None:
    rules = Grid(was_timeout_s=5.0).rules()
    assert len(rules) == len(set(rules)) == len(BUILT_IN_STRATEGIES) * 3 * 2 * 2 * 2
    assert {each.was_timeout_ms for each in rules} == {5_000.0}
    assert {each.handover for each in rules} == {Handover.DRAIN, Handover.OVERLAP}


def test_the_session_timeout_is_the_one_given_or_the_one_reported_or_the_default() -> None:
    assert Grid(was_timeout_s=5.0).recorded_with(3_000.0).recorded_timeout_s == 5.0
    assert Grid().recorded_with(3_000.0).recorded_timeout_s == 3.0
    assert Grid().recorded_with(None).recorded_timeout_s == 120.0
    assert {each.was_timeout_ms for each in Grid().recorded_with(3_000.0).rules()} == {3_000.0}


def test_a_grid_that_cannot_be_tried_is_refused() -> None:
    with pytest.raises(ConfigError, match="strategy must be one of AVG"):
        Grid(strategies=("MINE",)).rules()
    with pytest.raises(ConfigError, match="1 to 10000 configurations, got 0"):
        Grid(handovers=()).rules()


@given(st.lists(COSTS, max_size=12))
def test_the_front_is_what_no_other_one_beats(costs: list[Costs]) -> None:
    front = pareto_front(costs)
    for one, is_on_front in zip(costs, front, strict=True):
        beaten = [other for other in costs if all(a <= b for a, b in zip(other, one, strict=True)) and other != one]
        assert is_on_front == (not beaten)
    assert any(front) or not costs


def test_the_strategy_of_a_trace_is_found_by_replaying_it() -> None:
    recorded = read_group(golden_events(), None)
    baseline = find_baseline(recorded, 5.0)
    assert (baseline.rules.strategy, baseline.wrong_queues, baseline.moves) == ("AVG", 0, 6)
    # With another session timeout c1 was silent since another time, but was taken out at the same one.
    assert find_baseline(recorded, 5.0, "CONSISTENT_HASH").rules.strategy == "CONSISTENT_HASH"


def test_the_strategy_of_a_trace_is_also_looked_for_among_candidates_that_are_not_built_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = read_group(golden_events(), None)
    only = {"CONSISTENT_HASH": BUILT_IN_STRATEGIES["CONSISTENT_HASH"]}
    monkeypatch.setattr("pipeline.replay.job.BUILT_IN_STRATEGIES", only)
    assert find_baseline(recorded, 5.0).wrong_queues > 0
    assert find_baseline(recorded, 5.0, candidates=("AVG",)).rules.strategy == "AVG"


def test_one_configuration_is_replayed_and_counted() -> None:
    recorded = read_group(golden_events(), "g")
    tried = try_rules(recorded, find_baseline(recorded, 5.0).rules)
    assert tried.costs.moves == 6
    assert tried.passes == 8


def test_beside_its_replay_the_trace_has_the_figures_that_a_report_counts_in_it() -> None:
    place = {"group": "g", "topic": "t", "broker": "b", "queue_id": 0, "version": 1}
    at = golden_events()[0].t_ms
    events = [
        *golden_events(),
        Event(at + 100, "c1", 901, "QUEUE_ACQUIRED", "c1/901", client="c1", **place),  # type: ignore[arg-type]
        Event(at + 200, "c1", 902, "QUEUE_DROPPED", "c1/902", client="c1", **place),  # type: ignore[arg-type]
        Event(at + 230, "c2", 903, "QUEUE_ACQUIRED", "c2/903", client="c2", **place),  # type: ignore[arg-type]
    ]
    recorded = read_group(events, "g")
    replayed = try_rules(recorded, find_baseline(recorded, 5.0).rules)
    found = as_recorded(recorded, replayed).costs
    figures = compute_figures(events, "g").totals()
    assert (found.moves, found.orphan_s, found.duplicates) == (figures.moves, figures.orphan_ms / 1000, 0)
    assert (found.moves, found.lag_p99) == (2, replayed.costs.lag_p99)


def test_a_trace_with_several_groups_asks_which_one() -> None:
    events = golden_events() + [event._replace(group="h") for event in golden_events() if event.group]
    with pytest.raises(ConfigError, match="choose a group: the trace has g, h"):
        read_group(events, None)
    assert read_group(events, "h").group == "h"


@pytest.mark.parametrize("group", [None, "g"])
def test_a_trace_without_events_or_without_groups_says_so_and_asks_for_no_group(group: str | None) -> None:
    with pytest.raises(ConfigError, match=r"^the trace has no events$"):
        read_group([], group)
    without_group = [event for event in golden_events() if not event.group]
    with pytest.raises(ConfigError, match=r"no member joins .*group.* in the trace: the trace has to begin before"):
        read_group(without_group, group)
