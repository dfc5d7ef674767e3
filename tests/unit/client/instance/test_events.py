from __future__ import annotations

from typing import cast

import pytest

from client.config import ClientConfig
from client.instance.events import QueueEvents, report_undecodable
from client.instance.instance import ClientInstance
from model.decode import Undecodable
from model.event_log import EventLog
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


class Noted:
    client_id = "c@1"

    def __init__(self) -> None:
        self.noted: list[Event] = []
        self.events = EventLog("c@1", lambda: 0, sink=self.noted.append)


def test_each_is_reported_in_the_log_and_each_queue_has_one_event_that_counts_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance = Noted()
    first, second = MessageQueue("t", "b", 3), MessageQueue("t", "b", 4)
    records = [Undecodable(first, 7, "odd", 0), Undecodable(first, 9, "worse", 1), Undecodable(second, 1, "odd", 0)]
    report_undecodable(cast("ClientInstance", instance), "g", records, "cause/1")
    assert [entry.levelname for entry in caplog.records] == ["ERROR"] * 3
    for entry, record in zip(caplog.records, records, strict=True):
        text = entry.getMessage()
        assert "group g" in text
        assert f"{record.queue}+{record.offset}" in text
        assert record.reason in text
    assert [(e.kind, e.cause, e.topic, e.broker, e.queue_id, e.offset, e.n, e.detail) for e in instance.noted] == [
        (EventKind.MESSAGES_UNDECODABLE, "cause/1", "t", "b", 3, 7, 2, "odd"),
        (EventKind.MESSAGES_UNDECODABLE, "cause/1", "t", "b", 4, 1, 1, "odd"),
    ]
