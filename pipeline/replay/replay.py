"""Replays one group of a trace under other rules, and computes the owners of its queues over time. Pure.

Only outside events are copied from the trace: members join and leave, and routes change, at their recorded times. The
code of clients (`client/rebalance/plan.py`, `client/allocate`) computes the reactions of members. A step has its
duration in the trace if the same step happened there, else the median of the trace. So a replay under the recorded
rules repeats the recorded moves, and any difference under other rules comes from the rules.

    trace     c2 joins at 100; c1 begins a pass at 103, revokes q1 at 104, releases it at 150; c2 has the lease at 153
    AVG       the same
    CIRCLE    c1 revokes q0 at 104; the trace has no such release, so it takes the median time; then c2 gets the lease

A queue passes through these states: no longer consumed -> drained (lease released) -> leased -> consumed. A member that
requests a lease too early is refused, and runs a pass when the lease is released.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple

from client.instance.schedule import RebalancePass, RebalanceSchedule
from client.rebalance.plan import plan_rebalance
from client.trigger import Trigger
from model.limits import REBALANCE_RETRY_S
from model.message_queue import MessageQueue
from pipeline.replay.recorded import MemberLeave, Move, RecordedGroup, RecordedPass, find_moves
from pipeline.replay.rules import Handover, Rules, leaves_under, member_views, shifted_changes
from pipeline.replay.targets import Members, MemberTargets, RouteId
from pipeline.replay.trace_lookup import NEAR_MS, SAME_MS, TraceLookup

_OUTSIDE = frozenset(trigger for trigger in Trigger if trigger.from_outside)


class Span(NamedTuple):
    """A member consumed a queue from `from_ms` to `to_ms`."""

    queue: MessageQueue
    client: str
    from_ms: float
    to_ms: float
    drained_ms: float  # the time at which the listener finished the last message of the queue
    ended: str  # `revoked`, `shutdown`, `silent`, or `open` at the end of the trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """The result of a replay."""

    moves: tuple[Move, ...]
    spans: tuple[Span, ...]
    alive: tuple[tuple[float, float, str], ...]  # (from, to, client): while the client ran
    expired: tuple[Move, ...]  # leases that a broker ended because it removed their owner, `from_client`
    passes: int  # number of passes of all members


@dataclass(slots=True)
class _Member:
    schedule: RebalanceSchedule
    owned: dict[MessageQueue, float] = field(default_factory=dict)
    """Queue -> the time since which it is consumed."""
    releasing: dict[MessageQueue, None] = field(default_factory=dict)
    reacquire: dict[MessageQueue, None] = field(default_factory=dict)
    route: RouteId = ()
    recorded: list[RecordedPass] = field(default_factory=list)
    next_recorded: int = 0
    silences: list[float] = field(default_factory=list)
    """Times at which the member dies or loses its connections without unregistering."""
    alive_since: float | None = None
    lives: int = 0
    missed: dict[MessageQueue, float] = field(default_factory=dict)
    """Leases that ended while the member was disconnected -> the time at which it notices."""
    subscribed: dict[int, _Subscribed] = field(default_factory=dict)
    """Number of a member list -> what the member knows under it, as long as its route stays."""


@dataclass(slots=True)
class _Subscribed:
    route: RouteId
    """The part of the member's route that it subscribes to."""
    of_others: tuple[str, ...]
    """The topics that only other members subscribe to."""
    target: frozenset[MessageQueue] | None = None
    """None before the first pass, and if there are topics of others, whose routes may change."""


@dataclass(slots=True)
class _Lease:
    owner: str = ""
    waiters: dict[str, float] = field(default_factory=dict)
    """Refused member -> time of the refusal."""


@dataclass(slots=True)
class _Pass:
    client: str
    life: int
    recorded: RecordedPass | None
    begin_ms: float
    target: frozenset[MessageQueue] | None = None
    granted: list[MessageQueue] = field(default_factory=list)


def replay(recorded: RecordedGroup, rules: Rules, targets: MemberTargets | None = None) -> ReplayOutcome:
    """Replay the trace of a group under these rules.

    Replays of one trace under one strategy may share their `targets`: most of them have the same member lists.
    """
    return _Replay(recorded, rules, targets or MemberTargets(recorded.group, rules.strategy)).run()


class _Replay:
    def __init__(self, recorded: RecordedGroup, rules: Rules, targets: MemberTargets) -> None:
        self._recorded, self._rules, self._timing = recorded, rules, recorded.timing
        self._lookup = TraceLookup(recorded)
        self._targets = targets
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._members: dict[str, _Member] = {}
        self._leases: dict[MessageQueue, _Lease] = {}
        self._grants: list[tuple[float, MessageQueue, str]] = []
        self._spans: list[Span] = []
        self._alive: list[tuple[float, float, str]] = []
        self._expired: list[Move] = []
        self._passes = 0
        self._changes = shifted_changes(recorded.changes, rules)
        self._change_at = [change.at_ms for change in self._changes]
        self._versions = [change.version for change in recorded.changes]
        self._views = [(targets.number_of(members), members) for members in member_views(self._changes)]

    def run(self) -> ReplayOutcome:
        self._schedule_all()
        while self._heap and self._heap[0][0] <= self._recorded.end_ms:
            at_ms, _, act = heapq.heappop(self._heap)
            act(at_ms)
        end_ms = self._recorded.end_ms
        for client, member in self._members.items():
            if member.alive_since is not None:
                self._alive.append((member.alive_since, end_ms, client))
                for queue, since_ms in member.owned.items():
                    self._spans.append(Span(queue, client, since_ms, end_ms, end_ms, "open"))
        moves = tuple(find_moves(self._grants))
        return ReplayOutcome(
            moves=moves,
            spans=tuple(self._spans),
            alive=tuple(self._alive),
            expired=tuple(self._expired),
            passes=self._passes,
        )

    # --- outside events ----------------------------------------------------------------------------------------------

    def _at(self, at_ms: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._heap, (at_ms, next(self._order), act))

    def _schedule_all(self) -> None:
        for change in self._changes:
            if change.topics:  # a member that shuts down has no subscriptions; it leaves when its listeners are idle
                self._at(change.at_ms, partial(self._join, change.client))
        for at_ms, client in self._recorded.returns:
            self._at(at_ms, partial(self._join, client))
        for at_ms, client in self._recorded.stops:
            self._at(at_ms, partial(self._stop, client))
        for silent_ms, leave in leaves_under(self._recorded, self._rules):
            self._member(leave.client).silences.append(silent_ms)
            self._at(silent_ms, partial(self._fall_silent, leave.client))
            self._at(leave.at_ms, partial(self._leave, leave))
        for client, changes in self._recorded.routes.of_client.items():
            for route in changes:
                self._at(route.at_ms, partial(self._see_route, client, route.topic, route.queues))
        for client, passes in self._recorded.passes.items():
            self._member(client).recorded = passes
            for each in passes:
                self._schedule_outside(client, each)

    def _schedule_outside(self, client: str, recorded: RecordedPass) -> None:
        """Schedule a wake-up for a recorded pass that was triggered from outside, shifted if its cause is shifted."""
        triggers = recorded.triggers & _OUTSIDE
        if not self._rules.notify:
            triggers -= {Trigger.NOTIFY}
        if triggers:
            self._at(recorded.begin_ms + self._shift_of(recorded), partial(self._wake, client, Trigger(min(triggers))))

    def _shift_of(self, recorded: RecordedPass) -> float:
        if not self._rules.expiry_shift_ms:
            return 0.0
        # All members are notified of an expiry at once, so the expiry triggered a pass that follows shortly after.
        changes = self._recorded.changes
        last = bisect_right(changes, recorded.begin_ms + SAME_MS, key=lambda change: change.at_ms) - 1
        recent = last >= 0 and recorded.begin_ms - changes[last].at_ms < 5 * NEAR_MS
        return self._rules.expiry_shift_ms if recent and changes[last].reason == "expiry" else 0.0

    def _member(self, client: str) -> _Member:
        member = self._members.get(client)
        if member is None:
            schedule = RebalanceSchedule(interval_s=self._rules.interval_ms / 1000, retry_s=REBALANCE_RETRY_S)
            member = self._members[client] = _Member(schedule)
        return member

    def _join(self, client: str, at_ms: float) -> None:
        member = self._member(client)
        if member.alive_since is None:
            member.alive_since = at_ms
            member.lives += 1
            member.schedule.add(client, at_ms / 1000)
            for queue in member.owned:  # disconnected for less than the session timeout, it lost no lease
                member.owned[queue] = at_ms
            self._notice_losses(client, member, at_ms)
            waited = next((each for each in member.recorded if each.begin_ms < at_ms < each.end_ms), None)
            if waited is None:
                self._pump_later(client, at_ms)
            else:  # a pass that waited for a broker while the member was disconnected continues
                member.schedule.wake(client, Trigger.RECONNECT, now=at_ms / 1000)
                member.schedule.begin_due(at_ms / 1000)
                self._go_on(_Pass(client, member.lives, waited, at_ms), at_ms)

    def _notice_losses(self, client: str, member: _Member, at_ms: float) -> None:
        """Let a reconnected member notice which of its leases ended, and begin a pass."""
        begins: set[float] = set()
        for queue in member.missed:
            noticed_ms = member.missed[queue] = self._lookup.loss_noticed(client, queue, at_ms)
            if (begin_ms := self._lookup.pass_begin(client, Trigger.LOCK, noticed_ms)) is not None:
                begins.add(max(at_ms, begin_ms))
        for begin_ms in sorted(begins):
            self._at(begin_ms, partial(self._wake, client, Trigger.LOCK))

    def _see_route(self, client: str, topic: str, queues: tuple[MessageQueue, ...], _at_ms: float) -> None:
        member = self._member(client)
        member.route = tuple(sorted({**dict(member.route), topic: queues}.items()))
        member.subscribed.clear()

    def _stop(self, client: str, at_ms: float) -> None:
        member = self._members.get(client)
        if member is None or member.alive_since is None:
            return  # a producer, or a member that the brokers never listed
        self._end_life(client, member, at_ms)
        for queue in list(member.owned):
            self._stop_consuming(client, queue, at_ms, "shutdown")

    def _fall_silent(self, client: str, at_ms: float) -> None:
        member = self._members.get(client)
        if member is None or member.alive_since is None or member.alive_since >= at_ms:
            return
        self._end_life(client, member, at_ms)
        for queue, since_ms in member.owned.items():
            self._spans.append(Span(queue, client, since_ms, at_ms, at_ms, "silent"))

    def _end_life(self, client: str, member: _Member, at_ms: float) -> None:
        assert member.alive_since is not None, f"{client} ends twice"
        self._alive.append((member.alive_since, at_ms, client))
        member.alive_since = None
        member.schedule.remove(client)

    def _leave(self, leave: MemberLeave, at_ms: float) -> None:
        """Remove a member at a broker, and end its leases there."""
        member = self._member(leave.client)
        for queue in [queue for queue in member.owned if queue.broker_name == leave.broker]:
            since_ms = member.owned.pop(queue)
            member.missed[queue] = at_ms
            self._expired.append(Move(at_ms, queue, leave.client, ""))
            if member.alive_since is not None:
                self._spans.append(Span(queue, leave.client, since_ms, at_ms, at_ms, "silent"))
        for queue, lease in self._leases.items():
            if lease.owner == leave.client and queue.broker_name == leave.broker:
                member.releasing.pop(queue, None)
                self._free(queue, lease, at_ms, as_recorded=not self._rules.expiry_shift_ms)

    # --- passes ------------------------------------------------------------------------------------------------------

    def _wake(self, client: str, trigger: Trigger, at_ms: float) -> None:
        member = self._members[client]
        if client in member.schedule:
            member.schedule.wake(client, trigger, now=at_ms / 1000)
            # Wake-ups of the same instant share one pass: a member that shuts down releases many leases at once.
            self._at(at_ms, partial(self._pump, client))

    def _pump_later(self, client: str, now_ms: float) -> None:
        """Schedule the next timed pass: at its recorded time if the trace has that pass, else when the timer is due."""
        deadline = self._members[client].schedule.next_deadline()
        if deadline is not None:
            due_ms = max(deadline * 1000, now_ms)
            begin_ms = self._lookup.pass_begin(client, Trigger.TIMER, due_ms) or due_ms
            self._at(begin_ms, lambda at_ms: self._pump(client, at_ms, due_ms))

    def _pump(self, client: str, at_ms: float, due_ms: float = 0.0) -> None:
        schedule = self._members[client].schedule
        if client in schedule:
            # Recorded times are rounded, so a recorded pass may begin just before its due time.
            early = 0.0 < due_ms - at_ms <= SAME_MS
            for due in schedule.begin_due((due_ms if early else at_ms) / 1000):
                self._begin(client, due, at_ms)

    def _begin(self, client: str, due: RebalancePass, at_ms: float) -> None:
        member = self._members[client]
        self._go_on(_Pass(client, member.lives, self._recorded_pass(member, due, at_ms), at_ms), at_ms)

    def _go_on(self, running: _Pass, at_ms: float) -> None:
        recorded, timing = running.recorded, self._timing
        self._passes += 1
        if recorded is not None and self._recorded.has_versions and recorded.version < 0:
            self._at(max(at_ms, recorded.end_ms), lambda end_ms: self._end(running, end_ms))
            return  # the recorded pass got no member list, so it planned nothing
        plan_ms = at_ms + timing.plan_ms
        if recorded is not None and recorded.plan_ms is not None:
            plan_ms = recorded.plan_ms
        elif recorded is not None and recorded.lock_ms:
            # The member planned right before its first LOCK request. So the plan includes notifications until then, and
            # the pass took this long because it waited for the member list.
            plan_ms = min(recorded.lock_ms.values())
        elif recorded is not None:
            plan_ms = min(recorded.begin_ms + timing.plan_ms, recorded.end_ms)
        self._at(max(at_ms, plan_ms), lambda now_ms: self._plan(running, now_ms))

    def _recorded_pass(self, member: _Member, due: RebalancePass, at_ms: float) -> RecordedPass | None:
        """Find the recorded pass that this pass repeats: same member, same time, a common trigger."""
        passes = member.recorded
        index = member.next_recorded
        while index < len(passes) and passes[index].begin_ms < at_ms - SAME_MS:
            index += 1
        member.next_recorded = index
        triggers = frozenset(due.triggers)
        while index < len(passes) and passes[index].begin_ms <= at_ms + SAME_MS:
            if passes[index].triggers & triggers:
                member.next_recorded = index + 1
                return passes[index]
            index += 1
        return None

    def _plan(self, running: _Pass, at_ms: float) -> None:
        client, member = running.client, self._members[running.client]
        view, members = self._view(running, at_ms)
        if self._is_over(running) or client not in members:
            self._at(at_ms, lambda end_ms: self._end(running, end_ms))
            return
        running.target = self._target(client, view, members, at_ms)
        if member.owned.keys() == running.target:  # as in most passes
            member.reacquire, member.missed = {}, {}
            end_ms = at_ms if running.recorded is None else running.recorded.end_ms
            self._at(max(at_ms, end_ms), partial(self._end, running))
            return
        plan = plan_rebalance(member.owned, running.target)
        for queue in plan.revoke:
            self._stop_consuming(client, queue, at_ms, "revoked")
        member.reacquire = {}
        of_broker: dict[str, list[MessageQueue]] = {}
        for queue in plan.acquire:
            of_broker.setdefault(queue.broker_name, []).append(queue)
        missed, member.missed = member.missed, {}
        recorded_locks = {} if running.recorded is None else running.recorded.lock_ms
        end_ms = not_recorded_ms = at_ms
        for broker, queues in of_broker.items():
            lock_ms = max(at_ms, recorded_locks.get(broker, running.begin_ms + self._timing.lock_ms))
            end_ms = max(end_ms, lock_ms + self._timing.end_ms - self._timing.lock_ms)
            if broker not in recorded_locks:
                not_recorded_ms = end_ms
            # A queue that the member still believes it owns is only confirmed. If the member notices before the request
            # that this lease ended, the next pass requests it.
            queues_to_lock = [queue for queue in queues if not at_ms < missed.get(queue, at_ms) <= lock_ms]
            self._at(lock_ms, partial(self._lock, running, queues_to_lock, broker in recorded_locks))
        if running.recorded is not None and (running.recorded.lock_ms or not of_broker):
            # Not before the answer of a broker that the recorded pass did not ask, else its leases would have no owner.
            end_ms = max(at_ms, running.recorded.end_ms, not_recorded_ms)
        self._at(end_ms, lambda now_ms: self._end(running, now_ms))

    def _view(self, running: _Pass, at_ms: float) -> tuple[int, Members]:
        recorded = running.recorded
        if recorded is not None and recorded.version >= 0 and not self._rules.expiry_shift_ms:
            number = bisect_right(self._versions, recorded.version)
        else:
            number = bisect_right(self._change_at, (running.begin_ms + at_ms) / 2)
        return self._views[number]

    def _target(self, client: str, view: int, members: Members, at_ms: float) -> frozenset[MessageQueue]:
        member = self._members[client]
        subscribed = member.subscribed.get(view)
        if subscribed is None:
            own_topics = tuple((topic, queues) for topic, queues in member.route if topic in members[client])
            of_others = {topic for topics in members.values() for topic in topics}.difference(members[client])
            subscribed = member.subscribed[view] = _Subscribed(own_topics, tuple(sorted(of_others)))
        if subscribed.target is not None:
            return subscribed.target
        others = {topic: self._recorded.routes.at(topic, at_ms) for topic in subscribed.of_others}
        target = self._targets.target(client, view, members, subscribed.route, others)
        if not others:
            subscribed.target = target
        return target

    def _lock(self, running: _Pass, queues: Iterable[MessageQueue], as_recorded: bool, at_ms: float) -> None:
        member = self._members[running.client]
        if not as_recorded and (self._is_over(running) or any(0 <= ms - at_ms <= SAME_MS for ms in member.silences)):
            return  # the member ended before its request arrived; a request that did arrive is in the trace
        for queue in queues:
            if queue in member.releasing:
                member.reacquire[queue] = None
                continue
            served = self._recorded.routes.at(queue.topic, at_ms)
            index = bisect_left(served, queue)
            if index == len(served) or served[index] != queue:
                continue  # the topic has fewer queues now, which the member does not know yet
            lease = self._leases.setdefault(queue, _Lease())
            if lease.owner in ("", running.client) or self._rules.handover is Handover.OVERLAP:
                lease.owner = running.client
                running.granted.append(queue)
                self._grants.append((at_ms, queue, running.client))
            else:
                lease.waiters[running.client] = at_ms

    def _end(self, running: _Pass, at_ms: float) -> None:
        client, member = running.client, self._members[running.client]
        # A member that ended during the pass keeps its leases until the broker removes it.
        for queue in () if self._is_over(running) else running.granted:
            lease = self._leases[queue]
            if lease.owner == client or self._rules.handover is Handover.OVERLAP:
                member.owned[queue] = at_ms
        if not self._is_over(running):
            balanced = running.target is not None and member.owned.keys() == running.target
            member.schedule.finished(client, balanced, at_ms / 1000)
            self._pump(client, at_ms)
            self._pump_later(client, at_ms)

    def _is_over(self, running: _Pass) -> bool:
        """Whether the member ended after the pass began, even if it has joined again."""
        member = self._members[running.client]
        return member.alive_since is None or member.lives != running.life

    # --- queues ------------------------------------------------------------------------------------------------------

    def _stop_consuming(self, client: str, queue: MessageQueue, at_ms: float, why: str) -> None:
        member = self._members[client]
        drained_ms = self._lookup.drain_end(client, queue, at_ms) or at_ms + self._timing.drain_ms
        self._spans.append(Span(queue, client, member.owned.pop(queue), at_ms, drained_ms, why))
        member.releasing[queue] = None
        released_ms = drained_ms
        if self._rules.handover is Handover.CUT:
            released_ms = min(drained_ms, at_ms + self._timing.least_drain_ms)
        self._at(released_ms, lambda now_ms: self._released(client, queue, now_ms))

    def _released(self, client: str, queue: MessageQueue, at_ms: float) -> None:
        member = self._members[client]
        if member.releasing.pop(queue, 0) is not None:
            return  # the broker removed the member before
        lease = self._leases[queue]
        if lease.owner == client:
            self._free(queue, lease, at_ms, as_recorded=self._lookup.was_released(client, queue, at_ms))
        if queue in member.reacquire:
            self._wake(client, Trigger.LOCK, at_ms)

    def _free(self, queue: MessageQueue, lease: _Lease, at_ms: float, *, as_recorded: bool) -> None:
        """End the lease of a queue, and wake the members that were refused it."""
        lease.owner = ""
        for client, refused_ms in lease.waiters.items():
            begin_ms = self._lookup.pass_begin(client, Trigger.LOCK, at_ms)
            if begin_ms is None and as_recorded and self._lookup.was_refused(client, queue, refused_ms):
                # The notification was lost in an outage shorter than the session timeout, which the trace does not
                # show: the member's next LOCK pass is the reaction.
                begin_ms = self._lookup.pass_begin(client, Trigger.LOCK, at_ms, self._rules.was_timeout_ms)
            self._at(max(at_ms, begin_ms or at_ms + self._timing.wake_ms), partial(self._wake, client, Trigger.LOCK))
        lease.waiters.clear()
