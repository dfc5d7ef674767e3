from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.listeners.running_calls import RunningCalls

TIMEOUT_S = 10.0


def test_a_call_is_due_after_the_timeout_and_again_after_another_one() -> None:
    calls: RunningCalls[str] = RunningCalls(TIMEOUT_S)
    calls.expire(100.0)
    calls.running["b"] = 104.0, "listener of b", ()
    calls.running["a"] = 103.0, "listener of a", ()
    assert calls.next_deadline() == 113.0
    assert calls.expire(112.9) == {}
    assert list(calls.expire(114.0)) == ["a", "b"]
    assert calls.next_deadline() == 124.0
    del calls.running["a"]
    assert calls.expire(124.0) == {"b": (114.0, "listener of b", ())}


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 40)), max_size=20))
def test_without_any_wake_up_each_call_is_found_exactly_when_it_has_taken_too_long(
    calls: list[tuple[float, float]],
) -> None:
    """Calls (waited before it, took) one after another in a few lanes, watched only at the deadlines it says."""
    running: RunningCalls[int] = RunningCalls(TIMEOUT_S)
    running.expire(0.0)
    spans, ends = [], [0.0, 0.0, 0.0]
    for number, (idle_s, took_s) in enumerate(calls):
        began = ends[number % 3] + idle_s
        ends[number % 3] = began + took_s
        spans.append((began, began + took_s))
    begins = [(began, 0, number) for number, (began, _) in enumerate(spans)]
    moments = sorted(begins + [(ended, 1, number) for number, (_, ended) in enumerate(spans)])
    found: dict[int, float] = {}
    while moments:
        deadline = running.next_deadline()
        if deadline <= moments[0][0]:
            for number in running.expire(deadline):
                found.setdefault(number, deadline)
            continue
        at, ends_now, number = moments.pop(0)
        if ends_now:
            del running.running[number]
        else:
            running.running[number] = at, "", ()
    late = {n: began + TIMEOUT_S for n, (began, ended) in enumerate(spans) if ended - began > TIMEOUT_S * 1.001}
    assert {n: found[n] for n in late} == late
    assert all(spans[n][1] - spans[n][0] > TIMEOUT_S * 0.999 for n in found)
