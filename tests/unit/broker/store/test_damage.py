from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.store import damage
from broker.store.damage import Damage, DamageLog


def test_ranges_that_touch_become_one() -> None:
    log = DamageLog()
    log.note("s", (1, 0), 5, 6)
    log.note("s", (1, 0), 8, 9)
    log.note("s", (1, 0), 6, 8)
    log.note("s", (1, 1), 6, 8)
    assert log.report() == (
        Damage(segment="s", topic_id=1, queue_id=0, first_offset=5, end_offset=9),
        Damage(segment="s", topic_id=1, queue_id=1, first_offset=6, end_offset=8),
    )


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5))))
def test_the_ranges_hold_exactly_what_was_noted(noted: list[tuple[int, int]]) -> None:
    log = DamageLog()
    expected: set[int] = set()
    for first, length in noted:
        log.note("s", (1, 0), first, first + length)
        expected |= set(range(first, first + length))
    report = log.report()
    listed = [offset for found in report for offset in range(found.first_offset, found.end_offset)]
    assert listed == sorted(expected)
    assert all(before.end_offset < after.first_offset for before, after in pairwise(report))


def test_beyond_the_limit_ranges_are_counted_but_known_ones_still_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "MAX_RANGES", 2)
    log = DamageLog()
    for offset in (0, 10, 20, 30):
        log.note("s", (1, 0), offset, offset + 1)
    log.note("s", (1, 0), 1, 2)
    assert [(found.first_offset, found.end_offset) for found in log.report()] == [(0, 2), (10, 11)]
    assert log.unlisted_count == 2
