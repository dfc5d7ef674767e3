"""What frames under way may take together: admitted by announced length, first come, first served."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from model.limits import MAX_FRAME_BYTES, MAX_FRAMES_UNDER_WAY_BYTES
from remoting.overload.frame_budget import FrameBudget


def test_frames_are_admitted_up_to_the_limit_and_the_next_one_when_one_is_whole() -> None:
    budget: FrameBudget[str] = FrameBudget()
    admitted = [budget.admit(name, MAX_FRAME_BYTES) for name in "abcde"]
    assert admitted == [True] * (MAX_FRAMES_UNDER_WAY_BYTES // MAX_FRAME_BYTES) + [False]
    assert budget.release("b") == ["e"]
    assert budget.release("b") == [], "it has nothing any more"


def test_a_small_frame_does_not_overtake_a_large_one_that_waits() -> None:
    budget: FrameBudget[str] = FrameBudget(100)
    assert [budget.admit("a", 60), budget.admit("b", 70), budget.admit("c", 10)] == [True, False, False]
    assert budget.release("a") == ["b", "c"]


def test_a_connection_that_is_gone_waits_no_longer_and_lets_those_behind_it_pass() -> None:
    budget: FrameBudget[str] = FrameBudget(100)
    assert [budget.admit("a", 60), budget.admit("b", 70), budget.admit("c", 40)] == [True, False, False]
    assert budget.release("b") == ["c"]
    assert budget.release("c") == []
    assert budget.admit("d", 40)


STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 5), st.integers(1, 100)), st.integers(0, 5)), max_size=40)


@given(STEPS)
def test_admitted_frames_fit_the_limit_and_none_waits_that_is_first_and_fits(
    steps: Sequence[int | tuple[int, int]],
) -> None:
    budget: FrameBudget[int] = FrameBudget(100)
    admitted: dict[int, int] = {}
    waiting: dict[int, int] = {}
    for step in steps:
        if isinstance(step, tuple):
            key, length = step
            if key in admitted or key in waiting:
                continue
            (admitted if budget.admit(key, length) else waiting)[key] = length
        else:
            admitted.pop(step, None)
            waiting.pop(step, None)
            for key in budget.release(step):
                admitted[key] = waiting.pop(key)
        assert sum(admitted.values()) <= 100
        assert not waiting or sum(admitted.values()) + next(iter(waiting.values())) > 100
