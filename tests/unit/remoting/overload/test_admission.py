"""What a late server serves first, refuses and forgets."""

from __future__ import annotations

from model.limits import (
    LATE_S,
    MAX_RETRY_AFTER_S,
    MAX_SLICE_REQUESTS,
    MAX_WAITING_BYTES,
    MAX_WAITING_REQUESTS,
    MIN_RETRY_AFTER_S,
    MIN_SLICE_REQUESTS,
    SLICE_S,
    STANDING_QUEUE_S,
)
from remoting.overload.admission import WAITS, Admission, request_rank
from remoting.request_code import RequestCode
from remoting.wire.field import Rank

SEND, LOCK, HEARTBEAT = RequestCode.SEND_MESSAGE, RequestCode.LOCK_BATCH_MQ, RequestCode.HEART_BEAT


def late(now: float = 0.0) -> Admission[str]:
    admission: Admission[str] = Admission()
    admission.record_iteration(LATE_S * 1.01, now=now)
    for _ in range(MAX_SLICE_REQUESTS // MIN_SLICE_REQUESTS):
        admission.record_iteration(0.0, now=now)  # the slice has its full length again
    return admission


def put(admission: Admission[str], now: float, code: int, name: str, wait_s: float | None = None) -> float | None:
    return admission.arrive(now, code, wait_s, 0, name)


def test_a_server_is_late_after_an_iteration_that_was_longer_than_the_limit_and_until_nothing_waits() -> None:
    admission: Admission[str] = Admission()
    admission.record_iteration(LATE_S, now=0.0)
    assert not admission.engaged
    admission.record_iteration(LATE_S * 1.01, now=1.0)
    admission.next_slice(1.0)  # nothing was put aside yet, but more may have come meanwhile
    assert admission.engaged
    assert put(admission, 1.0, SEND, "send") == WAITS
    admission.record_iteration(LATE_S, now=1.1)
    assert admission.next_slice(1.1).serve == ["send"]
    assert not admission.engaged


def test_what_keeps_a_group_alive_is_served_as_it_is_read_however_much_waits() -> None:
    admission = late()
    for n in range(MAX_WAITING_REQUESTS):
        put(admission, 0.0, SEND, str(n))
    assert put(admission, 9.0, HEARTBEAT, "heartbeat") is None
    assert {request_rank(code) for code in (RequestCode.UNREGISTER_CLIENT, RequestCode.UNLOCK_BATCH_MQ)} == {
        Rank.KEEPALIVE
    }
    assert (
        request_rank(RequestCode.UPDATE_CONSUMER_OFFSET)
        == request_rank(RequestCode.BATCH_ACK_MESSAGE)
        == Rank.KEEPALIVE
    )


def test_leases_go_before_sends_that_came_before_them() -> None:
    admission = late()
    put(admission, 0.0, SEND, "send")
    put(admission, 0.01, LOCK, "lock")
    assert admission.next_slice(0.02).serve == ["lock", "send"]


def test_sends_have_a_quarter_of_a_slice_although_leases_would_fill_it() -> None:
    admission = late()
    for n in range(MAX_SLICE_REQUESTS):
        put(admission, 0.0, LOCK, f"lock {n}")
        put(admission, 0.0, SEND, f"send {n}")
    served = admission.next_slice(0.01).serve
    assert len(served) == MAX_SLICE_REQUESTS
    assert sum(name.startswith("send") for name in served) == MAX_SLICE_REQUESTS // 4


def test_a_request_whose_sender_has_abandoned_is_forgotten() -> None:
    admission = late()
    put(admission, 0.0, LOCK, "impatient", wait_s=0.2)
    put(admission, 0.0, LOCK, "patient", wait_s=0.5)
    taken = admission.next_slice(0.2)
    assert (taken.forget, taken.serve) == (["impatient"], ["patient"])


def test_a_burst_is_served_whole_but_a_standing_queue_refuses_what_has_waited_longer_than_the_target() -> None:
    burst = late()
    put(burst, 0.0, SEND, "waited")
    assert burst.next_slice(STANDING_QUEUE_S).serve == ["waited"]

    standing = late()
    for n in range(100):
        put(standing, n * 0.02, SEND, str(n))
    taken = standing.next_slice(STANDING_QUEUE_S + 0.99)
    assert len(taken.refuse) == 95  # the last five came within the target of 0.1 s
    assert taken.serve == ["95", "96", "97", "98", "99"]


def test_the_time_to_wait_grows_as_long_as_the_queue_stands_up_to_a_bound() -> None:
    admission = late()
    put(admission, 0.0, SEND, "send")
    assert admission.next_slice(0.0).retry_after_s == MIN_RETRY_AFTER_S
    admission = late()
    for n in range(10_000):
        put(admission, 0.0, SEND, str(n))
    assert admission.next_slice(0.5).retry_after_s == 0.5
    assert admission.next_slice(60.0).retry_after_s == MAX_RETRY_AFTER_S


def test_what_is_beyond_the_bounds_is_refused_as_it_comes() -> None:
    admission = late()
    assert admission.arrive(0.0, SEND, None, MAX_WAITING_BYTES, "largest") == WAITS
    assert admission.arrive(0.0, SEND, None, 1, "one byte more") == MIN_RETRY_AFTER_S
    admission = late()
    for n in range(MAX_WAITING_REQUESTS):
        assert put(admission, 0.0, SEND, str(n)) == WAITS
    assert put(admission, 0.0, LOCK, "one more") == MIN_RETRY_AFTER_S
    admission.next_slice(0.0)
    assert put(admission, 0.0, LOCK, "there is room again") == WAITS


def test_slices_shrink_while_serving_them_takes_long_and_grow_again() -> None:
    admission = late()
    for n in range(3 * MAX_SLICE_REQUESTS):
        put(admission, 0.0, SEND, str(n))
    for _ in range(20):
        admission.record_iteration(SLICE_S * 2.1, now=0.0, serving_s=SLICE_S * 2.1)
    assert len(admission.next_slice(0.0).serve) == MIN_SLICE_REQUESTS
    for _ in range(100):
        admission.record_iteration(SLICE_S / 2, now=0.0, serving_s=SLICE_S / 2)
    assert len(admission.next_slice(0.0).serve) == MAX_SLICE_REQUESTS


def test_slices_are_as_long_as_the_reading_takes() -> None:
    admission = late()
    for n in range(MAX_SLICE_REQUESTS):
        put(admission, 0.0, SEND, str(n))
    for _ in range(20):
        admission.record_iteration(LATE_S, now=0.0, serving_s=LATE_S / 2)
    assert len(admission.next_slice(0.0).serve) == MAX_SLICE_REQUESTS


def test_a_request_of_which_more_than_half_of_the_senders_time_is_over_is_refused() -> None:
    admission = late()
    put(admission, 0.0, LOCK, "lock", wait_s=0.5)
    assert admission.next_slice(0.26).refuse == ["lock"]
