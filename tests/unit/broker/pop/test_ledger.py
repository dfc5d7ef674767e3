"""All windows of a broker, by example; the laws are in `tests/property/test_pop_ledger.py`."""

from __future__ import annotations

import pytest

from broker.pop import ledger as pop_ledger
from broker.pop.journal import Entry, Times
from broker.pop.ledger import GroupQueue, PopKey, PopLedger
from model.errors import SystemBusy

KEY = PopKey("g", "t", 0)


def ledger_of(notes: list[Entry] | None = None) -> PopLedger:
    entries: list[Entry] = [] if notes is None else notes
    return PopLedger(entries.append, lambda queue: None)


def deliver(ledger: PopLedger, queue: GroupQueue, n: int, token: int, invisible_s: float = 10.0) -> None:
    first = queue.window.next_offset
    ledger.deliver(
        queue,
        range(first, first + n),
        upto=first + n,
        token=token,
        client_id="c",
        times=Times(0.0, 0.0),
        invisible_s=invisible_s,
    )


def test_queues_whose_messages_become_due_are_reported_in_the_order_of_their_times() -> None:
    ledger = ledger_of()
    late, soon = ledger.open(KEY, 0), ledger.open(PopKey("g", "t", 1), 0)
    deliver(ledger, late, 1, 1, invisible_s=3.0)
    deliver(ledger, soon, 1, 2, invisible_s=2.0)
    assert ledger.next_deadline() == 2.0
    assert ledger.expire(Times(3.0, 3_000), 10) == [soon, late]
    assert ledger.next_deadline() is None


def test_of_a_million_messages_that_become_due_at_once_some_wait_for_the_next_turn() -> None:
    ledger = ledger_of()
    queue = ledger.open(KEY, 0)
    for token in range(1, 11):
        deliver(ledger, queue, 10, token)
    assert ledger.expire(Times(10.0, 10_000), 35) == [queue]
    assert (queue.window.due_count, ledger.next_deadline()) == (40, 10.0)
    assert ledger.expire(Times(10.0, 10_000), 1_000) == [queue]
    assert (queue.window.due_count, ledger.next_deadline()) == (100, None)


def test_what_is_forgotten_has_no_messages_no_deadline_and_no_handle() -> None:
    ledger = ledger_of()
    queue = ledger.open(KEY, 0)
    deliver(ledger, queue, 3, 1)
    assert ledger.messages == 3
    ledger.forget(queue)
    ledger.forget(queue)
    assert (ledger.messages, ledger.next_deadline(), ledger.queues) == (0, None, {})


def test_queues_of_which_nothing_is_in_flight_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_ledger, "MAX_POP_QUEUES", 2)
    ledger = ledger_of()
    deliver(ledger, ledger.open(KEY, 0), 1, 1)
    ledger.open(PopKey("g", "t", 1), 0)
    third = ledger.open(PopKey("g", "t", 2), 0)
    deliver(ledger, third, 1, 1)
    assert sorted(ledger.queues) == [KEY, third.key]
    with pytest.raises(SystemBusy, match="2 queues"):
        ledger.open(PopKey("g", "t", 3), 0)


def test_messages_that_a_power_cut_took_are_in_flight_for_no_one() -> None:
    notes: list[Entry] = []
    ledger = ledger_of(notes)
    deliver(ledger, ledger.open(KEY, 0), 5, 1)
    deliver(ledger, ledger.open(PopKey("g", "gone", 0), 0), 5, 1)
    again = ledger_of()
    again.restore([], notes, Times(0.0, 0.0), lambda key: 3 if key == KEY else None)
    assert list(again.queues) == [KEY]
    assert (again.queues[KEY].window.next_offset, again.messages) == (3, 3)


def test_consumers_that_acknowledge_at_once_leave_no_deadlines_behind() -> None:
    ledger = ledger_of()
    queue = ledger.open(KEY, 0)
    for token in range(1, 2_000):
        deliver(ledger, queue, 1, token, invisible_s=60.0)
        ledger.ack(queue, token, [token - 1])
    assert len(ledger._deadlines) == 1
