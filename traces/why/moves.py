"""The move of a queue from one owner to the next, stage by stage. Pure.

    moves = MoveTracker("billing")
    for event in in_order(events):
        for move in moves.process(event):   # moves whose new owner has a message, or whose queue moves on
            ...
    moves.finish(), moves.last(queue)

A stage is the time from the previous event to its own event, in the order of time. So the stages of a move add up
exactly to its whole time: from the change of the world to the first message, or to the first pull if the queue is
empty.

    root cause 0   group version 4   notification 0   notified 1   pass of c1 1   dropped 1   released 1   lease 1 ...
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from model.names import is_retry_topic
from traces.figures.changes import Changes
from traces.why.causes import STEPS, Causes, Discovery

MAX_QUEUES = 100_000
"""Maximum number of queues of a group whose last move is kept: ten times the largest measured group."""
_QUEUE_KINDS = frozenset(
    {
        EventKind.QUEUE_ACQUIRED,
        EventKind.QUEUE_DROPPED,
        EventKind.QUEUE_RELEASED,
        EventKind.LOCK_GRANTED,
        EventKind.LOCK_EXPIRED,
        EventKind.FIRST_PULL,
        EventKind.FIRST_MESSAGE,
    }
)
MOVE_KINDS = STEPS | _QUEUE_KINDS


class MoveStep(StrEnum):
    """The events that end stages."""

    CHANGE = "change"
    VERSION = "group version"
    NOTIFY = "notification sent"
    NOTIFIED = "notified"
    PASS_BEFORE = "pass of the old owner"
    DROPPED = "dropped"
    RELEASED = "drained and released"
    ENDED = "lease ended"
    PASS = "pass of the new owner"
    LEASE = "lease"
    ACQUIRED = "acquired"
    PULL = "first pull"
    MESSAGE = "first message"


_PLACES = {step: place for place, step in enumerate(MoveStep)}


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: `event` happened `took_ms` after the event of the previous stage."""

    step: MoveStep
    event: Event
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMove:
    """A queue that moved to a new owner.

    Attributes:
        root: the first event of the change; None if the trace does not have it.
        learned: how the member that began the move noticed the change.
        stages: in the order of time, from the change on.
        missing: steps of every such move for which the trace has no event.
    """

    group: str
    queue: MessageQueue
    owner: str
    from_client: str | None
    root: Event | None
    learned: Discovery
    stages: tuple[Stage, ...]
    missing: tuple[MoveStep, ...]

    @property
    def began_ms(self) -> float:
        """The time of its first event."""
        return self.stages[0].event.t_ms

    @property
    def took_ms(self) -> float:
        """The time from its first event to its last, which is the sum of its stages."""
        return sum(stage.took_ms for stage in self.stages)

    @property
    def gap_ms(self) -> float:
        """The time in which the queue was not read: from the end of the last ownership to the first pull."""
        time_of = {stage.step: stage.event.t_ms for stage in self.stages}
        ended_ms = time_of.get(MoveStep.DROPPED, time_of.get(MoveStep.ENDED))
        pulled_ms = time_of.get(MoveStep.PULL, time_of.get(MoveStep.ACQUIRED))
        return 0.0 if ended_ms is None or pulled_ms is None else max(0.0, pulled_ms - ended_ms)


class _Queue:
    """The events of one queue since its last ownership."""

    __slots__ = (
        "acquired",
        "dropped",
        "ended",
        "from_client",
        "granted",
        "message",
        "owner",
        "passes",
        "pull",
        "released",
    )

    def __init__(self) -> None:
        self.owner: str | None = None
        self.from_client: str | None = None
        self.dropped: Event | None = None
        self.released: Event | None = None
        self.ended: Event | None = None
        self.granted: Event | None = None
        self.acquired: Event | None = None  # the acquisition of a move that is not returned yet
        self.pull: Event | None = None
        self.message: Event | None = None
        self.passes: dict[MoveStep, Event] = {}


class MoveTracker:
    """The moves of one group."""

    def __init__(self, group: str, changes: Changes | None = None) -> None:
        self.causes = Causes(Changes() if changes is None else changes)
        self._group = group
        self._queues: dict[MessageQueue, _Queue] = {}
        self._last: OrderedDict[MessageQueue, QueueMove] = OrderedDict()

    def owned(self, queue: MessageQueue, client: str) -> None:
        """Set the owner of a queue before its first event."""
        self._queues.setdefault(queue, _Queue()).owner = client

    def process(self, event: Event) -> list[QueueMove]:
        """Process an event, in order; returns the finished moves."""
        if event.kind not in MOVE_KINDS or event.group not in ("", self._group):
            return []
        self.causes.process(event)
        if event.kind not in _QUEUE_KINDS or event.queue_id < 0 or is_retry_topic(event.topic):
            return []
        name = MessageQueue(event.topic, event.broker, event.queue_id)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue()
        return [move for move in (self._step(name, queue, event),) if move is not None]

    def _step(self, name: MessageQueue, queue: _Queue, event: Event) -> QueueMove | None:
        kind, finished = event.kind, None
        if kind == EventKind.QUEUE_ACQUIRED:
            finished = self._acquired(name, queue, event)
        elif kind == EventKind.LOCK_GRANTED:
            queue.granted = event
        elif kind == EventKind.FIRST_PULL:
            if queue.acquired is not None and event.client == queue.owner and queue.pull is None:
                queue.pull = event
        elif kind == EventKind.FIRST_MESSAGE:
            if queue.acquired is not None and event.client == queue.owner:
                queue.message = event
                finished = self._finish(name, queue)
        elif event.client == queue.owner:
            finished = self._ended(name, queue, event)
        return finished

    def _ended(self, name: MessageQueue, queue: _Queue, event: Event) -> QueueMove | None:
        """Process the end of an ownership; returns the move to this owner, if it is not returned yet."""
        finished = self._finish(name, queue) if queue.acquired is not None else None
        if event.kind == EventKind.QUEUE_DROPPED:
            queue.dropped = queue.dropped or event
            last_pass = self.causes.pass_of(event.client)
            if last_pass is not None and last_pass.cause == event.cause:
                queue.passes[MoveStep.PASS_BEFORE] = last_pass
        elif event.kind == EventKind.QUEUE_RELEASED:
            queue.released = event
        else:
            queue.ended = event
        return finished

    def _acquired(self, name: MessageQueue, queue: _Queue, event: Event) -> QueueMove | None:
        finished = self._finish(name, queue) if queue.acquired is not None else None
        if queue.owner == event.client:
            self._forget_end(queue)  # its last owner acquired it again: this is not a move
            return finished
        queue.from_client, queue.owner, queue.acquired = queue.owner, event.client, event
        last_pass = self.causes.pass_of(event.client)
        if last_pass is not None:
            queue.passes[MoveStep.PASS] = last_pass
        return finished

    def _forget_end(self, queue: _Queue) -> None:
        queue.dropped = queue.released = queue.ended = queue.acquired = queue.pull = queue.message = None
        queue.passes = {}

    def _finish(self, name: MessageQueue, queue: _Queue) -> QueueMove:
        move = self._move(name, queue)
        self._forget_end(queue)
        self._last.pop(name, None)
        self._last[name] = move
        if len(self._last) > MAX_QUEUES:
            self._last.popitem(last=False)
        return move

    def _move(self, name: MessageQueue, queue: _Queue) -> QueueMove:
        acquired = queue.acquired
        assert acquired is not None, "there is a move"
        end_event = queue.dropped or queue.ended
        root, learned = self.causes.root_of(acquired, end_event)
        steps = self._steps(queue, root)
        from_ms = root.t_ms if root is not None else 0.0
        ordered = sorted(
            ((step, event) for step, event in steps.items() if event.t_ms >= from_ms or step is MoveStep.CHANGE),
            key=lambda each: (each[1].t_ms, _PLACES[each[0]]),
        )
        before_ms, stages = ordered[0][1].t_ms, []
        for step, event in ordered:
            stages.append(Stage(step, event, event.t_ms - before_ms))
            before_ms = event.t_ms
        return QueueMove(
            group=self._group,
            queue=name,
            owner=acquired.client,
            from_client=queue.from_client,
            root=root,
            learned=learned,
            stages=tuple(stages),
            missing=_missing(steps, first=queue.from_client is None),
        )

    def _steps(self, queue: _Queue, root: Event | None) -> dict[MoveStep, Event]:
        acquired = queue.acquired
        assert acquired is not None, "there is a move"
        change = self.causes.of(root) if root is not None else None
        first = queue.passes.get(MoveStep.PASS_BEFORE) or queue.passes.get(MoveStep.PASS)
        notified = None if change is None or first is None else change.received.get(first.client)
        granted = queue.granted if queue.granted is not None and queue.granted.client == acquired.client else None
        steps: dict[MoveStep, Event | None] = {
            MoveStep.CHANGE: root,
            MoveStep.VERSION: None if change is None else change.version,
            MoveStep.NOTIFY: None if change is None else change.sent,
            MoveStep.NOTIFIED: notified,
            MoveStep.PASS_BEFORE: queue.passes.get(MoveStep.PASS_BEFORE),
            MoveStep.DROPPED: queue.dropped,
            MoveStep.RELEASED: queue.released,
            MoveStep.ENDED: queue.ended,
            MoveStep.PASS: queue.passes.get(MoveStep.PASS),
            MoveStep.LEASE: granted,
            MoveStep.ACQUIRED: acquired,
            MoveStep.PULL: queue.pull,
            # If the queue is empty, the owner is idle after the first pull, which does not belong to the move.
            MoveStep.MESSAGE: None if granted is not None and granted.n == 0 else queue.message,
        }
        if root is not None and steps[MoveStep.VERSION] is root:
            steps[MoveStep.VERSION] = None  # the change is a change of the group itself
        return {step: event for step, event in steps.items() if event is not None}

    def finish(self, until_ms: float = math.inf) -> list[QueueMove]:
        """Return the unfinished moves up to a time, with the events up to now."""
        return [
            self._finish(name, queue)
            for name, queue in self._queues.items()
            if queue.acquired is not None and queue.acquired.t_ms <= until_ms
        ]

    def under_way(self) -> list[QueueMove]:
        """Return the unfinished moves, with the events up to now; `process` returns them again at their end."""
        return [self._move(name, queue) for name, queue in self._queues.items() if queue.acquired is not None]

    def last(self, queue: MessageQueue) -> QueueMove | None:
        """Return the last finished move of a queue."""
        return self._last.get(queue)


def _missing(steps: dict[MoveStep, Event], *, first: bool) -> tuple[MoveStep, ...]:
    """Return the necessary steps of such a move that the trace lacks."""
    needed_steps = [MoveStep.CHANGE, MoveStep.PASS, MoveStep.LEASE, MoveStep.ACQUIRED, MoveStep.PULL]
    missing_steps = [step for step in needed_steps if step not in steps]
    if not first:
        if MoveStep.DROPPED not in steps and MoveStep.ENDED not in steps:
            missing_steps.append(MoveStep.DROPPED)
        if MoveStep.RELEASED not in steps and MoveStep.ENDED not in steps:
            missing_steps.append(MoveStep.RELEASED)
    return tuple(missing_steps)
