"""What other rules change of what comes from outside."""

from __future__ import annotations

import math

import pytest

from model.errors import ConfigError
from pipeline.replay.recorded import MemberChange, read_recorded
from pipeline.replay.rules import leaves_under, member_views, shifted_changes
from tests.unit.pipeline.replay.golden_trace import golden_events
from tests.unit.pipeline.replay.test_replay import rules

JOIN, EXPIRY, BACK = (
    MemberChange(0.0, 1, "c", ("t",)),
    MemberChange(10_000.0, 2, "c", None, "expiry"),
    MemberChange(12_000.0, 3, "c", ("t",)),
)


def test_an_expiry_moves_with_the_timeout_and_nothing_else_does() -> None:
    assert shifted_changes([JOIN, EXPIRY, BACK], rules()) == [JOIN, EXPIRY, BACK]
    earlier = shifted_changes([JOIN, EXPIRY, BACK], rules(timeout_ms=3_000.0))
    assert [change.at_ms for change in earlier] == [0, 8_000, 12_000]


def test_a_member_that_is_back_within_the_timeout_never_left() -> None:
    assert shifted_changes([JOIN, EXPIRY, BACK], rules(timeout_ms=7_000.0)) == [JOIN, BACK]


def test_a_member_is_silent_for_the_timeout_before_it_is_taken_out() -> None:
    recorded = read_recorded(golden_events(), "g")
    times = [(round(silent), round(leave.at_ms)) for silent, leave in leaves_under(recorded, rules())]
    assert times == [(5003, 5003), (15000, 20000)]
    later = leaves_under(recorded, rules(timeout_ms=7_000.0))
    assert [(round(silent), round(leave.at_ms)) for silent, leave in later] == [(5003, 5003), (15000, 22000)]


def test_a_leave_that_does_not_come_under_these_rules_comes_never() -> None:
    recorded = read_recorded(golden_events(), "g")
    back = (*recorded.changes, MemberChange(21000.0, 6, "c1", ("t",)))
    object.__setattr__(recorded, "changes", back)
    (_, _), (_, leave) = leaves_under(recorded, rules(timeout_ms=7_000.0))
    assert leave.at_ms == math.inf


def test_views_are_the_members_after_each_change() -> None:
    assert member_views([JOIN, EXPIRY, BACK]) == [{}, {"c": ("t",)}, {}, {"c": ("t",)}]


@pytest.mark.parametrize("wrong", [{"strategy": "MINE"}, {"interval_ms": 0.0}, {"timeout_ms": 1e9}])
def test_rules_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        rules(**wrong)
