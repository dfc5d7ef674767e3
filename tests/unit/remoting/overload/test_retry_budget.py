"""When a client may ask a server again that refused it."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from model.limits import MAX_RETRY_PAUSE_S, RETRY_PAUSE_S
from remoting.overload.retry_budget import RetryBudget


def test_a_server_that_answers_is_asked_at_once() -> None:
    budget = RetryBudget()
    budget.answered(1.0)
    assert budget.wait_s(1.0) == 0


def test_pauses_grow_until_the_server_answers_after_one_of_them() -> None:
    budget, now, pauses = RetryBudget(), 0.0, list[float]()
    for _ in range(4):
        budget.refused(now, 0.0, 0.8)
        pauses.append(budget.wait_s(now))
        now += 10.0
    assert all(
        2 < later / earlier < 2.1 or 1.9 < later / earlier < 2.1 for earlier, later in itertools.pairwise(pauses)
    )
    budget.answered(now)
    budget.refused(now, 0.0, 0.8)
    assert RETRY_PAUSE_S <= budget.wait_s(now) < 2 * RETRY_PAUSE_S


def test_many_refusals_of_one_moment_are_one_refusal() -> None:
    one, many = RetryBudget(), RetryBudget()
    one.refused(0.0, 0.0, 0.8)
    for n in range(1_000):
        many.refused(n * 1e-6, 0.0, 0.8)
    assert many.wait_s(0.001) == one.wait_s(0.001)


def test_the_server_may_ask_for_a_longer_pause_but_not_for_more_than_the_bound() -> None:
    budget = RetryBudget()
    budget.refused(0.0, 0.5, 0.8)
    assert 0.5 <= budget.wait_s(0.0) < 0.8
    budget = RetryBudget()
    budget.refused(0.0, 3600.0, 0.8)
    assert MAX_RETRY_PAUSE_S <= budget.wait_s(0.0) < 1.6 * MAX_RETRY_PAUSE_S


@given(st.floats(0, 1), st.lists(st.floats(0, 0.5), min_size=1, max_size=20), st.integers(1, 50))
def test_requests_that_waited_leave_one_after_the_other_and_none_before_the_pause_is_over(
    jitter: float, gaps: list[float], waiting: int
) -> None:
    budget, now = RetryBudget(), 0.0
    for gap in gaps:
        now += gap
        budget.refused(now, 0.0, jitter)
    leave = [now + budget.wait_s(now) for _ in range(waiting)]
    assert leave == sorted(leave)
    assert len(set(leave)) == waiting or leave[0] == now
    later = max(leave) + 1
    assert budget.wait_s(later) == 0
