"""The change of the world that caused a pass, and how its member noticed it. Pure.

A pass that followed a notification names the change as its cause. A pass that the timer began is its own cause: then
the change is the first one of the group since the member's previous pass, whether that member was notified or not.

    c1 runs a pass; c2 joins, NOTIFY_SENT; c1 runs a pass by TIMER 18 s later, without a NOTIFY_RECEIVED
        caused by: c2 joins; noticed: the notification was lost, and the timer detected the change
    c1 runs a pass; c2 expires, no NOTIFY_SENT; c1 runs a pass by TIMER
        caused by: c2 expires; noticed: no member was notified, and the timer detected the change
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from model.events import Event, EventKind
from model.limits import MAX_KNOWN_CHANGES
from traces.figures.changes import Change, Changes

MAX_RECENT = 200
"""Number of changes of a group that are searched for a change that a member has missed."""
MISSED_MS = 60_000.0
"""Maximum age of a change that a timer detects: three intervals."""
STEPS = frozenset(
    {
        EventKind.MEMBER_JOIN,
        EventKind.MEMBER_LEAVE,
        EventKind.MEMBER_BACK,
        EventKind.SUBSCRIPTION_CHANGE,
        EventKind.GROUP_SETTINGS_CHANGED,
        EventKind.ASSIGNMENT_MADE,
        EventKind.NOTIFY_SENT,
        EventKind.NOTIFY_RECEIVED,
        EventKind.ROUTE_CHANGED,
        EventKind.BROKER_UP,
        EventKind.BROKER_DOWN,
        EventKind.CLIENT_START,
        EventKind.CLIENT_STOP,
        EventKind.OFFSET_RESET,
        EventKind.LOCK_EXPIRED,
        EventKind.QUEUE_DROPPED,
        EventKind.REBALANCE_BEGIN,
        EventKind.LOCK_REFUSED,
    }
)
_GROUP_CHANGES = frozenset({EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE, EventKind.SUBSCRIPTION_CHANGE})
_WORLD_CHANGES = _GROUP_CHANGES | {
    EventKind.MEMBER_BACK,
    EventKind.GROUP_SETTINGS_CHANGED,
    EventKind.ASSIGNMENT_MADE,
    EventKind.ROUTE_CHANGED,
    EventKind.BROKER_UP,
    EventKind.BROKER_DOWN,
    EventKind.OFFSET_RESET,
    EventKind.LOCK_EXPIRED,
}


class Discovery(StrEnum):
    """The ways in which a member notices a change."""

    NOTIFIED = "notified"
    LOST = "its notification was lost, and its timer found out"
    SILENT = "no member was notified, and its timer found out"
    ITSELF = "by itself"


@dataclass(slots=True)
class KnownChange:
    """The events of one change up to now; the first event of each kind."""

    root: Event | None = None
    version: Event | None = None  # the group's new version, at the first broker that has it
    sent: Event | None = None
    received: dict[str, Event] = field(default_factory=dict)  # client -> its notification


@dataclass(slots=True)
class _Pass:
    begun: Event
    before_ms: float  # the time at which the previous pass began


class Causes:
    """The changes of one group."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._known: dict[str, KnownChange] = {}
        self._recent: deque[Event] = deque(maxlen=MAX_RECENT)
        self._passes: dict[str, _Pass] = {}  # client -> its last pass
        self._fixed: dict[str, Event] = {}  # id of a pass by timer -> the change that it detected

    def process(self, event: Event) -> None:
        """Process an event of the group, or an event without a group, in order."""
        kind = event.kind
        if kind not in STEPS:
            return
        change = self.of(event)
        if event.id == event.cause and (change.root is None or event.t_ms < change.root.t_ms):
            change.root = event
        if kind in _GROUP_CHANGES and change.version is None:
            change.version = event
        elif kind == EventKind.NOTIFY_SENT and change.sent is None:
            change.sent = event
        elif kind == EventKind.NOTIFY_RECEIVED:
            change.received.setdefault(event.client, event)
        elif kind == EventKind.REBALANCE_BEGIN:
            self._begun(event)
        if kind in _WORLD_CHANGES:
            self._recent.append(event)

    def of(self, event: Event) -> KnownChange:
        """Return the events of the change that an event belongs to."""
        cause = self._changes.of(event).cause
        change = self._known.get(cause)
        if change is None:
            change = self._known[cause] = KnownChange()
            if len(self._known) > MAX_KNOWN_CHANGES:
                del self._known[next(iter(self._known))]
        return change

    def change_of(self, event: Event) -> Change:
        """Return the change that an event belongs to."""
        return self._changes.of(event)

    def pass_of(self, client: str) -> Event | None:
        """Return the last pass of a member."""
        last_pass = self._passes.get(client)
        return None if last_pass is None else last_pass.begun

    def _begun(self, event: Event) -> None:
        last_pass = self._passes.get(event.client)
        before_ms = event.t_ms - MISSED_MS if last_pass is None else max(last_pass.begun.t_ms, event.t_ms - MISSED_MS)
        self._passes[event.client] = _Pass(event, before_ms)
        if event.id == event.cause:
            missed = self._missed(event, before_ms)
            if missed is not None:
                self._fixed[event.id] = missed
                if len(self._fixed) > MAX_KNOWN_CHANGES:
                    del self._fixed[next(iter(self._fixed))]

    def _missed(self, pass_begin: Event, since_ms: float) -> Event | None:
        """Find the first change since the previous pass of which this member was not notified."""
        missed = [
            change
            for change in self._recent
            if change.t_ms >= since_ms and pass_begin.client not in self.of(change).received
        ]
        # Brokers notify changes of members; other changes a member detects itself, and mostly not in this pass.
        return next((change for change in missed if change.kind in _GROUP_CHANGES), missed[0] if missed else None)

    def root_of(self, event: Event, end_event: Event | None) -> tuple[Event | None, Discovery]:
        """Return the first event of the change that caused the acquisition of a queue, and how it was noticed.

        `end_event` ended the last ownership of the queue. Its cause is used if the pass was by timer and detected no
        change: then the member requested a queue again that it had been refused.
        """
        root: Event | None = None
        for each in (event, end_event):
            if each is None:
                continue
            missed = self._fixed.get(each.cause)
            if missed is not None:
                return self._rescued(each, missed)
            cause_change = self.of(each)
            if cause_change.root is not None and cause_change.root.kind != EventKind.REBALANCE_BEGIN:
                return cause_change.root, Discovery.NOTIFIED if cause_change.received else Discovery.ITSELF
            root = root or cause_change.root
        for change in reversed(self._recent):
            if change.t_ms >= event.t_ms - MISSED_MS:
                return self.of(change).root or change, Discovery.ITSELF
        return root, Discovery.ITSELF

    def _rescued(self, event: Event, missed: Event) -> tuple[Event, Discovery]:
        change = self.of(missed)
        root = change.root or missed
        if missed.kind not in _GROUP_CHANGES:
            return root, Discovery.ITSELF
        return root, Discovery.SILENT if change.sent is None else Discovery.LOST
