"""Laws of the admission of a late server, for any arrivals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from model.limits import LATE_S, MAX_RETRY_AFTER_S, MIN_RETRY_AFTER_S, STANDING_QUEUE_S
from remoting.overload.admission import WAITS, Admission, request_rank
from remoting.request_code import RequestCode
from remoting.wire.field import Rank

CODES = (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ, RequestCode.SEND_MESSAGE, RequestCode.PULL_MESSAGE)
ARRIVAL = st.tuples(st.sampled_from(CODES), st.none() | st.floats(0, 4), st.integers(0, 1_000))
STEP = st.tuples(st.floats(0, 0.7), st.lists(ARRIVAL, max_size=40))


@given(st.lists(STEP, max_size=30))
def test_each_request_gets_one_decision_in_order_of_arrival_and_none_that_its_sender_does_not_wait_for(
    steps: list[tuple[float, list[tuple[RequestCode, float | None, int]]]],
) -> None:
    admission: Admission[int] = Admission()
    now, arrived, gives_up = 0.0, dict[int, float](), dict[int, float]()
    ranks, open_ones, last_served = dict[int, Rank](), dict[int, None](), dict[Rank, int]()
    for pause, arrivals in steps:
        now += pause
        admission.record_iteration(LATE_S * 2 if arrivals else 0.0, now=now)
        for code, wait_s, size in arrivals:
            n = len(arrived)
            arrived[n], gives_up[n], ranks[n] = now, now + (100 if wait_s is None else wait_s), request_rank(code)
            answer = admission.arrive(now, code, wait_s, size, n)
            assert (answer is None) == (ranks[n] is Rank.KEEPALIVE)
            if answer == WAITS:
                open_ones[n] = None
        taken = admission.next_slice(now)
        assert MIN_RETRY_AFTER_S <= taken.retry_after_s <= MAX_RETRY_AFTER_S
        for n in taken.serve:
            del open_ones[n]  # fails for a second decision
            assert now < gives_up[n]
            assert now - arrived[n] <= STANDING_QUEUE_S
            assert n > last_served.get(ranks[n], -1)
            last_served[ranks[n]] = n
        for n in taken.refuse:
            del open_ones[n]
            assert now < gives_up[n]
            assert now > arrived[n]
        for n in taken.forget:
            del open_ones[n]
            assert now >= gives_up[n]
        assert len(admission) == len(open_ones)
        assert admission.engaged == bool(open_ones or arrivals)
    while open_ones:  # nothing waits for ever
        now += 0.01
        admission.record_iteration(0.0, now=now)
        taken = admission.next_slice(now)
        for n in (*taken.serve, *taken.refuse, *taken.forget):
            del open_ones[n]
