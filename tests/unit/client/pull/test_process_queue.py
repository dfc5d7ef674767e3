"""The process queue: what is handed out, when it comes again, what may be committed, and when pulling pauses."""

from __future__ import annotations

import pytest

from client.pull.process_queue import ProcessQueue
from model.limits import MAX_PROCESS_QUEUE_BYTES, MAX_PROCESS_QUEUE_COUNT, MAX_PROCESS_QUEUE_SPAN
from model.message import MessageExt
from model.message_queue import MessageQueue

QUEUE = MessageQueue("topic", "broker", 0)


def message(offset: int, body: bytes = b"body") -> MessageExt:
    """A message of which only offset and body matter."""
    return MessageExt(QUEUE, offset, 0, 0, "topic", body, "", (), {}, 0, f"id-{offset}")


def queue_with(*offsets: int) -> ProcessQueue:
    """A queue into which these offsets were put."""
    process_queue = ProcessQueue(min(offsets))
    process_queue.put([message(offset) for offset in offsets])
    return process_queue


def offsets_of(messages: list[MessageExt]) -> list[int]:
    """The offsets of messages."""
    return [one.offset for one in messages]


# --- commit point ----------------------------------------------------------------------------------------------------
def test_a_new_queue_commits_and_pulls_at_its_start() -> None:
    process_queue = ProcessQueue(7)
    assert (process_queue.commit_offset, process_queue.pull_offset) == (7, 7)
    assert (process_queue.count, process_queue.size_bytes, process_queue.span, process_queue.oldest()) == (
        0,
        0,
        0,
        None,
    )


def test_an_unknown_start_is_refused() -> None:
    with pytest.raises(AssertionError, match="-1"):
        ProcessQueue(-1)


def test_the_worked_example_of_the_header() -> None:
    process_queue = queue_with(5, 6, 7, 8)
    five, six, seven = process_queue.next_batch(3, 0.0)
    assert process_queue.commit_offset == 5
    assert process_queue.finish([six, seven]) == 5
    assert process_queue.finish([five]) == 8
    assert process_queue.finish(process_queue.next_batch(9, 0.0)) == 9
    assert process_queue.count == 0


def test_a_message_that_was_not_handed_out_holds_the_commit_point_back() -> None:
    process_queue = queue_with(0, 1, 2)
    assert process_queue.finish(process_queue.next_batch(2, 0.0)) == 2


def test_a_gap_in_the_offsets_is_passed_over() -> None:
    process_queue = queue_with(0, 4)
    assert process_queue.finish(process_queue.next_batch(1, 0.0)) == 4


def test_a_filtered_pull_moves_the_pull_and_with_nothing_unfinished_the_commit_point() -> None:
    process_queue = queue_with(0, 1)
    process_queue.advance(10)
    assert (process_queue.pull_offset, process_queue.commit_offset) == (10, 0)
    assert process_queue.finish(process_queue.next_batch(2, 0.0)) == 10


def test_the_pull_offset_never_goes_back() -> None:
    process_queue = queue_with(5, 6)
    process_queue.advance(3)
    assert process_queue.pull_offset == 7


# --- put -------------------------------------------------------------------------------------------------------------
def test_messages_that_are_cached_or_finished_already_are_ignored() -> None:
    process_queue = queue_with(0, 1, 2)
    process_queue.finish(process_queue.next_batch(1, 0.0))
    process_queue.next_batch(1, 0.0)
    process_queue.put([message(0), message(1), message(2), message(3), message(3)])
    assert process_queue.count == 3
    assert offsets_of(process_queue.next_batch(9, 0.0)) == [2, 3]


def test_bytes_are_those_of_the_bodies_that_are_unfinished() -> None:
    process_queue = ProcessQueue(0)
    process_queue.put([message(0, b"12345"), message(1, b"123")])
    process_queue.put([message(1, b"a duplicate counts for nothing")])
    assert process_queue.size_bytes == 8
    first = process_queue.next_batch(1, 0.0)
    assert process_queue.size_bytes == 8
    process_queue.finish(first)
    assert process_queue.size_bytes == 3


# --- hand-out and retry ----------------------------------------------------------------------------------------------
def test_each_message_is_handed_out_once_in_offset_order() -> None:
    process_queue = queue_with(3, 4, 5)
    assert offsets_of(process_queue.next_batch(2, 0.0)) == [3, 4]
    assert process_queue.dispatched == 2
    assert process_queue.ready(0.0)
    assert offsets_of(process_queue.next_batch(2, 0.0)) == [5]
    assert not process_queue.ready(0.0)
    assert process_queue.next_batch(2, 0.0) == []


def test_finishing_twice_counts_once() -> None:
    process_queue = queue_with(0, 1)
    batch = process_queue.next_batch(2, 0.0)
    assert process_queue.finish(batch[:1]) == 1
    assert process_queue.finish(batch[:1]) == 1
    assert (process_queue.count, process_queue.size_bytes, process_queue.dispatched) == (1, 4, 1)


def test_a_message_that_is_not_handed_out_cannot_finish() -> None:
    process_queue = queue_with(0)
    assert process_queue.finish([message(0), message(77)]) == 0
    assert process_queue.count == 1


def test_a_failed_message_is_redelivered_after_its_wait_and_before_new_ones() -> None:
    process_queue = queue_with(0, 1, 2)
    failed = process_queue.next_batch(1, 10.0)
    process_queue.requeue(failed, 15.0)
    assert (process_queue.dispatched, process_queue.next_retry_deadline()) == (0, 15.0)
    assert offsets_of(process_queue.next_batch(1, 14.9)) == [1]
    again = process_queue.next_batch(2, 15.0)
    assert offsets_of(again) == [0, 2]
    assert [one.times_delivered for one in again] == [1, 0]
    assert (process_queue.dispatched, process_queue.next_retry_deadline()) == (3, None)


def test_a_failed_message_holds_the_commit_point_back_until_it_finishes() -> None:
    process_queue = queue_with(0, 1)
    first, second = process_queue.next_batch(2, 0.0)
    process_queue.requeue([first], 5.0)
    assert process_queue.finish([second]) == 0
    assert process_queue.oldest() == first._replace(times_delivered=1)
    assert process_queue.finish(process_queue.next_batch(1, 5.0)) == 2


def test_failed_messages_are_redelivered_in_the_order_of_their_deadlines() -> None:
    process_queue = queue_with(0, 1, 2)
    first, second, third = process_queue.next_batch(3, 0.0)
    process_queue.requeue([third], 2.0)
    process_queue.requeue([second], 1.0)
    process_queue.requeue([first], 2.0)
    assert offsets_of(process_queue.next_batch(3, 2.0)) == [1, 0, 2]


def test_ready_follows_the_retry_deadline() -> None:
    process_queue = queue_with(0)
    process_queue.requeue(process_queue.next_batch(1, 0.0), 5.0)
    assert (process_queue.ready(4.9), process_queue.ready(5.0)) == (False, True)


def test_a_message_may_finish_after_it_was_given_back() -> None:
    process_queue = queue_with(0, 1)
    late = process_queue.next_batch(1, 0.0)
    process_queue.requeue(late, 5.0)
    assert process_queue.finish(late) == 1
    assert (process_queue.dispatched, process_queue.next_retry_deadline()) == (0, None)
    assert offsets_of(process_queue.next_batch(2, 5.0)) == [1]


def test_giving_back_twice_counts_one_failure() -> None:
    process_queue = queue_with(0)
    batch = process_queue.next_batch(1, 0.0)
    process_queue.requeue(batch, 5.0)
    process_queue.requeue(batch, 1.0)
    assert process_queue.next_retry_deadline() == 5.0
    assert [one.times_delivered for one in process_queue.next_batch(2, 5.0)] == [1]


def test_a_finished_message_cannot_be_given_back() -> None:
    process_queue = queue_with(0)
    batch = process_queue.next_batch(1, 0.0)
    process_queue.finish(batch)
    process_queue.requeue(batch, 1.0)
    assert (process_queue.count, process_queue.next_retry_deadline(), batch[0].times_delivered) == (0, None, 0)


# --- giving the queue up ---------------------------------------------------------------------------------------------
def test_a_dropped_queue_hands_nothing_out_and_is_idle_when_its_listeners_are_done() -> None:
    process_queue = queue_with(0, 1, 2, 3)
    first, second = process_queue.next_batch(2, 0.0)
    process_queue.drop()
    assert process_queue.dropped
    assert (process_queue.ready(0.0), process_queue.next_batch(9, 0.0), process_queue.dispatched) == (False, [], 2)
    assert process_queue.finish([first]) == 1
    process_queue.requeue([second], 5.0)
    assert (process_queue.dispatched, process_queue.next_retry_deadline(), process_queue.ready(9.0)) == (0, None, False)
    assert process_queue.commit_offset == 1


# --- flow control ----------------------------------------------------------------------------------------------------
def test_pulling_pauses_above_the_message_limit_and_not_at_it() -> None:
    process_queue = ProcessQueue(0, max_count=2)
    process_queue.put([message(0), message(1)])
    assert process_queue.flow_control_reason() is None
    process_queue.put([message(2)])
    assert process_queue.flow_control_reason() == "3 messages are unfinished, more than 2"
    process_queue.finish(process_queue.next_batch(1, 0.0))
    assert process_queue.flow_control_reason() is None


def test_pulling_pauses_above_the_byte_limit_and_not_at_it() -> None:
    process_queue = ProcessQueue(0, max_bytes=8)
    process_queue.put([message(0, b"1234"), message(1, b"5678")])
    assert process_queue.flow_control_reason() is None
    process_queue.put([message(2, b"9")])
    assert process_queue.flow_control_reason() == "9 bytes are unfinished, more than 8"


def test_pulling_pauses_above_the_span_and_not_at_it() -> None:
    process_queue = ProcessQueue(10, max_span=5)
    process_queue.put([message(10), message(15)])
    assert process_queue.flow_control_reason() is None
    process_queue.put([message(16)])
    assert process_queue.flow_control_reason() == "unfinished messages span 6 offsets, more than 5"


def test_one_stuck_message_bounds_what_is_delivered_again_even_if_all_others_finish() -> None:
    process_queue = ProcessQueue(0, max_span=5)
    process_queue.put([message(offset) for offset in range(7)])
    process_queue.finish(process_queue.next_batch(7, 0.0)[1:])
    assert (process_queue.count, process_queue.span) == (1, 6)
    assert process_queue.flow_control_reason() is not None


def test_the_limits_are_those_of_the_model_unless_given() -> None:
    process_queue = ProcessQueue(0)
    process_queue.put([message(offset) for offset in range(MAX_PROCESS_QUEUE_COUNT)])
    assert process_queue.flow_control_reason() is None
    process_queue.put([message(MAX_PROCESS_QUEUE_COUNT)])
    assert process_queue.flow_control_reason() is not None

    spread = queue_with(0, MAX_PROCESS_QUEUE_SPAN + 1)
    assert spread.flow_control_reason() is not None

    heavy = ProcessQueue(0)
    heavy.put([message(0, bytes(MAX_PROCESS_QUEUE_BYTES + 1))])
    assert heavy.flow_control_reason() is not None


# --- runs ------------------------------------------------------------------------------------------------------------
def test_what_a_run_did_not_dispatch_comes_next_and_in_order() -> None:
    process_queue = queue_with(0, 1, 2, 3, 4, 5)
    assert offsets_of(process_queue.next_run(4)) == [0, 1, 2, 3]
    process_queue.end_run(1, 1)
    assert (process_queue.commit_offset, process_queue.dispatched, process_queue.count) == (1, 1, 5)
    assert offsets_of(process_queue.next_batch(9, 0.0)) == [2, 3, 4, 5]


def test_while_a_failed_message_waits_nothing_is_taken_for_a_run() -> None:
    process_queue = queue_with(0, 1)
    process_queue.requeue(process_queue.next_batch(1, 0.0), 5.0)
    assert process_queue.next_run(9) == []
    assert offsets_of(process_queue.next_batch(9, 5.0)) == [0, 1]


def test_a_queue_that_is_abandoned_has_no_run() -> None:
    process_queue = queue_with(0)
    process_queue.drop()
    assert process_queue.next_run(9) == []
