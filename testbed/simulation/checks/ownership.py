"""Compares the owners of queues with the assignment of a strategy to the running members: has a group converged? Pure.

Owners and all figures (moves, orphan time, double owners) come from `traces/figures/`. This module adds the owner that
each queue should have, which events do not show. The group has converged when every queue has exactly that owner, and
no other queue is owned.

    t=0   expect(members c1 c2, queues 0 1); step "c2 joins" begins; c1 owns 0 and 1: not converged, 1 should be c2's
    t=3   c1 drops 1
    t=5   c2 acquires 1                     converged after 5 ms; 1 queue moved
    t=6   the pass of c2 ends               its trigger, LOCK, is one of the step's

Times are wall clock in milliseconds and come with the events. Pass events in the order of their times: a late one
counts at the newest time seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from client.allocate import AllocateMessageQueueStrategy
from client.rebalance.plan import allocate_target
from model.events import Event, EventKind
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue
from model.names import retry_topic
from model.topic_route import SortedQueues
from traces.figures.group import GroupFigures, Row

_OWNER_EVENTS = frozenset(
    {
        EventKind.QUEUE_ACQUIRED,
        EventKind.QUEUE_DROPPED,
        EventKind.QUEUE_RELEASED,
        EventKind.LOCK_EXPIRED,
        EventKind.LOCK_GRANTED,
    }
)
_TIMER = "TIMER"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStep:
    """One step of a run and the group's rebalance after it."""

    step: str  # the caller's name of the step
    cause: str  # the first event about it, e.g. `MEMBER_LEAVE expiry`.
    trigger: str  # triggers of the passes that it caused, in order, joined by `+`
    members: int  # members that should own queues at the end
    queues_moved: int  # times that a queue went to another owner than its last
    noticed_ms: float | None  # from the begin of the step until a broker saw its cause; None if none did
    converged_ms: float | None  # from the begin of the step until the group converged for good; None if it did not


@dataclass(slots=True)
class _Step:
    name: str
    began_ms: float
    moves_before: int = 0
    cause: str = ""
    noticed_ms: float | None = None
    triggers: dict[str, None] = field(default_factory=dict)
    right_at_ms: float | None = None
    last_pass_ms: float | None = None


class OwnershipTracker:
    """Follows the queues of one topic in one group; `figures` has their moves and owners."""

    def __init__(self, group: str, topic: str, strategy: AllocateMessageQueueStrategy) -> None:
        self.figures = GroupFigures(group)
        self._group = group
        self._topic = topic
        self._strategy = strategy
        self._targets: dict[MessageQueue, str] = {}
        self._members: tuple[str, ...] = ()
        self._wrong: dict[MessageQueue, None] = {}  # queues that are not with exactly their target
        self._last_change_ms = 0.0
        self._step = _Step("", 0.0)

    # --- targets -----------------------------------------------------------------------------------------------------

    def expect(self, members: Iterable[str], queues: Iterable[MessageQueue], now_ms: float) -> None:
        """Set the live members, by client id, and the queues of the topic from now on."""
        self.figures.advance(now_ms)
        self._members = tuple(sorted(members))
        sorted_queues = SortedQueues(sorted(queues))
        self._targets = {}
        # A strategy that assigns all topics together assigns the group's retry queues too: one on each broker.
        retry = retry_topic(self._group)
        topics = (self._topic, retry)
        brokers = sorted({queue.broker_name for queue in sorted_queues})
        queues_of = {self._topic: sorted_queues, retry: SortedQueues(MessageQueue(retry, name, 0) for name in brokers)}
        view = GroupView(group=self._group, version=0, members=dict.fromkeys(self._members, topics))
        for member in self._members:
            clustering = MessageModel.CLUSTERING
            for queue in allocate_target(self._strategy, self._group, member, clustering, topics, queues_of, view):
                if queue.topic == self._topic:
                    self._targets[queue] = member
        owned = [queue for queue, owners in self.figures.owners().items() if owners and queue.topic == self._topic]
        for queue in dict.fromkeys((*self._targets, *owned, *self._wrong)):
            self._check_queue(queue)

    # --- events ------------------------------------------------------------------------------------------------------

    def process(self, event: Event) -> list[Row]:
        """Record an event, and return the rows that it ends; see `GroupFigures.feed`. Other groups are ignored."""
        rows = self.figures.feed(event)
        if event.group == self._group:
            if event.kind == EventKind.REBALANCE_END:
                self._pass_ended(event)
            elif event.kind in _OWNER_EVENTS and event.topic == self._topic:
                if event.kind != EventKind.LOCK_GRANTED:
                    self._last_change_ms = self.now_ms
                self._check_queue(MessageQueue(event.topic, event.broker, event.queue_id))
        self._find_cause(event)
        return rows

    @property
    def now_ms(self) -> float:
        """The newest time seen."""
        return self.figures.now_ms

    def _pass_ended(self, event: Event) -> None:
        triggers = event.detail.partition(" ")[0].split("+")
        if triggers == [_TIMER] and event.n == 0:
            return  # a periodic pass that changed nothing
        self._step.triggers.update(dict.fromkeys(triggers))
        self._step.last_pass_ms = self._last_change_ms = self.now_ms

    def _find_cause(self, event: Event) -> None:
        if self._step.cause:
            return
        kind = event.kind
        of_group = event.group == self._group and kind in (EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE)
        # Clients emit these too, without a broker: for each changed route and each lost connection of theirs.
        of_topic = kind == EventKind.ROUTE_CHANGED and event.topic == self._topic and event.broker
        of_broker = kind == EventKind.BROKER_DOWN and event.broker
        if of_group or of_topic or of_broker:
            self._step.cause = f"{kind} {event.detail}" if kind == EventKind.MEMBER_LEAVE else str(kind)
            self._step.noticed_ms = self.now_ms - self._step.began_ms

    # --- steps -------------------------------------------------------------------------------------------------------

    def begin(self, step: str, now_ms: float) -> None:
        """Begin a step: events from now on are attributed to it. Call before `expect`."""
        self.figures.advance(now_ms)
        self._step = _Step(step, self.now_ms, self.figures.totals().moves)
        self._last_change_ms = self.now_ms

    def end(self) -> RebalanceStep:
        """The step that began last, up to now."""
        step = self._step
        return RebalanceStep(
            step=step.name,
            cause=step.cause,
            trigger="+".join(step.triggers),
            members=len(self._members),
            queues_moved=self.figures.totals().moves - step.moves_before,
            noticed_ms=step.noticed_ms,
            converged_ms=self._converged_ms(),
        )

    def _converged_ms(self) -> float | None:
        if self._wrong:
            return None
        # Nothing had to move: after the restart of a broker its members still have their queues. They have converged
        # when the last of them has ended its pass.
        at_ms = self._step.right_at_ms if self._step.right_at_ms is not None else self._step.last_pass_ms
        return 0.0 if at_ms is None else at_ms - self._step.began_ms

    @property
    def converged(self) -> bool:
        """Whether every queue has exactly its target owner now."""
        return not self._wrong

    def quiet_ms(self, now_ms: float) -> float:
        """Time without a gained or lost queue and without a pass; at most since the begin of the step."""
        return now_ms - self._last_change_ms

    # --- checks ------------------------------------------------------------------------------------------------------

    def owners(self) -> dict[MessageQueue, tuple[str, ...]]:
        """Queue -> owners, of the queues that have a target or an owner."""
        owners = self.figures.owners()
        return {
            queue: owners.get(queue, ())
            for queue in sorted({**owners, **self._targets})
            if queue.topic == self._topic and (queue in self._targets or owners[queue])
        }

    def _check_queue(self, queue: MessageQueue) -> None:
        """Check a queue against its target, and note the time if the whole group has converged."""
        target = self._targets.get(queue)
        if self.figures.owners_of(queue) == (() if target is None else (target,)):
            if self._wrong.pop(queue, 0) is None and not self._wrong:
                self._step.right_at_ms = self.now_ms
        else:
            self._wrong[queue] = None
