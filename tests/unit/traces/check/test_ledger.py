from __future__ import annotations

from model.events import EventKind
from model.message_queue import MessageQueue
from traces.check.ledger import (
    LEDGER_KINDS,
    NOWHERE,
    Ending,
    SentMessage,
    dispatched_line,
    ended_line,
    failed_line,
    key_of,
    message_of,
    sent_line,
)

QUEUE = MessageQueue("t", "b", 3)


def test_each_line_names_its_message_its_place_and_its_key() -> None:
    lines = [
        sent_line(1.0, SentMessage(2, 7), QUEUE, 40, "a key"),
        dispatched_line(2.0, "g", "c1", SentMessage(2, 7), QUEUE, 40, "a key"),
        ended_line(3.0, "g", "c1", SentMessage(2, 7), QUEUE, 40, "a key", Ending.FAILED),
    ]
    for line in lines:
        assert message_of(line) == (2, 7)
        assert (line.topic, line.broker, line.queue_id, line.offset) == (*QUEUE, 40)
        assert key_of(line) == "a key"
    assert lines[2].detail == "failed key=a key"


def test_a_line_needs_neither_a_place_nor_a_key() -> None:
    for line in (
        sent_line(1.0, SentMessage(0, 0)),
        failed_line(1.0, SentMessage(0, 0)),
        ended_line(1.0, "g", "c", SentMessage(0, 0)),
    ):
        assert (line.topic, line.broker, line.queue_id) == NOWHERE
        assert key_of(line) == ""


def test_no_event_of_a_node_is_taken_for_a_line_of_a_ledger() -> None:
    assert LEDGER_KINDS.isdisjoint(EventKind)
