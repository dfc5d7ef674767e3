"""Rules about the owners of queues: two owners, no owner, moves without a cause, queues that flap. Pure.

`traces/figures/queue.py` defines who owns a queue, and since when it has no owner. The leases of a broker are checked
more strictly: a grant while another member holds the lease is wrong at once, whatever the clocks of the members show.
Time in which an injected fault cut the owners off from the broker does not count as time without an owner.

    c1 QUEUE_ACQUIRED q0, c2 QUEUE_ACQUIRED q0 90 ms later, c1 QUEUE_DROPPED q0 250 ms later      double-owner, 160 ms
    c1 QUEUE_DROPPED q0, 40 s pass, c2 QUEUE_ACQUIRED q0                                          orphan, 40 s
    LOCK_EXPIRED q0 of c1, 40 s pass, LOCK_GRANTED q0 to c1, who never dropped it                 orphan, 40 s
    LOCK_GRANTED q0 to c1, LOCK_GRANTED q0 to c2                                                  double-owner
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from model.events import Event, EventKind
from model.limits import MAX_KNOWN_CHANGES, RUN_SEQS
from model.message_queue import MessageQueue
from model.names import is_retry_topic
from traces.check.evidence import Evidence
from traces.check.limits import HistoryLimits
from traces.check.verdict import Rule
from traces.figures.faults import FaultHistory
from traces.figures.group import GroupFigures
from traces.figures.queue import Tenure

ONE_CHANGE_MS = 5_000.0
"""All brokers report the join or the leave of one client within this time."""
MAX_ACTS = 12
"""Maximum number of events about the owners of a queue that are kept as witnesses."""

OWNER_KINDS = frozenset(
    {
        EventKind.QUEUE_ACQUIRED,
        EventKind.QUEUE_DROPPED,
        EventKind.QUEUE_RELEASED,
        EventKind.LOCK_GRANTED,
        EventKind.LOCK_EXPIRED,
    }
)
CHANGE_KINDS = frozenset(
    {
        EventKind.CLIENT_START,
        EventKind.CLIENT_STOP,
        EventKind.MEMBER_JOIN,
        EventKind.MEMBER_LEAVE,
        EventKind.MEMBER_BACK,
        EventKind.SUBSCRIPTION_CHANGE,
        EventKind.GROUP_SETTINGS_CHANGED,
        EventKind.CONSUMER_SUSPENDED,
        EventKind.ASSIGNMENT_MADE,
        EventKind.OFFSET_RESET,
        EventKind.LOCK_EXPIRED,
        EventKind.ROUTE_CHANGED,
        EventKind.BROKER_UP,
        EventKind.BROKER_DOWN,
    }
)
"""Kinds of events that report a change of the world, which may explain a move."""
_ARRIVALS = frozenset({EventKind.CLIENT_START, EventKind.MEMBER_JOIN})
_DEPARTURES = frozenset({EventKind.CLIENT_STOP, EventKind.MEMBER_LEAVE})


@dataclass(slots=True)
class _Queue:
    """One queue in one group."""

    acts: deque[Event] = field(default_factory=lambda: deque(maxlen=MAX_ACTS))
    holder: str = ""  # the member that has the lease at the broker
    granted: Event | None = None
    acquired: dict[str, Event] = field(
        default_factory=dict
    )  # client -> its acquisition of the queue, until it drops it
    last: Event | None = None  # the last acquisition
    ended: Event | None = None  # the event that ended the last ownership
    newest: Tenure | None = None  # the ownership that began last
    double_ms: float | None = None  # the time since which it has two owners
    reported: bool = False  # an anomaly about the present state was added
    restless: deque[Event] = field(default_factory=lambda: deque(maxlen=MAX_ACTS))


class OwnerRules:
    """The rules for one group; `process` is called with each event after the figures have processed it."""

    def __init__(self, figures: GroupFigures, limits: HistoryLimits, evidence: Evidence, faults: FaultHistory) -> None:
        self._figures = figures
        self._faults = faults
        self._limits = limits
        self._evidence = evidence
        self._queues: dict[MessageQueue, _Queue] = {}
        self._changed: deque[Event] = deque(maxlen=MAX_ACTS)  # the latest changes of the world
        # client -> the times at which it came (True) or left, to detect a client that keeps doing so
        self._arrived: dict[str, deque[tuple[float, bool]]] = {}
        self._began: dict[str, Event] = {}  # cause -> the event that began it

    # --- changes of the world ----------------------------------------------------------------------------------------

    def changed(self, event: Event) -> None:
        """Record a change of the world that may explain moves."""
        self._changed.append(event)
        if event.id == event.cause:
            self._remember(event)

    def passed(self, event: Event) -> None:
        """Process REBALANCE_BEGIN."""
        if event.id == event.cause:
            self._remember(event)

    def _remember(self, event: Event) -> None:
        self._began[event.id] = event
        if len(self._began) > MAX_KNOWN_CHANGES:
            del self._began[next(iter(self._began))]

    # --- queues ------------------------------------------------------------------------------------------------------

    def process(self, event: Event) -> None:
        """Process an event about an owner."""
        if is_retry_topic(event.topic) or event.queue_id < 0:
            return
        name = MessageQueue(event.topic, event.broker, event.queue_id)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue()
        queue.acts.append(event)
        _STEPS[event.kind](self, queue, event)
        self._count_owners(queue, name, event)

    def dispatched(self, event: Event) -> None:
        """Process MESSAGES_HANDED_OUT: only one process with a client id may own a queue."""
        queue = self._queues.get(MessageQueue(event.topic, event.broker, event.queue_id))
        acquired = None if queue is None else queue.acquired.get(event.client)
        if acquired is None or event.seq // RUN_SEQS == acquired.seq // RUN_SEQS or event.n <= 0:
            return
        assert queue is not None, "it has an owner"
        if not queue.reported:
            queue.reported = True
            text = (
                f"Two processes with the client id {event.client} owned {_named(event)}: one of them dispatched "
                f"messages of it after the other had acquired it."
            )
            self._evidence.add(Rule.DOUBLE_OWNER, event, text, [*queue.acts, event])

    def _granted(self, queue: _Queue, event: Event) -> None:
        self._evidence.checked[Rule.DOUBLE_OWNER] += 1
        if queue.holder not in ("", event.client):
            text = (
                f"Broker {event.broker} granted the lease of {_named(event)} to {event.client} while {queue.holder} "
                "held it."
            )
            self._evidence.add(Rule.DOUBLE_OWNER, event, text, [queue.granted, event])
        queue.holder, queue.granted = event.client, event

    def _expired(self, queue: _Queue, event: Event) -> None:
        self._freed(queue, event)
        queue.ended = event

    def _released(self, queue: _Queue, event: Event) -> None:
        self._freed(queue, event)
        acquired = queue.acquired.get(event.client)
        if acquired is not None and acquired.version == event.version:
            self._dropped(queue, event)  # its member was killed before it could report the drop

    def _freed(self, queue: _Queue, event: Event) -> None:
        if queue.holder == event.client:
            queue.holder, queue.granted = "", None

    def _acquired(self, queue: _Queue, event: Event) -> None:
        last_owner, queue.last = queue.last, event
        queue.acquired[event.client] = event
        if last_owner is None or last_owner.client == event.client:
            return
        self._evidence.checked[Rule.UNCAUSED_MOVE] += 1
        self._evidence.checked[Rule.FLAP] += 1
        root = self.root_of(queue, event)
        if root is None:
            text = (
                f"{_named(event)} moved from {last_owner.client} to {event.client}, and no change explains it: in the "
                f"{_seconds(self._limits.explains_move_ms)} before, no member joined or left, and no route changed."
            )
            self._evidence.add(Rule.UNCAUSED_MOVE, event, text, [last_owner, queue.ended, event])
        self._check_flap(queue, event, root)

    def _dropped(self, queue: _Queue, event: Event) -> None:
        if queue.acquired.pop(event.client, None) is not None:
            queue.ended = event

    def root_of(self, queue: _Queue, event: Event) -> Event | None:
        """Find the event that explains a move: its cause, the cause of the drop before, or the latest change."""
        for each in (event, queue.ended):
            root = None if each is None else self._began.get(each.cause)
            if root is not None and root.kind != EventKind.REBALANCE_BEGIN:
                return root
        since_ms = event.t_ms - self._limits.explains_move_ms
        for change in reversed(self._changed):
            if change.t_ms >= since_ms:
                return change
        return None

    def _check_flap(self, queue: _Queue, event: Event, root: Event | None) -> None:
        """Count a move as restless if it has no cause, or if its cause is a client that keeps leaving and joining."""
        if root is not None and root.kind in _ARRIVALS | _DEPARTURES and self._is_membership_change(root):
            return
        queue.restless.append(event)
        recent = [each for each in queue.restless if event.t_ms - each.t_ms <= self._limits.flap_ms]
        owners = dict.fromkeys(each.client for each in recent)
        if len(recent) >= self._limits.flap_moves and len(owners) < len(recent):
            queue.restless.clear()
            text = (
                f"{_named(event)} moved {len(recent)} times within {_seconds(event.t_ms - recent[0].t_ms)}, back and "
                f"forth between {', '.join(owners)}, although no member was new and none had left for good."
            )
            self._evidence.add(Rule.FLAP, event, text, [*recent, *list(self._changed)[-4:]])

    def _is_membership_change(self, root: Event) -> bool:
        """Whether a client joins or leaves for the first time within `flap_ms`, or comes back after a restart."""
        changes = self._arrived.get(root.client)
        if changes is None:
            changes = self._arrived[root.client] = deque(maxlen=MAX_ACTS)
            if len(self._arrived) > MAX_KNOWN_CHANGES:
                del self._arrived[next(iter(self._arrived))]
        comes = root.kind in _ARRIVALS
        if not any(came == comes and abs(root.t_ms - t_ms) <= ONE_CHANGE_MS for t_ms, came in changes):
            changes.append((root.t_ms, comes))
        return sum(0 <= root.t_ms - t_ms <= self._limits.flap_ms for t_ms, _ in changes) <= 2

    def _count_owners(self, queue: _Queue, name: MessageQueue, event: Event) -> None:
        queue_figures = self._figures.queue(name)
        owners = () if queue_figures is None else queue_figures.owners
        self._evidence.checked[Rule.ORPHAN] += 1
        if len(owners) > 1 and all(owner.token >= 0 for owner in owners):
            if queue.double_ms is None:
                queue.double_ms = owners[-1].from_ms
        elif queue.double_ms is not None:
            self._two_owners(queue, event, event.t_ms)
            queue.double_ms = None
        if owners and owners[-1] is not queue.newest and owners[-1].owner == event.client:
            queue.newest = newest = owners[-1]  # acquired, or granted again to a member that never dropped the queue
            if self._is_orphan(queue, event, newest.orphan_ms, newest.from_ms):
                text = f"{_named(event)} had no owner for {_seconds(newest.orphan_ms)}, until {newest.owner} got it."
                self._evidence.add(Rule.ORPHAN, event, text, [*self._before(queue, event), event])
        queue.reported = queue.reported and len(owners) > 1

    def _is_orphan(self, queue: _Queue, event: Event, orphan_ms: float, now_ms: float) -> bool:
        if orphan_ms <= self._limits.orphan_ms:
            return False
        clients = [each.client for each in (queue.ended, queue.last, event) if each is not None]
        blocked_ms = self._faults.blocked_ms(event.group, event.broker, clients, now_ms - orphan_ms, now_ms)
        return orphan_ms - blocked_ms > self._limits.orphan_ms

    def _two_owners(self, queue: _Queue, event: Event, now_ms: float) -> None:
        assert queue.double_ms is not None, "it has two owners"
        took_ms = now_ms - queue.double_ms
        if took_ms > self._limits.double_owner_ms:
            both = dict.fromkeys(each.client for each in queue.acts if each.t_ms >= queue.double_ms)
            names = " and ".join(sorted(dict.fromkeys((*queue.acquired, *both))))
            text = f"{names} owned {_named(event)} at the same time for {_seconds(took_ms)}."
            witness = [*queue.acquired.values(), *(each for each in queue.acts), event]
            self._evidence.add(Rule.DOUBLE_OWNER, event, text, witness, t_ms=now_ms)

    def _before(self, queue: _Queue, event: Event) -> Iterable[Event | None]:
        yield queue.ended
        yield from (each for each in queue.acts if each.t_ms >= event.t_ms - self._limits.orphan_ms * 2)
        yield from list(self._changed)[-4:]

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self, now_ms: float) -> None:
        """Judge the queues that still have two owners or no owner at the end."""
        for name, queue in self._queues.items():
            queue_figures, last = self._figures.queue(name), queue.last or queue.ended
            if queue_figures is None or last is None:
                continue
            if queue.double_ms is not None and len(queue_figures.owners) > 1:
                self._two_owners(queue, last, now_ms)
            orphan_ms = queue_figures.orphaned_ms(now_ms)
            if (
                not queue_figures.owners
                and queue_figures.orphan_since is not None
                and self._is_orphan(queue, last, orphan_ms, now_ms)
            ):
                text = f"{_named(last)} has had no owner for {_seconds(orphan_ms)}, and has none at the end."
                self._evidence.add(Rule.ORPHAN, last, text, [*self._before(queue, last)], t_ms=now_ms)


_STEPS: dict[str, Callable[[OwnerRules, _Queue, Event], None]] = {
    EventKind.LOCK_GRANTED: OwnerRules._granted,
    EventKind.QUEUE_RELEASED: OwnerRules._released,
    EventKind.LOCK_EXPIRED: OwnerRules._expired,
    EventKind.QUEUE_ACQUIRED: OwnerRules._acquired,
    EventKind.QUEUE_DROPPED: OwnerRules._dropped,
}


def _named(event: Event) -> str:
    return str(MessageQueue(event.topic, event.broker, event.queue_id))


def _seconds(ms: float) -> str:
    return f"{ms:,.0f} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"
