from __future__ import annotations

import bisect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from model.offset_reset import MAX_VALUE, ResetKind, ResetTo


def test_each_kind_means_what_it_says() -> None:
    def offset_of(to: ResetTo, committed: int | None = 30) -> int:
        return to.offset_in(10, 50, committed, lambda at_ms: at_ms // 100)

    assert offset_of(ResetTo.earliest()) == 10
    assert offset_of(ResetTo.latest()) == 50
    assert offset_of(ResetTo.time(4200)) == 42
    assert offset_of(ResetTo.offset(7)) == 7
    assert (offset_of(ResetTo.shift(-5)), offset_of(ResetTo.shift(5))) == (25, 35)


def test_a_group_that_stands_nowhere_cannot_be_shifted() -> None:
    with pytest.raises(InvalidParameter, match="nothing to shift from"):
        ResetTo.shift(1).offset_in(0, 9, None, lambda at_ms: 0)


@pytest.mark.parametrize("kind", [kind for kind in ResetKind if kind is not ResetKind.SHIFT])
def test_only_a_shift_may_be_negative(kind: ResetKind) -> None:
    with pytest.raises(InvalidParameter, match="cannot have the value -1"):
        ResetTo(kind, -1)
    assert ResetTo(ResetKind.SHIFT, -1).value == -1
    with pytest.raises(InvalidParameter):
        ResetTo(ResetKind.SHIFT, -MAX_VALUE - 1)


@given(st.integers(0, 20), st.lists(st.integers(0, 50), max_size=20).map(sorted), st.data())
def test_a_reset_is_where_a_reader_of_all_messages_would_stop(low: int, times: list[int], data: st.DataObject) -> None:
    """The twin has the stored messages as a list, and walks along it."""
    high = low + len(times)
    committed = data.draw(st.integers(low, high))
    by = data.draw(st.integers(-70, 70))
    at_ms = data.draw(st.integers(0, 60))

    def resolve(to: ResetTo) -> int:
        return to.offset_in(low, high, committed, lambda ms: low + bisect.bisect_left(times, ms))

    stored = range(low, high)
    assert resolve(ResetTo.earliest()) == next(iter(stored), high)
    assert resolve(ResetTo.latest()) == low + len(times)
    younger = [offset for offset, stored_ms in zip(stored, times, strict=True) if stored_ms >= at_ms]
    assert resolve(ResetTo.time(at_ms)) == (younger[0] if younger else high)
    assert resolve(ResetTo.shift(by)) - committed == by
