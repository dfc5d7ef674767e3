from __future__ import annotations

from broker.store.queue_state import QueueState
from broker.store.segments.index import IndexRow


def queue_with_tail(first: int, count: int) -> QueueState:
    queue = QueueState((1, 0), 0, first, IndexRow(first, bytearray()))
    queue.tail = [b"%d" % offset for offset in range(first, first + count)]
    queue.next_offset = queue.flushed_offset = first + count
    return queue


def test_dropping_the_tail_keeps_the_rest_at_its_offsets() -> None:
    queue = queue_with_tail(10, 5)
    queue.drop_tail_before(13)
    assert (queue.tail_base, queue.tail) == (13, [b"13", b"14"])
    queue.drop_tail_before(15)
    assert (queue.tail_base, queue.tail) == (15, [])


def test_dropping_what_is_gone_already_changes_nothing() -> None:
    queue = queue_with_tail(10, 2)
    queue.drop_tail_before(4)
    assert (queue.tail_base, queue.tail) == (10, [b"10", b"11"])
