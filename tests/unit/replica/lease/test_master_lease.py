"""Until when a master may serve, by the frames that its replicas have confirmed."""

from __future__ import annotations

from replica.lease.master_lease import ALWAYS, NEVER, MasterLease


def test_the_lease_counts_from_when_the_newest_confirmed_frame_was_sent() -> None:
    lease = MasterLease(2.0)
    assert lease.ends_at((2,)) == NEVER
    lease.confirmed(2, 10.0)
    lease.confirmed(2, 9.0)  # an acknowledgement that comes late
    assert lease.ends_at((2,)) == 12.0


def test_the_replica_whose_confirmation_is_the_oldest_ends_it() -> None:
    lease = MasterLease(2.0)
    lease.confirmed(2, 10.0)
    lease.confirmed(3, 10.5)
    assert lease.ends_at((2, 3)) == 12.0
    assert lease.ends_at((3,)) == 12.5
    assert lease.ends_at((2, 3, 4)) == NEVER


def test_a_master_that_is_alone_in_sync_needs_no_lease() -> None:
    assert MasterLease(2.0).ends_at(()) == ALWAYS


def test_after_a_doubt_about_the_clock_only_later_frames_count() -> None:
    lease = MasterLease(2.0)
    lease.confirmed(2, 10.0)
    lease.void(11.0)
    lease.confirmed(2, 10.9)
    assert lease.ends_at((2,)) == NEVER
    lease.confirmed(2, 11.1)
    assert lease.ends_at((2,)) == 13.1
