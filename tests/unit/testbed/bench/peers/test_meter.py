from __future__ import annotations

from testbed.bench.peers.meter import Meter


def test_the_clock_starts_with_the_first_call_whose_messages_do_not_count() -> None:
    times = iter([10.0, 12.0])
    meter = Meter(30, lambda: next(times))
    assert (meter.rate(), meter.elapsed(), meter.done) == (0.0, 0.0, False)
    meter.take([b"a"] * 10)
    meter.take([b"a"] * 10)
    meter.take([b"a"] * 10)
    assert meter.done
    assert meter.rate() == 10.0  # 20 messages in 2 s, and the clock stands still after the last one
    assert meter.elapsed() == 2.0


def test_a_round_that_ends_early_counts_what_has_come() -> None:
    times = iter([0.0, 4.0, 4.0])
    meter = Meter(1000, lambda: next(times))
    meter.take([b"a"])
    meter.take([b"a"] * 8)
    assert not meter.done
    assert meter.rate() == 2.0
