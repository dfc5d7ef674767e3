"""One replica at its master: when it has to leave the in-sync set, and when it may enter it."""

from __future__ import annotations

import pytest

from model.replica_limits import (
    REPLICA_BEACON_S,
    REPLICA_FRAME_TIMEOUT_S,
    REPLICA_JOIN_LAG_BYTES,
    REPLICA_MAX_LAG_BYTES,
    REPLICA_RECONNECT_S,
    REPLICA_REJOIN_MAX_S,
    REPLICA_REJOIN_S,
    REPLICA_SILENCE_S,
    REPLICA_START_S,
)
from replica.stream.phases import NEVER, Phase, ReplicaPhases


def following(now: float = 0.0, position: int = 1_000) -> ReplicaPhases:
    """A replica that has flush 7 and the log up to a position."""
    replica = ReplicaPhases(2, now)
    begin_following(replica, now, position=position)
    return replica


def begin_following(replica: ReplicaPhases, now: float, incarnation: int = 0, position: int = 1_000) -> None:
    """It connects, and gets everything."""
    replica.connected(now, position, incarnation)
    replica.snapshot_begins()
    replica.sent(now, 10, 7, position, crc=5)
    replica.snapshot_ends(now)
    assert replica.acknowledged(now, 1, 5)


def test_a_replica_goes_from_the_files_over_the_tables_to_the_flushes() -> None:
    replica = ReplicaPhases(2, 0.0)
    phases = [replica.phase]
    replica.connected(1.0, 500)
    phases.append(replica.phase)
    assert (replica.acked_position, replica.acked_n) == (500, -1)
    replica.sent(1.0, 100, -1, 600, crc=1)
    replica.snapshot_begins()
    phases.append(replica.phase)
    replica.sent(1.1, 50, 3, 600, crc=2)
    replica.snapshot_ends(1.1)
    assert [*phases, replica.phase] == list(Phase)
    assert replica.unacked_bytes == 150
    assert replica.acknowledged(1.2, 1, 1)
    assert (replica.acked_position, replica.acked_n, replica.may_join_at(600)) == (600, -1, NEVER)
    assert replica.acknowledged(1.3, 2, 2)
    assert (replica.acked_n, replica.may_join_at(600)) == (3, 1.1)


def test_a_closed_connection_is_trouble_unless_it_is_back_soon() -> None:
    replica = following()
    replica.disconnected(5.0)
    assert replica.leaves_at(1_000, NEVER).at == 5.0 + REPLICA_RECONNECT_S
    replica.connected(5.1, 1_000)
    replica.sent(5.2, 10, 7, 1_000, crc=6)
    assert replica.leaves_at(1_000, NEVER).at == 5.1 + REPLICA_SILENCE_S


def test_a_master_that_has_just_started_gives_the_others_time_to_connect() -> None:
    assert ReplicaPhases(2, 100.0).leaves_at(0, NEVER).at == pytest.approx(100.0 + REPLICA_START_S)


def test_silence_counts_from_the_sending_of_the_newest_frame_that_is_confirmed() -> None:
    replica = following()
    replica.sent(0.8, 10, 7, 1_000, crc=6, beacon=300.8)
    replica.sent(1.0, 10, 7, 1_000, crc=7, beacon=301.0)
    assert replica.acknowledged(1.1, 1, 5)  # the last one again
    assert replica.leaves_at(1_000, NEVER).at == REPLICA_SILENCE_S
    assert replica.acknowledged(1.15, 2, 6)
    assert replica.leaves_at(1_000, NEVER).at == 0.8 + REPLICA_SILENCE_S
    assert replica.confirmed_beacon == 300.8


def test_a_master_that_stood_still_asks_before_it_removes_a_replica() -> None:
    replica = following()
    assert replica.leaves_at(1_000, NEVER).at == NEVER, "it has confirmed everything"
    replica.sent(1.7, 10, 7, 1_000, crc=6)  # the first beacon after that
    assert replica.leaves_at(1_000, NEVER).at == 1.7 + REPLICA_BEACON_S
    assert replica.acknowledged(1.8, 2, 6)
    assert replica.leaves_at(1_000, NEVER).at == NEVER


def test_a_frame_that_has_come_and_waits_for_the_disk_is_not_a_silence_and_is_not_applied() -> None:
    replica = following()
    replica.sent(1.0, 10, 8, 1_100, crc=6, beacon=301.0)
    replica.sent(1.1, 10, 9, 1_200, crc=7, beacon=301.1)
    assert not replica.acknowledged(1.2, 1, 5, received=4)
    assert replica.acknowledged(1.2, 1, 5, received=2)
    assert (replica.acked_n, replica.acked_position, replica.confirmed_beacon) == (7, 1_000, 301.0)
    assert replica.leaves_at(1_200, NEVER).at == 1.0 + REPLICA_SILENCE_S
    assert replica.acknowledged(1.3, 2, 6, received=3)
    assert (replica.acked_n, replica.confirmed_beacon) == (8, 301.1)


def test_with_a_short_lease_a_silent_replica_leaves_before_the_lease_ends() -> None:
    replica = ReplicaPhases(2, 0.0, lease_s=1.0)
    replica.connected(5.0, 0)
    assert replica.beacon_at == 5.0 + 0.15
    replica.sent(5.15, 10, -1, 0, crc=6)
    assert replica.leaves_at(0, NEVER).at == 5.0 + 0.6


def test_a_flush_that_is_not_confirmed_in_time_is_trouble() -> None:
    replica = following()
    replica.sent(1.9, 10, 7, 1_000, crc=6)
    replica.acknowledged(1.9, 2, 6)
    assert replica.leaves_at(1_000, 0.5).at == 0.5 + REPLICA_FRAME_TIMEOUT_S


def test_a_replica_too_far_behind_is_in_trouble_at_once() -> None:
    replica = following()
    assert replica.leaves_at(1_000 + REPLICA_MAX_LAG_BYTES, NEVER).at > 0
    assert replica.leaves_at(1_001 + REPLICA_MAX_LAG_BYTES, NEVER).at == 0.0


def test_a_replica_that_lost_bytes_it_had_acknowledged_is_in_trouble_until_it_has_caught_up() -> None:
    replica = following()
    replica.connected(1.0, 999)
    assert (replica.leaves_at(1_000, NEVER).at, replica.acked_n) == (0.0, -1)
    replica.sent(1.0, 10, 8, 1_000, crc=6)
    assert replica.acknowledged(1.0, 1, 6)
    assert replica.leaves_at(1_000, NEVER).at > 1.0


def test_only_a_replica_close_behind_may_join() -> None:
    replica = following()
    assert replica.may_join_at(1_000 + REPLICA_JOIN_LAG_BYTES) == 0.0
    assert replica.may_join_at(1_001 + REPLICA_JOIN_LAG_BYTES) == NEVER


def test_a_replica_that_had_to_leave_has_to_be_stable_for_longer_each_time() -> None:
    replica = following()
    waits = []
    for _ in range(6):
        replica.left_in_sync_set(100.0, in_sync_since=99.0)
        waits.append(replica.may_join_at(1_000) - 100.0)
    assert waits == [REPLICA_REJOIN_S, 10.0, 20.0, 40.0, REPLICA_REJOIN_MAX_S, REPLICA_REJOIN_MAX_S]
    replica.left_in_sync_set(500.0, in_sync_since=500.0 - REPLICA_REJOIN_MAX_S)
    assert replica.may_join_at(1_000) == 500.0 + REPLICA_REJOIN_S


def test_a_replica_that_is_killed_or_stopped_again_and_again_does_not_wait_for_longer() -> None:
    replica = ReplicaPhases(2, 0.0)
    for incarnation, came_back_first in ((1, False), (2, False), (3, True), (4, True)):
        replica.connected(0.0, 1_000, incarnation)
        replica.disconnected(1.0)
        if came_back_first:  # before the register has its removal
            replica.connected(1.1, 1_000, incarnation + 1)
        replica.left_in_sync_set(1.2, in_sync_since=0.5)
        begin_following(replica, 2.0, incarnation + 1)
        assert replica.may_join_at(1_000) == 2.0 + REPLICA_REJOIN_S


def test_a_slow_replica_begins_again_when_its_process_is_a_new_one() -> None:
    replica = ReplicaPhases(2, 0.0)
    begin_following(replica, 0.0, incarnation=1)
    for _ in range(4):
        replica.left_in_sync_set(100.0, in_sync_since=99.0)
    begin_following(replica, 200.0, incarnation=1)
    assert replica.may_join_at(1_000) == 240.0  # it has only lost its connection
    begin_following(replica, 300.0, incarnation=2)
    assert replica.may_join_at(1_000) == 300.0 + REPLICA_REJOIN_S


def test_a_replica_whose_changes_are_not_kept_gets_the_tables_again() -> None:
    replica = following()
    replica.falls_back()
    assert (replica.phase, replica.sent_n, replica.acked_n, replica.may_join_at(1_000)) == (
        *(Phase.CATCHING_UP, -1, 7, NEVER),
    )


def test_a_beacon_is_due_when_nothing_else_was_sent() -> None:
    replica = following()
    assert replica.beacon_at == REPLICA_BEACON_S
    replica.sent(0.2, 1, 8, 1_001, crc=0)
    assert replica.beacon_at == 0.2 + REPLICA_BEACON_S
    replica.disconnected(0.3)
    assert replica.beacon_at == NEVER
