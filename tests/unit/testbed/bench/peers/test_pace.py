from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.peers.pace import NS, Latencies, SendTimes, latencies, read_stamp, stamp_body


@given(st.integers(1, 200_000), st.integers(1, 5_000), st.integers(0, NS))
def test_a_message_is_due_from_its_intended_nanosecond_on_and_not_before(per_s: int, count: int, start_ns: int) -> None:
    pace = SendTimes(start_ns, per_s, count)
    for number in {0, count // 2, count - 1}:
        at = pace.intended_ns(number)
        assert pace.due(at) > number
        assert pace.due(at - 1) <= number
    assert pace.due(pace.intended_ns(count) + NS) == count


def test_intended_times_do_not_move_when_a_send_is_late() -> None:
    pace = SendTimes(5 * NS, 1000, 100)
    assert pace.due(5 * NS + 50_000_000) == 51
    assert pace.intended_ns(2) == 5 * NS + 2_000_000
    assert pace.due(5 * NS - 1) == 0


def test_a_body_has_its_number_and_its_intended_time() -> None:
    body = stamp_body(7, 123, 256)
    assert len(body) == 256
    assert read_stamp(body) == (7, 123)


def test_percentiles_are_those_of_all_messages_that_should_have_come() -> None:
    came = [number * 1_000_000 for number in range(100, 0, -1)]
    assert latencies(came, 100) == Latencies(p50=50.0, p99=99.0, p999=100.0, missing=0)
    assert latencies(came, 101) == Latencies(p50=51.0, p99=100.0, p999=math.inf, missing=1)
    assert latencies([], 3) == Latencies(p50=math.inf, p99=math.inf, p999=math.inf, missing=3)
