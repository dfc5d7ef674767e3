from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.retry.resent_letters import ResentLetters
from model.errors import SystemBusy
from model.limits import MAX_RESENT_MARKS


@given(st.lists(st.tuples(st.sets(st.integers(0, 30), max_size=8), st.integers(0, 20)), max_size=12))
def test_marks_equal_a_naive_set(steps: list[tuple[set[int], int]]) -> None:
    resent, twin, oldest = ResentLetters(), set[int](), 0
    for offsets, trimmed in steps:
        oldest = max(oldest, trimmed)
        resent.mark(offsets, oldest=oldest)
        twin |= offsets | set(range(oldest))
        assert [offset for offset in range(40) if offset in resent] == sorted(twin)
        assert resent.below not in resent
        assert all(offset > resent.below for offset in resent.above)
        again = ResentLetters(resent.below, resent.above)
        assert [offset for offset in range(40) if offset in again] == sorted(twin)


def test_marks_with_gaps_are_bounded_and_what_is_refused_changes_nothing() -> None:
    resent = ResentLetters()
    gaps = range(1, 2 * MAX_RESENT_MARKS, 2)
    resent.mark(gaps, oldest=0)
    with pytest.raises(SystemBusy, match="re-send that at offset 0 first"):
        resent.mark([2 * MAX_RESENT_MARKS + 1], oldest=0)
    assert resent.above == list(gaps)
    resent.mark([0], oldest=0)
    assert resent.below == 2
    resent.mark([2 * MAX_RESENT_MARKS + 1], oldest=0)
