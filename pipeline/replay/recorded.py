"""Reads one group of a trace into the input of a replay: outside events, and the duration of each step. Pure.

Outside events are joins, leaves and changed subscriptions of members, changed routes, and messages. The assignment of
queues is not an input: `pipeline/replay/replay.py` computes it, with the durations of the same steps from here.

Times are milliseconds since the first event. Events of equal time keep their order: each is moved `STEP_MS` after the
previous one, so that a replay processes them in that order.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, TypeVar

from client.trigger import Trigger
from model.errors import ConfigError
from model.events import Event, EventKind
from model.limits import COMMIT_STORE_S, REBALANCE_INTERVAL_S
from model.message_queue import MessageQueue
from pipeline.replay.routes import Routes, read_routes
from traces.figures.records import GroupTotals
from traces.figures.trace import compute_figures

_K = TypeVar("_K")
_V = TypeVar("_V")

STEP_MS = 1e-4
_TIMEOUT = re.compile(r"\bsession_timeout_s=([0-9.]+)")
_REQUEST_KINDS = frozenset(
    {EventKind.MEMBER_JOIN, EventKind.LOCK_GRANTED, EventKind.LOCK_REFUSED, EventKind.OFFSET_COMMITTED}
)
_CHANGES = frozenset({EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE, EventKind.SUBSCRIPTION_CHANGE})
_LOCKS = frozenset({EventKind.LOCK_GRANTED, EventKind.LOCK_REFUSED})


class MemberChange(NamedTuple):
    """A change of the member list on the broker whose list the members use."""

    at_ms: float
    version: int  # the group version from then on
    client: str
    topics: tuple[str, ...] | None  # the member's subscriptions from now on; None if it left
    reason: str = ""  # of a leave: `unregister`, `close` or `expiry`


class MemberLeave(NamedTuple):
    """A broker removed a member from the group, and ended its leases there."""

    at_ms: float
    broker: str
    client: str
    reason: str  # `unregister`, `close` or `expiry`
    last_request_ms: float  # time of the last event that a request of the member caused
    missed_ms: float  # time of the first NOTIFY_SENT after the member's last own event; else the time of the leave


@dataclass(slots=True)
class RecordedPass:
    """One pass of a member.

    Attributes:
        version: the group version of its plan; -1 if it got no member list, or if the trace does not have it.
        plan_ms: time of its first revoke, or of the stop of its member if that was earlier; None if neither happened.
    """

    begin_ms: float
    triggers: frozenset[str]
    end_ms: float = math.inf  # infinite if it never ended
    version: int = -1
    plan_ms: float | None = None
    lock_ms: dict[str, float] = field(default_factory=dict)  # broker -> when its LOCK request was handled there
    balanced: bool = False  # whether the member owned exactly its target at the end


class Move(NamedTuple):
    """A grant of a lease to another member than before; `from_client` is "" for the first grant."""

    at_ms: float
    queue: MessageQueue
    from_client: str
    to_client: str


class Timing(NamedTuple):
    """Median durations in milliseconds, for steps of a replay that the trace does not have."""

    plan_ms: float  # from the beginning of a pass until it revokes
    lock_ms: float  # from the beginning of a pass until a broker handles its LOCK request
    end_ms: float  # from the beginning of a pass to its end
    drain_ms: float  # from a revoke to the release of the lease
    least_drain_ms: float  # the same without a busy listener: the 10th percentile
    wake_ms: float  # from a release to the next pass of a member that was refused the lease
    persist_ms: float  # between two commits of a queue


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGroup:
    """One group of a trace; see the module header. All sequences are in order of time.

    Attributes:
        end_ms: time of the last event of this group or without a group: brokers may run before and after the group.
        group_ms: time from the first event of the group to its last.
        returns: re-joins at brokers other than the list broker, after they had removed the member.
        drains: (client, queue) -> (the member stopped consuming, the lease was released; infinite if never).
        arrivals: queue -> (time, end of the queue), at each commit and grant.
        dispatched: client -> (time, messages dispatched to listeners since the previous time).
        timeouts_ms: client -> its session timeout, if the trace has it.
        figures: the figures of the trace, as in every report.
    """

    group: str
    end_ms: float
    group_ms: float
    changes: tuple[MemberChange, ...]
    leaves: tuple[MemberLeave, ...]  # of every broker
    returns: tuple[tuple[float, str], ...]
    stops: tuple[tuple[float, str], ...]  # when members began to shut down
    passes: Mapping[str, list[RecordedPass]]
    has_versions: bool  # whether passes name the group version that they planned with
    routes: Routes
    drains: Mapping[tuple[str, MessageQueue], list[tuple[float, float]]]
    refusals: Mapping[tuple[str, MessageQueue], list[float]]  # (client, queue) -> when the lease was refused
    moves: tuple[Move, ...]
    interval_ms: float  # rebalance interval of a member that owns its target
    timing: Timing
    arrivals: Mapping[MessageQueue, list[tuple[float, int]]]
    dispatched: Mapping[str, list[tuple[float, int]]]
    timeouts_ms: Mapping[str, float]
    figures: GroupTotals

    @property
    def timeout_ms(self) -> float | None:
        """The session timeout of most members; None if the trace does not have it, because clients were too old."""
        return Counter(self.timeouts_ms.values()).most_common(1)[0][0] if self.timeouts_ms else None


TimedEvent = tuple[float, Event]


def groups_in(events: Iterable[Event]) -> list[str]:
    """Return the names of the groups that members join in a trace, sorted."""
    return sorted({event.group for event in events if event.kind == EventKind.MEMBER_JOIN})


def read_recorded(events: Iterable[Event], group: str) -> RecordedGroup:
    """Read one group of a trace, from events of brokers and clients; events of equal time have to be in order.

    Raises:
        ConfigError: no member joins the group in the trace, or the members' own events are missing.
    """
    of_all = [event for event in events if event.group in ("", group)]
    timed = in_order(of_all)
    of_group = [(at_ms, event) for at_ms, event in timed if event.group == group]
    joins = [event for _, event in of_group if event.kind == EventKind.MEMBER_JOIN]
    if not joins:
        raise ConfigError(f"no member joins group {group!r} in the trace: the trace has to begin before the group does")
    passes = _passes(of_group)
    if not passes:
        raise ConfigError(f"the trace has no events of the members of group {group!r}: record the topic SYS_TRACE")
    drains = _drains(of_group)
    list_broker = min(event.broker for event in joins)
    has_versions = any(each.version >= 0 for of_client in passes.values() for each in of_client)
    return RecordedGroup(
        group=group,
        end_ms=timed[-1][0],
        group_ms=of_group[-1][0] - of_group[0][0],
        changes=tuple(_changes(of_group, list_broker)),
        leaves=tuple(_leaves(of_group)),
        returns=tuple(_returns(of_group, list_broker)),
        stops=tuple((at_ms, event.client) for at_ms, event in of_group if event.kind == EventKind.CLIENT_STOP),
        passes=passes,
        has_versions=has_versions,
        routes=read_routes(timed),
        drains=drains,
        refusals=_grouped(((e.client, queue_of(e)), at_ms) for at_ms, e in of_group if e.kind == "LOCK_REFUSED"),
        moves=tuple(find_moves((at_ms, queue_of(e), e.client) for at_ms, e in of_group if e.kind == "LOCK_GRANTED")),
        interval_ms=_interval_ms(passes),
        timing=_timing(of_group, passes, drains),
        arrivals=_arrivals(of_group),
        dispatched=_grouped((e.client, (at_ms, e.n)) for at_ms, e in of_group if e.kind == "MESSAGES_HANDED_OUT"),
        timeouts_ms=_timeouts_ms(event for _, event in of_group),
        figures=compute_figures(of_all, group).totals(),
    )


def in_order(events: Iterable[Event]) -> list[TimedEvent]:
    """Sort events and add their milliseconds since the first one; see the module header."""
    ordered = sorted(events, key=lambda event: event.t_ms)
    timed: list[TimedEvent] = []
    last_ms = -STEP_MS
    for event in ordered:
        last_ms = max(event.t_ms - ordered[0].t_ms, last_ms + STEP_MS)
        timed.append((last_ms, event))
    return timed


def queue_of(event: Event) -> MessageQueue:
    """Return the queue of an event."""
    return MessageQueue(event.topic, event.broker, event.queue_id)


def find_moves(grants: Iterable[tuple[float, MessageQueue, str]]) -> Iterable[Move]:
    """Yield the grants, in order, to another member than the previous grant of the queue."""
    owners: dict[MessageQueue, str] = {}
    for at_ms, queue, client in grants:
        old_owner = owners.get(queue, "")
        if old_owner != client:
            owners[queue] = client
            yield Move(at_ms, queue, old_owner, client)


def _changes(events: Sequence[TimedEvent], broker: str) -> Iterable[MemberChange]:
    for at_ms, event in events:
        if event.kind in _CHANGES and event.broker == broker:
            left = event.kind == EventKind.MEMBER_LEAVE
            # As in "orders=* returns=red || blue"; a topic has no blank and no "=" in its name.
            topics = tuple(sorted(part.partition("=")[0] for part in event.detail.split(" ") if "=" in part))
            yield MemberChange(
                at_ms, event.version, event.client, None if left else topics, event.detail if left else ""
            )


def _returns(events: Sequence[TimedEvent], list_broker: str) -> Iterable[tuple[float, str]]:
    """See `RecordedGroup.returns`: a member may lose its leases on some brokers by an outage of about its session."""
    removed: set[tuple[str, str]] = set()
    for at_ms, event in events:
        if event.kind == EventKind.MEMBER_LEAVE and event.detail in ("expiry", "close"):
            removed.add((event.broker, event.client))
        elif event.kind == EventKind.MEMBER_JOIN and (event.broker, event.client) in removed:
            removed.discard((event.broker, event.client))
            if event.broker != list_broker:
                yield at_ms, event.client


def _leaves(events: Sequence[TimedEvent]) -> Iterable[MemberLeave]:
    last_request: dict[str, float] = {}
    last_own_event: dict[str, float] = {}
    notified: list[float] = []
    for at_ms, event in events:
        last_own_event[event.node] = at_ms
        if event.kind == EventKind.NOTIFY_SENT:
            notified.append(at_ms)
        elif event.kind == EventKind.MEMBER_LEAVE:
            missed = bisect_right(notified, last_own_event.get(event.client, at_ms))
            yield MemberLeave(
                at_ms=at_ms,
                broker=event.broker,
                client=event.client,
                reason=event.detail,
                last_request_ms=last_request.get(event.client, 0.0),
                missed_ms=notified[missed] if missed < len(notified) else at_ms,
            )
        elif event.kind in _REQUEST_KINDS or (event.kind == EventKind.REBALANCE_END and event.version >= 0):
            # A broker reports commits that came with pulls later, possibly when the member already hangs.
            late_ms = COMMIT_STORE_S * 1000 if event.kind == EventKind.OFFSET_COMMITTED else 0.0
            last_request[event.client] = max(last_request.get(event.client, 0.0), at_ms - late_ms)


def _passes(events: Sequence[TimedEvent]) -> dict[str, list[RecordedPass]]:
    passes: dict[str, list[RecordedPass]] = defaultdict(list)
    running: dict[str, RecordedPass] = {}
    for at_ms, event in events:
        kind, current = event.kind, running.get(event.client)
        if kind == EventKind.REBALANCE_BEGIN:
            running[event.client] = RecordedPass(at_ms, frozenset(event.detail.split("+")))
            passes[event.client].append(running[event.client])
        elif current is None:
            continue
        elif kind == EventKind.REBALANCE_END:
            del running[event.client]
            current.end_ms, current.version = at_ms, event.version
            current.balanced = event.detail.endswith(" balanced")
        elif kind == EventKind.QUEUE_DROPPED and event.detail == "revoked":
            current.plan_ms = at_ms if current.plan_ms is None else current.plan_ms
        elif kind == EventKind.CLIENT_STOP and current.plan_ms is None:
            current.plan_ms = at_ms - STEP_MS / 2  # leases that it requests after this were planned before
        elif kind in _LOCKS:
            current.lock_ms.setdefault(event.broker, at_ms)
    return dict(passes)


def _drains(events: Sequence[TimedEvent]) -> dict[tuple[str, MessageQueue], list[tuple[float, float]]]:
    drains: dict[tuple[str, MessageQueue], list[tuple[float, float]]] = defaultdict(list)
    for at_ms, event in events:
        if event.kind == EventKind.QUEUE_DROPPED:
            drains[event.client, queue_of(event)].append((at_ms, math.inf))
        elif event.kind == EventKind.QUEUE_RELEASED:
            of_queue = drains.get((event.client, queue_of(event)))
            if of_queue and of_queue[-1][1] == math.inf:
                of_queue[-1] = (of_queue[-1][0], at_ms)
    return dict(drains)


def _arrivals(events: Sequence[TimedEvent]) -> dict[MessageQueue, list[tuple[float, int]]]:
    arrivals: dict[MessageQueue, list[tuple[float, int]]] = defaultdict(list)
    for at_ms, event in events:
        if event.kind in (EventKind.OFFSET_COMMITTED, EventKind.LOCK_GRANTED) and event.n >= 0:
            points = arrivals[queue_of(event)]
            if not points:
                points.append((at_ms, event.offset))  # the lag of a new group is there for the first owner
            points.append((at_ms, max(event.offset + event.n, points[-1][1])))
    return dict(arrivals)


def _grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    """Return the values of each key, in order."""
    grouped: dict[_K, list[_V]] = defaultdict(list)
    for key, value in pairs:
        grouped[key].append(value)
    return dict(grouped)


def _timeouts_ms(events: Iterable[Event]) -> dict[str, float]:
    found_in = (
        (event.client, _TIMEOUT.search(event.detail)) for event in events if event.kind == EventKind.CLIENT_START
    )
    return {client: float(match[1]) * 1000 for client, match in found_in if match is not None}


def _interval_ms(passes: Mapping[str, list[RecordedPass]]) -> float:
    gaps = [
        next_pass.begin_ms - this_pass.end_ms
        for of_client in passes.values()
        for this_pass, next_pass in itertools.pairwise(of_client)
        if this_pass.balanced and next_pass.triggers == {Trigger.TIMER}
    ]
    # Rounding to milliseconds and a busy loop blur the gaps; configured intervals are multiples of 100 ms.
    return round(median(gaps), -2) if gaps else REBALANCE_INTERVAL_S * 1000


def _timing(
    events: Sequence[TimedEvent],
    passes: Mapping[str, list[RecordedPass]],
    drains: Mapping[tuple[str, MessageQueue], list[tuple[float, float]]],
) -> Timing:
    every = [each for of_client in passes.values() for each in of_client]
    drained = sorted(b - a for of_queue in drains.values() for a, b in of_queue if b < math.inf)
    commits: dict[MessageQueue, list[float]] = defaultdict(list)
    freed: dict[MessageQueue, float] = {}
    waits: list[float] = []
    for at_ms, event in events:
        if event.kind == EventKind.OFFSET_COMMITTED:
            commits[queue_of(event)].append(at_ms)
        elif event.kind == EventKind.QUEUE_RELEASED:
            freed[queue_of(event)] = at_ms
        elif event.kind == EventKind.LOCK_GRANTED:
            waits.append(at_ms - freed.pop(queue_of(event), at_ms))
    plans = [each.plan_ms - each.begin_ms for each in every if each.plan_ms is not None]
    locks = [at_ms - each.begin_ms for each in every for at_ms in each.lock_ms.values()]
    lock_ms = _median(locks, 2.0)
    between = [b - a for times in commits.values() for a, b in itertools.pairwise(times)]
    return Timing(
        plan_ms=min(_median(plans, 1.0), lock_ms),
        lock_ms=lock_ms,
        end_ms=max(
            _median([each.end_ms - each.begin_ms for each in every if each.lock_ms and each.balanced], 3.0), lock_ms
        ),
        drain_ms=_median(drained, 1.0),
        least_drain_ms=drained[len(drained) // 10] if drained else 1.0,
        wake_ms=max(0.0, _median([wait for wait in waits if wait > 0], 3.0) - lock_ms),
        persist_ms=_median(between, 5_000.0),
    )


def _median(values: Sequence[float], without: float) -> float:
    return median(values) if values else without
