"""The lease of a running master, on its clocks."""

from __future__ import annotations

import pytest

from replica.lease.held import MARGIN_WINDOW_S, HeldLease
from testbed.simulation.kernel.run import Simulation
from tests.unit.replica.stream.harness import World, simulated


class Clocks:
    now = 100.0
    ahead_s = 0.0

    def lease(self) -> float:
        return self.now

    def wall_ms(self) -> float:
        return 1000 * (self.now + self.ahead_s)


def made(clocks: Clocks) -> HeldLease:
    return HeldLease("b", 2.0, clocks.lease, clocks.wall_ms)


def test_a_master_serves_from_the_first_confirmation_until_two_seconds_after_the_sending_of_the_last_one() -> None:
    clocks = Clocks()
    lease = made(clocks)
    assert lease.holds()  # nobody else may be elected
    lease.wait_for((2,))
    assert not lease.holds()
    lease.confirmed(2, 99.5)
    assert lease.holds()
    clocks.now = 101.4
    assert lease.holds()
    clocks.now = 101.5
    assert not lease.holds()
    assert lease.lapses == 1
    lease.confirmed(2, 101.2)
    assert lease.holds()
    lease.wait_for(())
    clocks.now = 900.0
    assert lease.holds()
    assert lease.lapses == 1


def test_a_start_without_confirmations_is_not_a_lapse() -> None:
    lease = made(Clocks())
    lease.wait_for((2,))
    assert not lease.holds()
    assert lease.lapses == 0


def test_after_the_machine_stood_still_only_frames_that_are_sent_later_count() -> None:
    clocks = Clocks()
    lease = made(clocks)
    lease.wait_for((2,))
    lease.confirmed(2, 100.0)
    clocks.ahead_s = 30.0
    assert not lease.holds()
    lease.confirmed(2, 99.9)
    assert not lease.holds()
    clocks.now = 100.5
    lease.confirmed(2, 100.4)
    assert lease.holds()


@simulated
async def test_a_machine_that_was_paused_answers_nothing_because_of_a_confirmation_of_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused_ms, clock_ms = 0, world.simulation.clock_ms
    monkeypatch.setattr(Simulation, "clock_ms", lambda _: clock_ms() + paused_ms)
    master = await world.start_master()
    await world.start_replica(2)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    n = master.write(b"x")
    paused_ms = 60_000  # another replica may be the master since
    await world.until(lambda: master.sender.is_idle)
    assert master.committed < n
    await world.until(lambda: master.committed >= n)


def test_the_margin_is_the_least_that_was_left_at_a_renewal_of_the_last_minutes() -> None:
    clocks = Clocks()
    lease = made(clocks)
    lease.wait_for((2,))
    assert lease.margin_s is None
    lease.confirmed(2, 100.0)
    assert lease.margin_s is None
    for now, sent_at in ((100.4, 100.3), (101.9, 101.8), (102.1, 102.0)):
        clocks.now = now
        lease.confirmed(2, sent_at)
    assert lease.margin_s == pytest.approx(0.4)  # of the lease until 102.3, which was renewed at 101.9
    clocks.now = 102.2 + 2 * MARGIN_WINDOW_S
    assert lease.margin_s is None
