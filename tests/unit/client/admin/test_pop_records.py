from __future__ import annotations

from client.admin.pop_records import PoppedQueue
from model.message_queue import MessageQueue


def test_a_row_of_a_broker_is_read() -> None:
    row = ["t", 2, 5, 9, 3, 1, 1_500, 40, 2, False, [["b", 1], ["a", 2]]]
    assert PoppedQueue.from_wire("broker-a", row) == PoppedQueue(
        queue=MessageQueue("t", "broker-a", 2),
        first_unended=5,
        next_offset=9,
        in_flight=3,
        to_come_again=1,
        oldest_ms=1_500,
        next_visible_ms=40,
        most_attempts=2,
        handing_over=False,
        in_flight_of={"a": 2, "b": 1},
    )


def test_without_anything_in_flight_there_are_no_times() -> None:
    popped = PoppedQueue.from_wire("broker-a", ["t", 2, 5, 9, 0, 1, -1, -1, 1, True, []])
    assert (popped.oldest_ms, popped.next_visible_ms, popped.handing_over, popped.in_flight_of) == (
        None,
        None,
        True,
        {},
    )
