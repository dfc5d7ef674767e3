"""When a contested lease counts as given up."""

from __future__ import annotations

import pytest

from broker.leases.leaseless.implicit_leases import ImplicitLease, ImplicitLeases, contested_lease_ends_at
from broker.leases.table import QueueKey
from model.limits import MAX_PROCESS_QUEUE_BYTES

KEY = ("g", QueueKey("t", 0))


@pytest.mark.parametrize(
    ("taken", "unprocessed", "at"),
    [
        (ImplicitLease(0.0, 5.0, 5.0, contested_at=6.0), 0, 6.0),
        (ImplicitLease(0.0, 5.0, 5.0, contested_at=6.0), 1, 7.2),
        (ImplicitLease(0.0, 9.0, 5.0, contested_at=6.0), 999, 10.0),
        (ImplicitLease(0.0, 9.0, 5.0, contested_at=6.0), 1000, 21.0),
        (ImplicitLease(0.0, 9.0, 11.0, contested_at=6.0), 1000, 23.0),
        (ImplicitLease(0.0, 9.0, 5.0, contested_at=6.0, sent_bytes=MAX_PROCESS_QUEUE_BYTES), 1, 21.0),
    ],
)
def test_an_owner_is_given_as_long_as_flow_control_may_need(taken: ImplicitLease, unprocessed: int, at: float) -> None:
    assert contested_lease_ends_at(taken, unprocessed) == pytest.approx(at)


def test_a_lease_is_contested_once_and_until_it_is_free() -> None:
    table = ImplicitLeases()
    assert table.contest(KEY, 1.0) is None
    taken = table.record_pull(KEY, 1.0)
    assert not table.record_commit(KEY, 2.0)
    assert table.contest(KEY, 3.0) == 3.0
    assert table.contest(KEY, 4.0) is None
    assert table.record_commit(KEY, 5.0)
    assert (taken.contested_at, taken.committed_at) == (3.0, 5.0)
    assert table.contested_leases() == [(KEY, taken)]
    table.forget(KEY)
    assert (len(table), table.contested_leases(), table.get(KEY)) == (0, [], None)
    assert not table.record_pull(KEY, 6.0).is_contested(9.0)


def test_a_commit_of_a_queue_that_no_one_took_is_nothing() -> None:
    assert not ImplicitLeases().record_commit(KEY, 1.0)


def test_a_lease_that_was_just_taken_is_not_contested_before_its_time() -> None:
    table = ImplicitLeases()
    taken = table.record_pull(KEY, 1.0)
    assert table.contest(KEY, 1.5) == 2.0
    assert (taken.is_contested(1.9), taken.is_contested(2.0)) == (False, True)
