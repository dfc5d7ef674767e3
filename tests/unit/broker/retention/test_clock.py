"""A jump of the wall clock is no age: whatever it is set to, a message is as old as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.retention.clock import ClockJump, WallClock
from model.limits import CLOCK_AWAY_MS, CLOCK_JUMP_MS, MAX_CLOCK_JUMPS

DAY_MS = 24 * 3600 * 1000
LOOK_MS = 10_000


def started(now_ms: int = 1_000_000) -> WallClock:
    clock = WallClock()
    assert clock.start(now_ms, now_ms, 0.0) == 0
    return clock


def test_a_message_from_before_a_jump_is_as_old_as_it_is_and_one_from_after_it_too() -> None:
    clock = started(0)
    stored_ms = 5_000
    after_ms = 90 * DAY_MS + LOOK_MS
    assert clock.check(after_ms, LOOK_MS) == 90 * DAY_MS
    assert after_ms - clock.stored_ms(stored_ms) == LOOK_MS - stored_ms
    assert clock.stored_ms(after_ms) == after_ms


@pytest.mark.parametrize("difference_ms", [0, 1, CLOCK_JUMP_MS, -CLOCK_JUMP_MS])
def test_a_clock_that_drifts_or_is_corrected_a_little_has_not_jumped(difference_ms: int) -> None:
    clock = started(0)
    assert clock.check(LOOK_MS + difference_ms, LOOK_MS) == 0
    assert clock.jumps == []


def test_a_clock_that_is_set_back_takes_its_jumps_back() -> None:
    clock = started(0)
    clock.check(DAY_MS, 0.0)
    clock.check(4 * DAY_MS, 0.0)
    assert clock.check(2 * DAY_MS, 0.0) == -2 * DAY_MS
    assert clock.jumps == [ClockJump(0, DAY_MS), ClockJump(DAY_MS, DAY_MS)]
    clock.check(0, 0.0)
    assert clock.jumps == []
    clock.check(-DAY_MS, 0.0)
    assert clock.jumps == []


def test_a_broker_that_was_away_for_a_day_says_nothing_and_one_that_was_away_for_longer_does_not_count_it() -> None:
    assert WallClock().start(0, CLOCK_AWAY_MS, 5.0) == 0
    clock = WallClock()
    assert clock.start(0, CLOCK_AWAY_MS + 1, 5.0) == CLOCK_AWAY_MS + 1
    assert clock.stored_ms(0) == CLOCK_AWAY_MS + 1
    assert clock.check(CLOCK_AWAY_MS + 1 + LOOK_MS, 5.0 + LOOK_MS) == 0


def test_jumps_before_the_oldest_message_are_forgotten_and_the_others_are_bounded() -> None:
    clock = started(0)
    for number in range(1, 2 * MAX_CLOCK_JUMPS):
        clock.check(number * DAY_MS, 0.0)
    assert len(clock.jumps) == MAX_CLOCK_JUMPS
    assert clock.stored_ms(0) == (2 * MAX_CLOCK_JUMPS - 1) * DAY_MS
    clock.forget_before(clock.jumps[-2].before_ms + 1)
    assert len(clock.jumps) == 1


STEPS = st.lists(
    st.tuples(st.integers(0, 100 * LOOK_MS), st.sampled_from([0, 0, 3 * DAY_MS, 90 * DAY_MS])),
    min_size=1,
    max_size=MAX_CLOCK_JUMPS,
)


@given(STEPS)
def test_the_age_of_every_message_is_the_time_that_has_passed(steps: list[tuple[int, int]]) -> None:
    """Between two looks: time passes, a message is stored, the clock may jump."""
    clock = started(0)
    real_ms, ahead_ms = 0, 0
    messages: list[tuple[int, int]] = []
    for passed_ms, jump_ms in steps:
        real_ms += passed_ms
        messages.append((real_ms, real_ms + ahead_ms))
        ahead_ms += jump_ms
        assert clock.check(real_ms + ahead_ms, float(real_ms)) == jump_ms
    for stored_real_ms, shown_ms in messages:
        assert real_ms + ahead_ms - clock.stored_ms(shown_ms) == real_ms - stored_real_ms
