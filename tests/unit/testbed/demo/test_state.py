from __future__ import annotations

from typing import Any

import pytest

from client.allocate import AllocateMessageQueueAveragely
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from testbed.demo.state import MAX_NOTES, DemoState, Note, Tone, short
from testbed.simulation.checks.ownership import RebalanceStep
from testbed.swarm.members import SwarmSink


def new_state(**options: Any) -> DemoState:
    return DemoState("g", "t", AllocateMessageQueueAveragely(), ("c1", "c2"), lambda: 5_000.0, **options)


def event(kind: EventKind, **fields: Any) -> Event:
    return Event(6_000.0, "n", 1, kind.value, **{"group": "g", **fields})


@pytest.mark.parametrize(
    ("happened", "reported"),
    [
        (
            event(EventKind.MEMBER_JOIN, broker="b", client="127.0.0.1@c1", n=3),
            "b: c1 joined the group, 3 members",
        ),
        (
            event(EventKind.MEMBER_LEAVE, broker="b", client="127.0.0.1@c1", n=2, detail="expiry"),
            "b: c1 left the group (expiry), 2 members",
        ),
        (
            event(EventKind.REBALANCE_END, client="127.0.0.1@c1", n=1, detail="NOTIFY+LOCK balanced"),
            "c1: NOTIFY+LOCK moved 1 queue",
        ),
        (
            event(EventKind.REBALANCE_END, client="127.0.0.1@c1", n=4, detail="START unbalanced"),
            "c1: START moved 4 queues, waits for more",
        ),
        (
            event(EventKind.ROUTE_CHANGED, group="", topic="t", broker="b", n=12),
            "b: topic t has 12 queues here",
        ),
        (event(EventKind.BROKER_UP, group="", broker="b", detail="127.0.0.1:1"), "b: listens on 127.0.0.1:1"),
        (event(EventKind.BROKER_DOWN, group="", broker="b", detail="stop"), "b: stopped"),
    ],
)
def test_what_matters_is_reported_in_words(happened: Event, reported: str) -> None:
    state = new_state()
    state.event(happened)
    assert list(state.notes) == [Note(6_000.0, reported)]


@pytest.mark.parametrize(
    "happened",
    [
        event(EventKind.REBALANCE_END, client="127.0.0.1@c1", n=0, detail="TIMER balanced"),
        event(EventKind.MEMBER_JOIN, group="other", broker="b", client="c1", n=1),
        event(EventKind.ROUTE_CHANGED, topic="%RETRY%g", broker="b", n=1),
        event(EventKind.ROUTE_CHANGED, topic="t", client="127.0.0.1@c1", n=24),
        event(EventKind.BROKER_DOWN, client="127.0.0.1@c1", detail="127.0.0.1:1"),
        event(EventKind.OFFSET_COMMITTED, topic="t", broker="b", queue_id=0, client="c1", offset=7),
    ],
)
def test_what_happens_all_the_time_is_not(happened: Event) -> None:
    state = new_state()
    state.event(happened)
    assert not state.notes


def test_every_event_reaches_the_trace_and_the_tracker() -> None:
    trace: list[Event] = []
    state = new_state(trace=trace.append)
    acquired = event(EventKind.QUEUE_ACQUIRED, topic="t", broker="b", queue_id=0, client="127.0.0.1@c1", version=1)
    state.event(acquired)
    queue = MessageQueue("t", "b", 0)
    assert trace == [acquired]
    assert state.tracker.owners() == {queue: ("127.0.0.1@c1",)}
    assert state.moved_ms == {queue: 6_000.0}


def test_steps_and_notes_are_kept_and_reported_at_once() -> None:
    state = new_state()
    notes: list[Note] = []
    steps: list[RebalanceStep] = []
    state.on_note, state.on_step = notes.append, steps.append
    state.begin_step("c1 starts")
    assert state.step == "c1 starts"
    state.end_step()
    state.add_note("cut", Tone.WARNING)
    assert [step.step for step in steps] == [step.step for step in state.steps] == ["c1 starts"]
    assert notes == [Note(5_000.0, "cut", Tone.WARNING)]


def test_only_the_last_notes_are_kept() -> None:
    state = new_state()
    for n in range(MAX_NOTES + 10):
        state.add_note(str(n))
    assert (len(state.notes), state.notes[0].text) == (MAX_NOTES, "10")


def test_it_keeps_the_books_of_the_messages() -> None:
    state = new_state()
    sink: SwarmSink = state
    sink.acknowledged(0, 0)
    sink.received(0, 0)
    sink.failed(0, 1)
    assert (state.messages.sent, state.messages.received, state.messages.failed_sends) == (1, 1, 1)


def test_a_client_is_called_by_its_instance_name() -> None:
    assert (short("127.0.0.1@c1"), short("c1")) == ("c1", "c1")
