"""The deliveries of one message to a group, and why it was delivered twice, or never. Pure.

    tracker = MessageTracker("billing", MessageQueue("orders", "broker-a", 3), 4711)
    for event in in_order(events):
        tracker.process(event)
    history = tracker.history()

An owner reports its dispatches with MESSAGES_HANDED_OUT, so the message was in the first reported range that passes its
offset. An owner that dies does not report its last range: then the broker's LOCK_EXPIRED has the offset up to which it
had served the owner, and the message may have been dispatched.

    c2 starts at 40, reports 60, commits 55, its lease ends; the broker had served it up to 80
        offset 50: once, to c2        offset 57: twice, to c2 and its successor        offset 70: maybe twice
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from model.events import Event, EventKind
from model.message_queue import MessageQueue

MAX_DELIVERIES = 100
"""Maximum number of kept deliveries of one message: with more, its listener always fails."""

_KINDS = frozenset(
    {
        EventKind.QUEUE_ACQUIRED,
        EventKind.QUEUE_DROPPED,
        EventKind.LOCK_EXPIRED,
        EventKind.QUEUE_RELEASED,
        EventKind.MESSAGES_HANDED_OUT,
        EventKind.OFFSET_COMMITTED,
        EventKind.OFFSET_RESET,
        EventKind.OFFSET_MOVED,
        EventKind.MESSAGES_DAMAGED,
        EventKind.MESSAGES_UNDECODABLE,
        EventKind.MESSAGES_REDELIVERED,
        EventKind.DEAD_LETTER,
    }
)


class TimesDispatched(StrEnum):
    """How often a message was dispatched."""

    NEVER = "never"
    ONCE = "once"
    MAYBE_TWICE = "once, and maybe a second time"
    TWICE = "twice"


@dataclass(slots=True, eq=False)
class Handout:
    """One delivery of the message to a member.

    Attributes:
        acquired: the member's acquisition of the queue; None if the trace begins later.
        reported: the event whose range has the message; None if its member died before it could report it.
        commit: the last commit of the queue before this ownership ended.
        ended: the event that ended the ownership; None if it is open.
    """

    client: str
    acquired: Event | None
    reported: Event | None
    commit: Event | None = None
    ended: Event | None = None

    @property
    def events(self) -> list[Event]:
        """The events of the delivery, in order."""
        events = (self.acquired, self.reported, self.commit, self.ended)
        return [event for event in events if event is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHistory:
    """The deliveries of one message, and its end.

    Attributes:
        passed: the first event after which the group no longer receives it; None if there is none.
        skipped: the event that moved the group past it although it had not been delivered.
        owner, position: the owner of the queue at the end, and the offset that it has reached.
    """

    group: str
    queue: MessageQueue
    offset: int
    outcome: TimesDispatched
    handouts: tuple[Handout, ...]
    passed: Event | None
    skipped: Event | None
    dead: Event | None
    owner: str
    position: int


class _Owner:
    __slots__ = ("acquired", "handout", "position")

    def __init__(self, acquired: Event | None, position: int) -> None:
        self.acquired = acquired
        self.position = position  # the first offset that it has not reported as dispatched
        self.handout: Handout | None = None  # the delivery of this message under this ownership


class MessageTracker:
    """Follows one message of one queue in one group."""

    def __init__(self, group: str, queue: MessageQueue, offset: int) -> None:
        self._group, self._queue, self._offset = group, queue, offset
        self._owners: dict[str, _Owner] = {}
        self._handouts: list[Handout] = []
        self._commit: Event | None = None
        self._passed: Event | None = None
        self._skipped: Event | None = None
        self._dead: Event | None = None

    def process(self, event: Event) -> None:
        """Process an event, in order."""
        if event.kind not in _KINDS or (event.topic, event.broker, event.queue_id) != self._queue:
            return
        if event.group not in ("", self._group):
            return
        match event.kind:
            case EventKind.QUEUE_ACQUIRED:
                self._acquired(event)
            case EventKind.MESSAGES_HANDED_OUT:
                self._dispatched(event)
            case EventKind.QUEUE_DROPPED | EventKind.LOCK_EXPIRED | EventKind.QUEUE_RELEASED:
                self._ended(event)
            case EventKind.OFFSET_COMMITTED:
                self._committed(event)
            case EventKind.DEAD_LETTER:
                if event.offset <= self._offset < event.offset + max(1, event.n):
                    self._dead = event
            case EventKind.MESSAGES_REDELIVERED:
                if event.offset <= self._offset < event.offset + max(1, event.n):
                    self._add(Handout(event.client, None, event))
            case _:
                self._moved(event)

    def _acquired(self, event: Event) -> None:
        self._owners[event.client] = _Owner(event, event.offset)
        if event.offset > self._offset and self._passed is None and not self._handouts:
            self._passed = self._skipped = event

    def _dispatched(self, event: Event) -> None:
        owner = self._owners.get(event.client)
        if owner is None:
            owner = self._owners[event.client] = _Owner(None, max(0, event.offset - event.n))
        # A member that goes back, because a listener failed, reports a lower offset, and dispatches the rest once more.
        first = (
            min(owner.position, event.offset - event.n) if event.n > event.offset - owner.position else owner.position
        )
        if first <= self._offset < event.offset:
            self._add(Handout(event.client, owner.acquired, event), owner)
        owner.position = event.offset

    def _add(self, handout: Handout, owner: _Owner | None = None) -> None:
        handout.commit = self._commit
        if owner is not None:
            owner.handout = handout
        if len(self._handouts) < MAX_DELIVERIES:
            self._handouts.append(handout)

    def _ended(self, event: Event) -> None:
        owner = self._owners.pop(event.client, None)
        if owner is None:
            return
        may_have = (
            event.kind == EventKind.LOCK_EXPIRED
            and event.n > 0
            and owner.position <= self._offset
            and event.offset <= self._offset < event.offset + event.n
        )
        if may_have and owner.handout is None:
            self._add(Handout(event.client, owner.acquired, None), owner)
        if owner.handout is not None:
            owner.handout.commit, owner.handout.ended = self._commit, event

    def _committed(self, event: Event) -> None:
        self._commit = event
        if event.offset > self._offset and self._passed is None:
            self._passed = event

    def _moved(self, event: Event) -> None:
        if event.kind == EventKind.OFFSET_RESET:
            self._commit = event
            for owner in self._owners.values():
                if owner.handout is not None:
                    owner.handout.ended = event
        if event.kind in (EventKind.MESSAGES_DAMAGED, EventKind.MESSAGES_UNDECODABLE):
            passes = event.offset <= self._offset < event.offset + max(1, event.n)
        else:
            passes = event.offset > self._offset
        if passes and not self._handouts:
            self._skipped = self._passed = event
        elif not passes and event.kind == EventKind.OFFSET_RESET:
            self._passed = self._skipped = None  # it will be redelivered

    def history(self) -> MessageHistory:
        """Return all deliveries up to now."""
        sure = sum(handout.reported is not None for handout in self._handouts)
        outcome = TimesDispatched.NEVER
        if sure >= 2:
            outcome = TimesDispatched.TWICE
        elif len(self._handouts) >= 2:
            outcome = TimesDispatched.MAYBE_TWICE
        elif self._handouts:
            outcome = TimesDispatched.ONCE
        client, owner = next(reversed(self._owners.items()), ("", None))
        return MessageHistory(
            group=self._group,
            queue=self._queue,
            offset=self._offset,
            outcome=outcome,
            handouts=tuple(self._handouts),
            passed=self._passed,
            skipped=self._skipped if outcome is TimesDispatched.NEVER else None,
            dead=self._dead,
            owner=client,
            position=-1 if owner is None else owner.position,
        )
