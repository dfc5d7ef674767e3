"""The clock of leases, and the watch that finds a machine that stood still."""

from __future__ import annotations

from replica.lease.clocks import APART_S, ClockWatch, boot_clock


def test_the_clock_goes_forward() -> None:
    first = boot_clock()
    assert boot_clock() >= first


def test_clocks_that_go_on_together_are_not_pause_however_long_it_takes() -> None:
    watch = ClockWatch(100.0, 5_000_000.0)
    assert not watch.looked(4_000.0, 5_000_000.0 + 3_900_000)


def test_a_wall_clock_that_jumped_in_either_direction_is_one_once() -> None:
    watch = ClockWatch(0.0, 0.0)
    for step_ms in (-150.0, 150.0):
        assert watch.looked(1.0, 1_000.0 + step_ms)
        assert not watch.looked(2.0, 2_000.0 + step_ms)
        assert watch.looked(2.0, 2_000.0)


def test_a_clock_that_is_corrected_slowly_is_none() -> None:
    watch = ClockWatch(0.0, 0.0)
    assert not any(watch.looked(float(t), t * (1_000 + 900 * APART_S)) for t in range(1, 50))
