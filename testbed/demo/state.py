"""State of a running demo: its history, queue owners, steps, and the latest events.

All events and messages go to a history check (`traces/check`), which has the verdict at the end. The view and the
report read all their data from here. The clock is an argument; all times are wall-clock milliseconds, as in the events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from client.allocate import AllocateMessageQueueStrategy
from model.counted import plural
from model.event_log import EventSink
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from testbed.simulation.checks.ownership import OwnershipTracker, RebalanceStep
from traces.check.check import HistoryCheck
from traces.check.ledger import SentMessage, ended_line, failed_line, sent_line
from traces.check.limits import HistoryLimits
from traces.check.verdict import GroupMessages

MAX_NOTES = 200
"""Number of the latest lines that are kept."""
LIMITS = HistoryLimits(all_consumed=True, flap_moves=12, needless_passes=100)
"""A demo has eleven steps within a minute, and most of them move queues, so the limits of moves and passes are high."""


class Health(StrEnum):
    """State of a consumer of the demo."""

    NOT_YET = "not yet"
    LIVE = "live"
    SILENT = "silent"
    LEFT = "left"


class Tone(StrEnum):
    """Kind of a note."""

    PLAIN = "plain"
    RESULT = "result"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Note:
    """A line of text with its time."""

    t_ms: float
    text: str
    tone: Tone = Tone.PLAIN


class DemoState:
    """A `SwarmSink` that keeps the data that a demo shows.

    `names` lists every consumer that will take part, in order; `trace` gets every event as well. `on_note` is called
    with each new note, `on_step` with the result of each step.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        strategy: AllocateMessageQueueStrategy,
        names: tuple[str, ...],
        clock_ms: Callable[[], float],
        *,
        trace: EventSink = lambda event: None,
    ) -> None:
        self.history = HistoryCheck(LIMITS)
        self.tracker = OwnershipTracker(group, topic, strategy)
        self.health = dict.fromkeys(names, Health.NOT_YET)
        self.steps: list[RebalanceStep] = []  # finished steps
        self.steps_planned = 0
        self.step = "the cluster starts"  # name of the current step
        self.notes: deque[Note] = deque(maxlen=MAX_NOTES)  # oldest first
        self.moved_ms: dict[MessageQueue, float] = {}  # time at which each queue got its owner
        self.clock_ms = clock_ms
        self.started_ms = clock_ms()
        self._group = group
        self._topic = topic
        self._trace = trace
        self.on_note: Callable[[Note], object] = lambda note: None
        self.on_step: Callable[[RebalanceStep], object] = lambda step: None

    def acknowledged(self, producer: int, number: int) -> None:
        """A broker acknowledged the message."""
        self.history.feed(sent_line(self.clock_ms(), SentMessage(producer, number)))

    def failed(self, producer: int, number: int) -> None:
        """A send failed."""
        self.history.feed(failed_line(self.clock_ms(), SentMessage(producer, number)))

    def received(self, producer: int, number: int) -> None:
        """A consumer received the message."""
        self.history.feed(ended_line(self.clock_ms(), self._group, "", SentMessage(producer, number)))

    @property
    def messages(self) -> GroupMessages:
        """The counts of messages, so far."""
        return self.history.messages(self._group)

    def event(self, event: Event) -> None:
        """Record an event of any node of the cluster."""
        self._trace(event)
        self.history.feed(event)
        self.tracker.process(event)
        if event.kind == EventKind.QUEUE_ACQUIRED and event.topic == self._topic:
            self.moved_ms[MessageQueue(event.topic, event.broker, event.queue_id)] = event.t_ms
        text = self._text_of(event)
        if text:
            self._note(Note(event.t_ms, text))

    def begin_step(self, name: str) -> None:
        """Begin a step."""
        self.step = name
        self.tracker.begin(name, self.clock_ms())

    def end_step(self) -> None:
        """End the step and keep its result."""
        self.steps.append(self.tracker.end())
        self.on_step(self.steps[-1])

    def add_note(self, text: str, tone: Tone = Tone.PLAIN) -> None:
        """Add a line that is not an event."""
        self._note(Note(self.clock_ms(), text, tone))

    def _note(self, note: Note) -> None:
        self.notes.append(note)
        self.on_note(note)

    def _text_of(self, event: Event) -> str:
        """The event as text; "" for kinds that are too frequent to show."""
        name, of_group = short(event.client), event.group == self._group
        match event.kind:
            case EventKind.MEMBER_JOIN if of_group:
                return f"{event.broker}: {name} joined the group, {plural(event.n, 'member')}"
            case EventKind.MEMBER_LEAVE if of_group:
                return f"{event.broker}: {name} left the group ({event.detail}), {plural(event.n, 'member')}"
            case EventKind.REBALANCE_END if of_group and event.n:
                trigger, _, balanced = event.detail.partition(" ")
                waits = ", waits for more" if balanced == "unbalanced" else ""
                return f"{name}: {trigger} moved {plural(event.n, 'queue')}{waits}"
            case EventKind.ROUTE_CHANGED if event.topic == self._topic and not event.client:
                return f"{event.broker}: topic {event.topic} has {plural(event.n, 'queue')} here"
            case EventKind.BROKER_UP if event.broker:
                return f"{event.broker}: listens on {event.detail}"
            case EventKind.BROKER_DOWN if event.broker:
                return f"{event.broker}: stopped"
        return ""


def short(client_id: str) -> str:
    """The instance name in a client id."""
    return client_id.partition("@")[2] or client_id
