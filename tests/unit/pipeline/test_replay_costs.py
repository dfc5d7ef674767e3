"""What the golden trace costs, worked out on paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.replay import replay
from pipeline.replay_costs import Costs, capacity_of, costs_of, union
from pipeline.replay_rules import Handover
from pipeline.replay_trace import read_recorded
from tests.unit.pipeline.golden_trace import golden_events
from tests.unit.pipeline.test_replay import rules


def costs(**different: object) -> Costs:
    recorded = read_recorded(golden_events(), "g")
    made = rules(**different)
    return costs_of(recorded, made.handover, replay(recorded, made), 1_000.0)


def test_moves_do_not_count_the_first_owners() -> None:
    assert costs().moves == 4
    assert costs(notify=False).moves == 2


def test_orphan_time_is_what_lies_between_the_owners() -> None:
    # q0: 6 at first, 5007 after c1 fell silent. q1: 6, 1004 to 1056, 5000 to 5010, 12004 to 12011.
    assert costs().orphan_s == pytest.approx((6 + 5007 + 6 + 52 + 10 + 7) / 1000, abs=1e-4)


def test_imbalance_is_weighted_by_time() -> None:
    # 1000 to 1004: 2 and 0; to 1056: 1 and 0; 12000 to 12004: 2 and 0; to 12011: 1 and 0.
    assert costs().imbalance == pytest.approx((2 * 4 + 52 + 2 * 4 + 7) / 24_990, rel=1e-3)


def test_a_silent_member_has_done_for_nothing_what_it_did_since_its_last_commit() -> None:
    # It commits every 5 s since 16 ms, the last time at 10,016; 100 messages come from 10,000 to 20,005.
    assert costs().duplicates == pytest.approx(100 * (15_000 - 10_016) / 10_005, rel=1e-3)


def test_handing_over_without_waiting_costs_messages_twice() -> None:
    assert costs(handover=Handover.CUT).duplicates > costs().duplicates
    assert costs(handover=Handover.OVERLAP, notify=False).duplicates > costs(notify=False).duplicates


def test_messages_wait_while_a_queue_has_no_owner() -> None:
    # 5 s of 25 s, at 10 messages a second: most of 50 are waiting a hundredth of the time or longer.
    assert 30 < costs().lag_p99 < 60
    assert costs(timeout_ms=11_000.0).lag_p99 > costs().lag_p99


def test_the_capacity_is_what_a_member_has_done_at_the_most() -> None:
    recorded = read_recorded(golden_events(), "g")
    assert capacity_of(recorded) == 1.0
    recorded.handed_out["c1"] = [(100.0, 20), (200.0, 30), (6_000.0, 10)]  # type: ignore[index]
    assert capacity_of(recorded) == pytest.approx(10.0, rel=1e-3)  # 50 in the first 5 s, between two commits


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))
def test_a_union_covers_each_moment_once(intervals: list[tuple[int, int]]) -> None:
    covered = [moment for since, until in union(intervals) for moment in range(int(since), int(until))]
    assert covered == sorted({moment for since, until in intervals for moment in range(since, until)})
