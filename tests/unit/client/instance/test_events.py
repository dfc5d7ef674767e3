from __future__ import annotations

from client.config import ClientConfig
from client.instance.events import QueueEvents
from client.instance.instance import ClientInstance
from model.events import Event, EventKind
from model.message_queue import MessageQueue


def test_an_event_about_a_queue_has_its_columns_and_one_about_none_leaves_them_empty() -> None:
    seen: list[Event] = []
    instance = ClientInstance(ClientConfig(name_servers="127.0.0.1:1", event_sink=seen.append, clock_ms=lambda: 5.0))
    instance.client_id = "c@1"
    events = QueueEvents(instance, "g")
    cause = events.emit(EventKind.REBALANCE_BEGIN, detail="START")
    events.emit(EventKind.QUEUE_ACQUIRED, MessageQueue("t", "b", 3), cause=cause, version=7, offset=9)
    begin, acquired = seen
    assert (begin.group, begin.client, begin.topic, begin.broker, begin.queue_id) == ("g", "c@1", "", "", -1)
    assert (acquired.topic, acquired.broker, acquired.queue_id) == ("t", "b", 3)
    assert (acquired.version, acquired.offset, acquired.cause) == (7, 9, cause)
