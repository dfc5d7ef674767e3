"""The worked example of the module header; the laws are in `tests/property/test_ordered_process_queue_laws.py`."""

from __future__ import annotations

from client.pull.ordered_process_queue import OrderedProcessQueue, by_key, whole_queue
from model.message import MessageExt
from model.message_queue import MessageQueue


def message(offset: int, key: str = "") -> MessageExt:
    queue = MessageQueue("topic", "broker", 0)
    return MessageExt(queue, offset, 0, 0, "topic", b"body", "", (key,) if key else (), {}, 0, f"id-{offset}")


def handed_out(queue: OrderedProcessQueue, n: int = 1, now: float = 0.0) -> list[tuple[int, int]]:
    return [(one.offset, one.times_delivered) for one in queue.next_batch(n, now)]


def test_a_key_that_waits_does_not_hold_up_the_others() -> None:
    queue = OrderedProcessQueue(1, by_key)
    a1, b2, a3, c4 = message(1, "a"), message(2, "b"), message(3, "a"), message(4, "c")
    queue.put([a1, b2, a3, c4])
    assert [handed_out(queue) for _ in range(4)] == [[(1, 0)], [(2, 0)], [(4, 0)], []]
    queue.requeue([a1], not_before=5.0)
    queue.finish([b2])
    assert (queue.commit_offset, queue.next_retry_deadline(), queue.ready(4.9)) == (1, 5.0, False)
    assert handed_out(queue, now=5.0) == [(1, 1)]
    assert queue.finish([a1]) == 3
    assert handed_out(queue) == [(3, 0)]
    assert queue.finish([a3]) == 4
    assert queue.finish([c4]) == 5


def test_messages_without_a_key_wait_for_no_one() -> None:
    queue = OrderedProcessQueue(0, by_key)
    queue.put([message(0), message(1), message(2)])
    assert [handed_out(queue, 9) for _ in range(3)] == [[(0, 0)], [(1, 0)], [(2, 0)]]


def test_a_batch_in_queue_order_is_the_head_of_the_queue() -> None:
    queue = OrderedProcessQueue(0, whole_queue)
    queue.put([message(n, "ab"[n % 2]) for n in range(5)])
    assert handed_out(queue, 3) == [(0, 0), (1, 0), (2, 0)]
    assert handed_out(queue, 3) == []


def test_what_was_processed_without_a_commit_is_redelivered_after_a_rollback() -> None:
    queue = OrderedProcessQueue(0, whole_queue)
    queue.put([message(n) for n in range(4)])
    for _ in range(2):
        queue.hold(queue.next_batch(1, 0.0))
    assert (queue.commit_offset, queue.dispatched, queue.count) == (0, 0, 4)
    queue.roll_back(message(0), not_before=1.0)
    assert not queue.ready(0.5)
    assert handed_out(queue, 9, 1.0) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_a_commit_ends_all_that_was_held() -> None:
    queue = OrderedProcessQueue(0, whole_queue)
    queue.put([message(n) for n in range(4)])
    queue.hold(queue.next_batch(2, 0.0))
    assert queue.finish_held(message(0)) == 2
    assert handed_out(queue) == [(2, 0)]


def test_a_dropped_queue_hands_nothing_out_and_still_takes_what_is_finished() -> None:
    queue = OrderedProcessQueue(0, whole_queue)
    queue.put([message(0), message(1)])
    batch = queue.next_batch(1, 0.0)
    queue.drop()
    assert queue.finish(batch) == 1
    assert not queue.ready(9.0)
    assert queue.next_retry_deadline() is None


def test_lanes_that_are_done_with_are_forgotten() -> None:
    queue = OrderedProcessQueue(0, by_key)
    for offset in range(1000):
        queue.put([message(offset, f"k{offset}")])
        queue.finish(queue.next_batch(1, 0.0))
    assert not queue._lanes
