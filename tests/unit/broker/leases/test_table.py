"""Leases: one holder at a time, tokens that grow, and whoever was refused is told once."""

from __future__ import annotations

import pytest

from broker.leases.table import FreedLease, QueueKey, QueueLeases
from model.quirks import Quirk

Q, R = QueueKey("t", 0), QueueKey("t", 1)


def locks_of(*held: tuple[str, QueueKey]) -> QueueLeases:
    """Locks of group `g` in which each client id has its queue, with tokens from 1."""
    locks = QueueLeases()
    for client_id, queue in held:
        assert locks.acquire("g", client_id, queue) is not None
    return locks


def owner(locks: QueueLeases, queue: QueueKey = Q, group: str = "g") -> str | None:
    lease = locks.owner_of(group, queue)
    return None if lease is None else lease.owner


def test_the_worked_example_of_the_header() -> None:
    locks = QueueLeases()
    first = locks.acquire("g", "A", Q)
    assert first is not None
    assert first.token == 1
    assert locks.acquire("g", "B", Q) is None
    assert owner(locks) == "A"
    assert locks.release("g", "A", Q, 1) == FreedLease("g", Q, "A", 1, ("B",))
    assert locks.check("g", Q, "A", 1)
    second = locks.acquire("g", "B", Q)
    assert second is not None
    assert second.token == 2
    assert not locks.check("g", Q, "A", 1)


def test_an_owner_that_asks_again_keeps_its_token() -> None:
    locks = locks_of(("A", Q))
    lease = locks.acquire("g", "A", Q)
    assert lease is not None
    assert lease.token == 1


def test_groups_and_queues_do_not_disturb_each_other() -> None:
    locks = locks_of(("A", Q), ("B", R))
    assert locks.acquire("h", "B", Q) is not None
    assert [owner(locks, Q), owner(locks, R), owner(locks, Q, "h")] == ["A", "B", "B"]


def test_a_client_that_gets_a_freed_queue_back_has_a_new_token() -> None:
    locks = locks_of(("A", Q))
    locks.release("g", "A", Q, 1)
    lease = locks.acquire("g", "A", Q)
    assert lease is not None
    assert lease.token == 2
    assert not locks.check("g", Q, "A", 1)


@pytest.mark.parametrize(
    ("group", "client_id", "queue", "token"), [("h", "A", Q, 1), ("g", "B", Q, 1), ("g", "A", R, 1), ("g", "A", Q, 2)]
)
def test_only_the_owner_with_its_token_releases_or_passes_the_check(
    group: str, client_id: str, queue: QueueKey, token: int
) -> None:
    locks = locks_of(("A", Q))
    assert locks.release(group, client_id, queue, token) is None
    assert not locks.check(group, queue, client_id, token)
    assert owner(locks) == "A"


def test_a_second_release_says_nothing() -> None:
    locks = locks_of(("A", Q))
    assert locks.release("g", "A", Q, 1) is not None
    assert locks.release("g", "A", Q, 1) is None


def test_anyone_who_is_refused_is_named_once_in_the_order_of_asking() -> None:
    locks = locks_of(("A", Q))
    for client_id in ("C", "B", "C"):
        assert locks.acquire("g", client_id, Q) is None
    freed = locks.release("g", "A", Q, 1)
    assert freed is not None
    assert freed.waiters == ("C", "B")
    assert locks.acquire("g", "B", Q) is not None
    freed = locks.release("g", "B", Q, 2)
    assert freed is not None
    assert freed.waiters == ()


def test_a_member_that_leaves_holds_nothing_from_that_moment() -> None:
    locks = locks_of(("A", Q), ("A", R))
    locks.acquire("g", "B", R)
    freed = locks.owner_left("g", "A", now=5.0, grace_s=0.0)
    assert [(one.queue, one.owner, one.waiters) for one in freed] == [(Q, "A", ()), (R, "A", ("B",))]
    assert (locks.held_by("g", "A"), locks.owners(), locks.next_deadline()) == ([], [], None)


def test_a_grace_keeps_the_leases_of_a_member_that_left_until_its_end() -> None:
    locks = locks_of(("A", Q))
    assert locks.owner_left("g", "A", now=5.0, grace_s=60.0) == []
    assert locks.acquire("g", "B", Q) is None
    assert (locks.next_deadline(), locks.expire(64.9)) == (65.0, [])
    assert locks.expire(65.0) == [FreedLease("g", Q, "A", 1, ("B",))]
    assert locks.next_deadline() is None


def test_a_member_that_returns_within_the_grace_gets_back_what_it_asks_for_and_no_more() -> None:
    locks = locks_of(("A", Q), ("A", R))
    locks.owner_left("g", "A", now=5.0, grace_s=60.0)
    lease = locks.acquire("g", "A", Q)
    assert lease is not None
    assert lease.token == 1
    assert [freed.queue for freed in locks.expire(65.0)] == [R]
    assert locks.held_by("g", "A") == [Q]


def test_a_member_that_leaves_twice_gets_the_later_grace() -> None:
    locks = locks_of(("A", Q), ("A", R))
    locks.owner_left("g", "A", now=0.0, grace_s=60.0)
    locks.acquire("g", "A", Q)
    locks.owner_left("g", "A", now=30.0, grace_s=60.0)
    assert (locks.expire(60.0), locks.next_deadline()) == ([], 90.0)
    assert [freed.queue for freed in locks.expire(90.0)] == [Q, R]


def test_a_member_without_leases_leaves_without_a_trace() -> None:
    locks = locks_of(("A", Q))
    assert locks.owner_left("g", "B", now=0.0, grace_s=60.0) == []
    assert locks.owner_left("h", "A", now=0.0, grace_s=60.0) == []
    assert locks.next_deadline() is None


def test_a_restored_lease_is_its_owners_and_later_tokens_are_greater() -> None:
    locks = QueueLeases(first_token=40)
    locks.restore("g", Q, "A", 70)
    locks.restore("g", R, "B", 60)
    assert locks.owners() == [("g", "A"), ("g", "B")]
    assert locks.check("g", Q, "A", 70)
    lease = locks.acquire("g", "C", QueueKey("t", 2))
    assert lease is not None
    assert lease.token == 71


def test_tokens_start_above_what_the_caller_says() -> None:
    lease = QueueLeases(first_token=1_000).acquire("g", "A", Q)
    assert lease is not None
    assert lease.token == 1_001


def test_the_leases_of_a_deleted_topic_are_gone_and_their_tokens_stay_used() -> None:
    other = QueueKey("u", 0)
    locks = locks_of(("A", Q), ("A", other), ("B", R))
    locks.release("g", "B", R, 3)
    locks.forget_topic("t")
    assert (locks.held_by("g", "A"), locks.owners()) == ([other], [("g", "A")])
    assert not locks.check("g", Q, "A", 1)
    assert not locks.check("g", R, "B", 3)
    lease = locks.acquire("g", "A", Q)
    assert lease is not None
    assert lease.token == 4


def test_a_deleted_topic_of_a_member_in_its_grace_is_not_freed_again() -> None:
    locks = locks_of(("A", Q))
    locks.owner_left("g", "A", now=0.0, grace_s=60.0)
    locks.forget_topic("t")
    assert locks.expire(60.0) == []
    assert locks.next_deadline() is None


def test_what_a_client_holds_is_listed_sorted() -> None:
    locks = locks_of(("A", R), ("A", QueueKey("a", 3)), ("A", Q))
    assert locks.held_by("g", "A") == [QueueKey("a", 3), Q, R]


def test_under_the_quirk_anyone_who_asks_is_granted_and_anyone_who_had_the_queue_goes_on() -> None:
    locks = QueueLeases(quirks=frozenset({Quirk.OVERLAPPING_HANDOVER}))
    first = locks.acquire("g", "A", Q)
    second = locks.acquire("g", "B", Q)
    assert first is not None
    assert second is not None
    assert second.token > first.token
    assert locks.check("g", Q, "A", first.token)
    assert locks.check("g", Q, "B", second.token)
    assert (locks.held_by("g", "A"), locks.held_by("g", "B")) == ([], [Q])
    assert locks.release("g", "A", Q, first.token) is None
    assert locks.owner_left("g", "A", now=0.0, grace_s=0.0) == []
    assert locks.revoke("g", Q) is not None
    assert not locks.check("g", Q, "B", second.token), "a reset counts under the quirk, too"


def test_clients_that_leave_without_the_queue_they_asked_for_leave_nothing_behind() -> None:
    locks = locks_of(("A", Q), ("A", R))
    for client_id in ("B", "C"):
        for queue in (Q, R):
            assert locks.acquire("g", client_id, queue) is None
    locks.wait_no_longer("g", "B")
    locks.wait_no_longer("g", "nobody")
    held = locks.owner_of("g", Q)
    assert held is not None
    assert list(held.waiters) == ["C"]
    freed = locks.release("g", "A", Q, 1)
    assert freed is not None
    assert freed.waiters == ("C",)
    locks.forget_topic("t")
    locks.wait_no_longer("g", "C")  # nothing is left of what it waited for
