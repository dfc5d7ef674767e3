"""The books of a torture run: each thing that must never happen is seen, and what is allowed is not."""

from __future__ import annotations

from typing import Any

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from simulation.checks.invariants import MAX_VIOLATIONS, TortureInvariants

Q = MessageQueue("t", "b", 0)


def event(kind: EventKind, client: str = "c1", offset: int = -1, **more: Any) -> Event:
    columns: dict[str, Any] = {
        "t_ms": 0,
        "node": "b",
        "seq": 1,
        "kind": kind,
        "cause": "",
        "group": "g",
        "topic": "t",
        "broker": "b",
        "queue_id": 0,
        "client": client,
        "version": 1,
        "offset": offset,
        "n": -1,
        "detail": "",
    }
    return Event(**{**columns, **more})


def test_a_lease_that_is_given_back_or_expires_may_go_to_another() -> None:
    books = TortureInvariants(["g"])
    books.watch(event(EventKind.LOCK_GRANTED, "c1"))
    books.watch(event(EventKind.QUEUE_RELEASED, "c1"))
    books.watch(event(EventKind.LOCK_GRANTED, "c2"))
    books.watch(event(EventKind.LOCK_GRANTED, "c2"))
    books.watch(event(EventKind.LOCK_EXPIRED, "c2"))
    books.watch(event(EventKind.LOCK_GRANTED, "c1"))
    assert books.violations == []


def test_two_holders_of_one_lease_are_seen() -> None:
    books = TortureInvariants(["g"])
    books.watch(event(EventKind.LOCK_GRANTED, "c1"))
    books.watch(event(EventKind.LOCK_GRANTED, "c2"))
    assert "held by c1" in books.violations[0]


def test_a_commit_may_not_pass_what_no_listener_ended_with_nor_go_back() -> None:
    books = TortureInvariants(["g"])
    for offset in (1, 0, 3):
        books.ended("g", Q, offset)
    books.watch(event(EventKind.OFFSET_COMMITTED, offset=2))
    assert books.violations == []
    books.watch(event(EventKind.OFFSET_COMMITTED, offset=3))
    books.watch(event(EventKind.OFFSET_COMMITTED, offset=2))
    assert "passes 2" in books.violations[0]
    assert "goes back from 3" in books.violations[1]


def test_deliveries_may_repeat_and_may_not_leave_one_out() -> None:
    books = TortureInvariants(["g"])
    for offset in (0, 1, 0, 1, 2):
        books.delivered("g", Q, offset)
    assert (books.violations, books.deliveries, books.deliveries_again) == ([], 5, 2)
    books.delivered("g", Q, 4)
    assert "was never given 3" in books.violations[0]


def test_two_sends_of_one_producer_must_lie_in_order() -> None:
    books = TortureInvariants(["g"])
    books.acknowledged(0, 0, Q, 5)
    books.acknowledged(0, 1, Q, 6)
    books.acknowledged(1, 0, Q, 4)
    assert books.violations == []
    books.acknowledged(0, 2, Q, 6)
    assert "message 2 of producer 0" in books.violations[0]


def test_what_is_acknowledged_is_missing_until_every_group_has_it() -> None:
    books = TortureInvariants(["g", "h"])
    books.acknowledged(0, 0, Q, 0)
    books.failed(0, 1)
    assert books.lag == 2
    books.consumed("g", 0, 0)
    assert books.missing() == ["message 0 of producer 0 is lost to h"]
    books.consumed("h", 0, 0)
    assert books.missing() == []


def test_violations_do_not_pile_up() -> None:
    books = TortureInvariants(["g"])
    for offset in range(2, 500, 2):
        books.delivered("g", Q, offset)
    assert len(books.violations) == MAX_VIOLATIONS
