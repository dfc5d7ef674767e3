from __future__ import annotations

import pytest

from broker.retention.plan import RETAIN_MS, RetentionOptions, TrimPlan, TrimReason, plan_trim, soft_end
from broker.store.message_store import SegmentSpan
from model.errors import ConfigError

AGE, SIZE, HARD = TrimReason.AGE, TrimReason.SIZE, TrimReason.HARD_LIMIT
DAY_MS = 24 * 3600 * 1000
NOW_MS = 100 * DAY_MS
NO_NEEDS = 10**9
# The example of the module's header: 100 bytes each, 5, 4 and 1 days old, and the one that is being written.
SEGMENTS = [
    SegmentSpan(1000, 1100, NOW_MS - 5 * DAY_MS),
    SegmentSpan(1100, 1200, NOW_MS - 4 * DAY_MS),
    SegmentSpan(1200, 1300, NOW_MS - DAY_MS),
    SegmentSpan(1300, 1320, NOW_MS),
]


def plan(options: RetentionOptions, *, needed: int = NO_NEEDS, parked: int = NO_NEEDS) -> TrimPlan:
    return plan_trim(SEGMENTS, NOW_MS, options, needed_position=needed, parked_position=parked)


def gone(options: RetentionOptions, *, needed: int = NO_NEEDS, parked: int = NO_NEEDS) -> tuple[int, list[TrimReason]]:
    made = plan(options, needed=needed, parked=parked)
    return made.to_position, list(made.reasons)


def test_what_is_older_than_its_time_goes_and_the_rest_stays() -> None:
    assert RetentionOptions().retain_ms == RETAIN_MS == 3 * DAY_MS
    assert gone(RetentionOptions()) == (1200, [AGE, AGE])


def test_without_limits_nothing_ever_goes() -> None:
    assert gone(RetentionOptions(retain_ms=None)) == (1000, [])


@pytest.mark.parametrize(("limit", "left_from"), [(320, 1000), (319, 1100), (220, 1100), (219, 1200), (1, 1300)])
def test_the_oldest_go_until_the_log_is_no_longer_than_its_limit(limit: int, left_from: int) -> None:
    options = RetentionOptions(retain_ms=None, retain_bytes=limit)
    assert gone(options) == (left_from, [SIZE] * ((left_from - 1000) // 100))


def test_the_segment_that_is_written_stays_whatever_the_limits_say() -> None:
    assert gone(RetentionOptions(retain_ms=1, retain_bytes=1, retain_bytes_max=1)) == (1300, [AGE, AGE, AGE])


def test_what_a_group_has_still_to_read_stays_and_is_said_to_be_held() -> None:
    assert gone(RetentionOptions(), needed=1100) == (1100, [AGE])
    made = plan(RetentionOptions(), needed=1000)
    assert (made.to_position, made.reasons, made.held, made.held_bytes) == (1000, (), 2, 200)
    assert plan(RetentionOptions()).held == 0


def test_the_hard_limit_takes_what_a_group_has_still_to_read_and_no_more() -> None:
    options = RetentionOptions(retain_bytes_max=150)
    assert gone(options, needed=1100) == (1200, [AGE, HARD])
    assert gone(RetentionOptions(retain_bytes_max=300), needed=1000) == (1100, [HARD])


def test_not_even_the_hard_limit_takes_a_message_that_waits_for_its_time() -> None:
    options = RetentionOptions(retain_bytes_max=1)
    assert gone(options, parked=1200) == (1200, [AGE, AGE])
    assert gone(options, parked=1000) == (1000, [])
    assert gone(options) == (1300, [AGE, AGE, HARD])


def test_how_far_the_soft_limits_would_go_does_not_ask_who_needs_it() -> None:
    assert soft_end(SEGMENTS, NOW_MS, RetentionOptions()) == 1200
    assert soft_end(SEGMENTS, NOW_MS, RetentionOptions(retain_ms=None, retain_bytes_max=1)) == 1000


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retain_ms": 0}, "retain_ms=0"),
        ({"retain_bytes": -1}, "retain_bytes=-1"),
        ({"retain_bytes_max": 0}, "must be positive"),
        ({"retain_bytes": 11, "retain_bytes_max": 10}, "less than retain_bytes=11"),
    ],
)
def test_limits_that_cannot_be_are_refused(options: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RetentionOptions(**options)


def test_a_hard_limit_that_whole_segments_cannot_keep_is_refused() -> None:
    options = RetentionOptions(retain_bytes_max=200)
    options.check_segments(100)
    with pytest.raises(ConfigError, match="less than two segments of 101 bytes"):
        options.check_segments(101)
    RetentionOptions().check_segments(10**12)
