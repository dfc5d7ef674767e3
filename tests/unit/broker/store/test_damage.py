from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.store import damage
from broker.store.damage import DamagedRange, DamageLog


def test_ranges_that_touch_become_one() -> None:
    log = DamageLog()
    log.add("s", (1, 0), 5, 6)
    log.add("s", (1, 0), 8, 9)
    log.add("s", (1, 0), 6, 8)
    log.add("s", (1, 1), 6, 8)
    assert log.report() == (
        DamagedRange(segment="s", topic_id=1, queue_id=0, first_offset=5, end_offset=9),
        DamagedRange(segment="s", topic_id=1, queue_id=1, first_offset=6, end_offset=8),
    )


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5))))
def test_the_ranges_hold_exactly_what_was_noted(noted: list[tuple[int, int]]) -> None:
    log = DamageLog()
    expected: set[int] = set()
    for first, length in noted:
        log.add("s", (1, 0), first, first + length)
        expected |= set(range(first, first + length))
    report = log.report()
    listed = [offset for found in report for offset in range(found.first_offset, found.end_offset)]
    assert listed == sorted(expected)
    assert all(before.end_offset < after.first_offset for before, after in pairwise(report))


def test_beyond_the_limit_ranges_are_counted_but_known_ones_still_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "MAX_RANGES", 2)
    log = DamageLog()
    for offset in (0, 10, 20, 30):
        log.add("s", (1, 0), offset, offset + 1)
    log.add("s", (1, 0), 1, 2)
    assert [(found.first_offset, found.end_offset) for found in log.report()] == [(0, 2), (10, 11)]
    assert log.unlisted_count == 2


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5), st.sampled_from("ab"))),
    st.integers(0, 35),
    st.integers(0, 35),
)
def test_counts_agree_with_a_set_of_offsets(noted: list[tuple[int, int, str]], first: int, low: int) -> None:
    log = DamageLog()
    expected: set[int] = set()
    new = 0
    for start, length, segment in noted:
        log.add(segment, (1, 0), start, start + length)
        expected |= set(range(start, start + length))
        new += sum(found.n for found in log.collect_new())
    assert new == len(expected), "every offset is new once"
    assert not log.has_new
    assert log.total((1, 0)) == len(expected)
    assert log.count((1, 0), first, 20) == sum(first <= offset < 20 for offset in expected)
    assert log.next_readable((1, 0), first) == next(offset for offset in range(first, 99) if offset not in expected)
    log.forget_before((1, 0), low)
    assert log.total((1, 0)) == sum(offset >= low for offset in expected)
    log.forget((1, 0))
    assert (log.report(), log.total((1, 0)), log.count((1, 0), 0, 99)) == ((), 0, 0)


def test_what_is_new_comes_in_ranges_as_long_as_possible() -> None:
    log = DamageLog()
    for offset in (7, 5, 6, 9):
        log.add("s", (1, 0), offset, offset + 1)
    assert [(found.first_offset, found.end_offset) for found in log.collect_new()] == [(5, 8), (9, 10)]
