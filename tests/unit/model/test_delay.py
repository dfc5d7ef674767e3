from __future__ import annotations

import pytest

from model.delay import DELAY_LEVELS_MS, MAX_DELAY_MS, delay_of_level, retry_delay_ms
from model.limits import MAX_ATTEMPTS


def test_the_levels_are_those_of_rocketmq() -> None:
    minute = 60_000
    assert DELAY_LEVELS_MS[:5] == (1_000, 5_000, 10_000, 30_000, minute)
    assert DELAY_LEVELS_MS[5:13] == tuple(n * minute for n in range(2, 10))
    assert DELAY_LEVELS_MS[13:] == (10 * minute, 20 * minute, 30 * minute, 60 * minute, 120 * minute)
    assert len(DELAY_LEVELS_MS) == 18
    assert max(DELAY_LEVELS_MS) < MAX_DELAY_MS


@pytest.mark.parametrize(("level", "expected_ms"), [(0, 0), (-1, 0), (1, 1_000), (18, 7_200_000), (99, 7_200_000)])
def test_a_level_outside_the_table_is_none_or_the_last(level: int, expected_ms: int) -> None:
    assert delay_of_level(level) == expected_ms


def test_sixteen_retries_go_from_ten_seconds_to_two_hours() -> None:
    waits = [retry_delay_ms(times) for times in range(MAX_ATTEMPTS)]
    assert (waits[0], waits[1], waits[-1]) == (10_000, 30_000, 7_200_000)
    assert waits == sorted(waits)
