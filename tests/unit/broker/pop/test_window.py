"""The window of one queue, by example; the laws are in `tests/property/test_pop_window.py`."""

from __future__ import annotations

from array import array

from broker.pop.window import BatchRow, PopWindow
from model.limits import MAX_POP_WINDOW


def popped(window: PopWindow, n: int, *, token: int, visible_at: float = 10.0) -> list[int]:
    first = window.next_offset
    offsets = list(range(first, first + n))
    window.deliver(offsets, upto=first + n, token=token, client_id="c", now=0.0, visible_at=visible_at)
    return offsets


def test_the_committed_offset_moves_when_the_oldest_message_is_acknowledged() -> None:
    window = PopWindow(5)
    popped(window, 5, token=1)
    assert window.ack(1, [6, 7]) == [6, 7]
    assert (window.committed, window.invisible) == (5, 3)
    assert window.ack(1, [5]) == [5]
    assert (window.committed, window.invisible) == (8, 2)


def test_a_handle_is_dead_once_its_message_was_acknowledged_or_delivered_again() -> None:
    window = PopWindow(0)
    popped(window, 2, token=1, visible_at=1.0)
    assert window.ack(1, [0]) == [0]
    assert window.ack(1, [0]) == []
    assert window.expire(1.0) == 1
    due = window.due(10)
    assert due == ([1], [1])
    assert window.deliver(due.offsets, upto=2, token=2, client_id="d", now=0.0, visible_at=2.0) == [2]
    assert window.ack(1, [1]) == []
    assert window.ack(2, [1]) == [1]
    assert window.is_idle


def test_a_late_acknowledgement_counts_until_the_message_is_delivered_again() -> None:
    window = PopWindow(0)
    popped(window, 1, token=1, visible_at=1.0)
    window.expire(5.0)
    assert window.ack(1, [0]) == [0]
    assert window.due(1).offsets == []


def test_a_message_that_is_made_invisible_again_has_a_new_handle_and_the_others_keep_theirs() -> None:
    window = PopWindow(0)
    popped(window, 2, token=1, visible_at=1.0)
    assert window.extend(1, 0, new_token=9, now=0.0, visible_at=5.0)
    assert not window.extend(1, 0, new_token=10, now=0.0, visible_at=6.0)
    assert (window.ack(1, [0, 1]), window.next_deadline()) == ([1], 5.0)
    assert window.ack(9, [0]) == [0]


def test_a_row_of_messages_that_reaches_beyond_its_delivery_ends_only_those_that_are_of_it() -> None:
    window = PopWindow(0)
    popped(window, 3, token=1)
    popped(window, 3, token=2)
    assert window.ack(2, [2, 3, 4, 5, 6]) == [3, 4, 5]
    assert window.ack(1, [-1, 0, 1]) == [0, 1]
    assert window.ack(1, [2, 2]) == [2]
    assert window.is_idle


def test_the_floor_passes_over_many_at_once() -> None:
    window = PopWindow(0)
    popped(window, 1, token=1)
    popped(window, 500, token=2)
    popped(window, 1, token=3 << 56)
    window.ack(2, list(range(1, 501)))
    assert window.committed == 0
    window.ack(1, [0])
    assert window.committed == 501
    window.ack(3 << 56, [501])
    assert window.is_idle


def test_no_one_has_the_token_nought() -> None:
    window = PopWindow(0)
    popped(window, 1, token=1)
    assert window.ack(0, [0]) == []
    assert not window.extend(0, 0, new_token=2, now=0.0, visible_at=1.0)


def test_what_a_filter_passed_over_is_done_with() -> None:
    window = PopWindow(0)
    window.deliver([3], upto=6, token=1, client_id="c", now=0.0, visible_at=1.0)
    assert (window.committed, window.next_offset) == (3, 6)
    window.ack(1, [3])
    assert window.committed == 6


def test_a_full_window_has_no_room() -> None:
    window = PopWindow(0)
    window.deliver([0], upto=1, token=1, client_id="c", now=0.0, visible_at=1.0)
    window.deliver([MAX_POP_WINDOW - 1], upto=MAX_POP_WINDOW, token=2, client_id="c", now=0.0, visible_at=1.0)
    assert window.room == 0
    window.ack(1, [0])
    assert window.room == MAX_POP_WINDOW - 1


def test_what_was_stored_comes_back_and_what_was_in_no_batch_is_due() -> None:
    window = PopWindow(7)
    popped(window, 3, token=1, visible_at=5.0)
    popped(window, 2, token=2, visible_at=6.0)
    window.ack(1, [8])
    again = PopWindow.restored(*window.columns(), [BatchRow(2, "c", 0.0, 6.0)])
    assert (again.committed, again.next_offset, again.invisible) == (7, 12, 2)
    assert again.due(9) == ([7, 9], [1, 1])
    assert again.ack(2, [10, 11]) == [10, 11]


def test_what_is_acknowledged_at_once_leaves_no_memory_behind() -> None:
    window = PopWindow(0)
    for token in range(1, 5_000):
        window.ack(token, popped(window, 1, token=token, visible_at=1e9))
    assert len(window._deadlines) < 100
    assert len(window._tokens) < 2_000
    assert isinstance(window._tokens, array)
