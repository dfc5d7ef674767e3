"""What frames under way may take together: admitted by announced length, first come, first served."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from model.limits import MAX_FRAME_BYTES, MAX_FRAMES_UNDER_WAY_BYTES
from remoting.overload.frame_budget import FrameBudget


def test_frames_are_admitted_up_to_the_limit_and_the_next_one_when_one_is_whole() -> None:
    budget: FrameBudget[str] = FrameBudget()
    admitted = [budget.admit(name, MAX_FRAME_BYTES, f"user {name}") for name in "abcde"]
    assert admitted == [True] * (MAX_FRAMES_UNDER_WAY_BYTES // MAX_FRAME_BYTES) + [False]
    assert budget.release("b") == ["e"]
    assert budget.release("b") == [], "it no longer has a part"


def test_a_small_frame_does_not_overtake_a_large_one_that_waits() -> None:
    budget: FrameBudget[str] = FrameBudget(100)
    assert [budget.admit(*each) for each in (("a", 60, "u"), ("b", 70, "v"), ("c", 10, "w"))] == [True, False, False]
    assert budget.release("a") == ["b", "c"]


def test_a_connection_that_is_gone_waits_no_longer_and_lets_those_behind_it_pass() -> None:
    budget: FrameBudget[str] = FrameBudget(100)
    assert [budget.admit(*each) for each in (("a", 60, "u"), ("b", 70, "v"), ("c", 40, "w"))] == [True, False, False]
    assert budget.release("b") == ["c"]
    assert budget.release("c") == []
    assert budget.admit("d", 40, "x")


def test_frames_of_one_owner_wait_for_each_other_in_their_order_and_those_of_others_pass() -> None:
    budget: FrameBudget[str] = FrameBudget(100, 50)
    assert budget.admit("a", 45, "u")
    assert [budget.admit("b", 40, "u"), budget.admit("c", 5, "u")] == [False, False], "c would fit, but b is first"
    assert budget.admit("d", 50, "v")
    assert budget.release("a") == ["b", "c"]
    assert budget.release("d") == []
    assert budget.admit("e", 55, "w"), "one frame is always allowed"


STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 5), st.integers(1, 100)), st.integers(0, 5)), max_size=40)


@given(STEPS)
def test_admitted_frames_fit_both_limits_and_none_waits_that_is_first_and_fits(
    steps: Sequence[int | tuple[int, int]],
) -> None:
    budget: FrameBudget[int] = FrameBudget(100, 60)
    admitted: dict[int, int] = {}
    waiting: dict[int, int] = {}
    for step in steps:
        if isinstance(step, tuple):
            key, length = step
            if key in admitted or key in waiting:
                continue
            (admitted if budget.admit(key, length, f"user {key % 3}") else waiting)[key] = length
        else:
            admitted.pop(step, None)
            waiting.pop(step, None)
            for key in budget.release(step):
                admitted[key] = waiting.pop(key)
        assert sum(admitted.values()) <= 100
        of_owner = {owner: [admitted[key] for key in admitted if key % 3 == owner] for owner in range(3)}
        assert all(len(lengths) <= 1 or sum(lengths) <= 60 for lengths in of_owner.values())
        left, kept_back = 100 - sum(admitted.values()), set()
        for key, length in waiting.items():
            own = sum(of_owner[key % 3])
            if key % 3 in kept_back or (own and own + length > 60):
                kept_back.add(key % 3)
                continue
            assert length > left
            break
