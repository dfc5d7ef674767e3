"""Tracks the owners of queues by the events of a run: convergence, moves, double and missing owners. Pure.

A member claims a queue from its QUEUE_ACQUIRED to its QUEUE_DROPPED. The claim does not count from LOCK_EXPIRED to a
new LOCK_GRANTED: the lease has ended, and the broker fences off whatever the member still does. Claims of a muted
member do not count either: the caller knows that it does not consume.

    orphan     a queue that should have an owner has none
    double     a queue has two owners or more
    converged  every queue has exactly the owner that the strategy assigns, and no other queue is claimed

    t=0   expect(members c1 c2, queues 0 1); step "c2 joins" begins; c1 claims 0 and 1: not converged, 1 should be c2's
    t=3   c1 drops 1                        1 is an orphan
    t=5   c2 acquires 1                     converged after 5 ms; 1 queue moved; orphans for 2 ms
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

_CLAIM_EVENTS = frozenset({EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED, EventKind.LOCK_EXPIRED})
_TIMER = "TIMER"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStep:
    """One step of a run and the group's rebalance after it."""

    step: str  # what was done, as the caller named it
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


@dataclass(slots=True)
class _Claim:
    """A member's claim of a queue; `leased` is False once the broker has ended the lease with this fencing token."""

    token: int
    leased: bool = True


@dataclass(slots=True)
class _TrackedQueue:
    """One queue: its claims, and the time up to which its owners are counted (`since_ms`)."""

    since_ms: float
    claims: dict[str, _Claim] = field(default_factory=dict)
    last_owner: str = ""
    target: str | None = None


class OwnershipTracker:
    """Follows the queues of one topic in one group; other groups and topics, retry topics too, are ignored."""

    def __init__(self, group: str, topic: str, strategy: AllocateMessageQueueStrategy) -> None:
        self.double_owner_ms = 0.0  # time with two owners or more, summed over the queues, up to `account`
        self.orphan_ms = 0.0  # the same without an owner, while the group had members
        self.now_ms = 0.0  # the newest time seen
        self.acquisitions = 0  # times that a member got a queue, in all steps
        self.moves = 0  # how many of them were from another member, or of a queue without an earlier owner
        self._group = group
        self._topic = topic
        self._strategy = strategy
        self._queues: dict[MessageQueue, _TrackedQueue] = {}
        self._members: tuple[str, ...] = ()
        self._muted: dict[str, None] = {}
        self._wrong: dict[MessageQueue, None] = {}  # queues that are not with exactly their target
        self._last_change_ms = 0.0
        self._step = _Step("", 0.0)

    # --- what should be ----------------------------------------------------------------------------------------------

    def expect(self, members: Iterable[str], queues: Iterable[MessageQueue], now_ms: float) -> None:
        """Set the live members, by client id, and the queues of the topic from now on."""
        self.account(now_ms)
        self._members = tuple(sorted(members))
        wanted = sorted(queues)
        for queue in wanted:
            self._queues.setdefault(queue, _TrackedQueue(now_ms))
        for state in self._queues.values():
            state.target = None
        # A strategy that assigns all topics together assigns the group's retry queues too: one on each broker.
        retry = retry_topic(self._group)
        topics = (self._topic, retry)
        queues_of = {self._topic: wanted}
        queues_of[retry] = [MessageQueue(retry, name, 0) for name in sorted({queue.broker_name for queue in wanted})]
        view = GroupView(group=self._group, version=0, members=dict.fromkeys(self._members, topics))
        for member in self._members:
            clustering = MessageModel.CLUSTERING
            for queue in allocate_target(self._strategy, self._group, member, clustering, topics, queues_of, view):
                if queue.topic == self._topic:
                    self._queues[queue].target = member
        for queue in self._queues:
            self._judge(queue)

    def mute(self, client: str, now_ms: float) -> None:
        """Stop counting a member's claims: it is known not to consume."""
        self.account(now_ms)
        self._muted[client] = None
        self._judge_claims_of(client)

    def unmute(self, client: str, now_ms: float) -> None:
        """Count a member's claims again."""
        self.account(now_ms)
        self._muted.pop(client, None)
        self._judge_claims_of(client)

    # --- what happens ------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Record an event; those of other groups and topics are ignored."""
        self.now_ms = max(self.now_ms, event.t_ms)
        kind = event.kind
        if kind == EventKind.REBALANCE_END and event.group == self._group:
            self._pass_ended(event)
        elif event.group == self._group and event.topic == self._topic:
            if kind in _CLAIM_EVENTS:
                self._claim_changed(event)
            elif kind == EventKind.LOCK_GRANTED:
                self._granted(event)
        self._look_for_cause(event)

    def _claim_changed(self, event: Event) -> None:
        queue = MessageQueue(event.topic, event.broker, event.queue_id)
        state = self._queues.setdefault(queue, _TrackedQueue(self.now_ms))
        self._account_queue(state)
        if event.kind == EventKind.QUEUE_ACQUIRED:
            state.claims[event.client] = _Claim(event.version)
            self.acquisitions += 1
            if state.last_owner != event.client:
                state.last_owner = event.client
                self.moves += 1
        elif event.kind == EventKind.QUEUE_DROPPED:
            state.claims.pop(event.client, None)
        elif event.client in state.claims and state.claims[event.client].token == event.version:
            state.claims[event.client].leased = False
        self._last_change_ms = self.now_ms
        self._judge(queue)

    def _granted(self, event: Event) -> None:
        """A disconnected member requests the leases of its queues again, and keeps those that nobody else got."""
        queue = MessageQueue(event.topic, event.broker, event.queue_id)
        state = self._queues.get(queue)
        if state is not None and event.client in state.claims:
            self._account_queue(state)
            state.claims[event.client] = _Claim(event.version)
            self._judge(queue)

    def _pass_ended(self, event: Event) -> None:
        triggers = event.detail.partition(" ")[0].split("+")
        if triggers == [_TIMER] and event.n == 0:
            return  # a periodic pass that changed nothing
        self._step.triggers.update(dict.fromkeys(triggers))
        self._step.last_pass_ms = self._last_change_ms = self.now_ms

    def _look_for_cause(self, event: Event) -> None:
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
        self.account(now_ms)
        self._step = _Step(step, self.now_ms, self.moves)
        self._last_change_ms = self.now_ms

    def end(self) -> RebalanceStep:
        """The step that began last, up to now."""
        step = self._step
        return RebalanceStep(
            step=step.name,
            cause=step.cause,
            trigger="+".join(step.triggers),
            members=len(self._members),
            queues_moved=self.moves - step.moves_before,
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

    # --- looking -----------------------------------------------------------------------------------------------------

    def owners(self) -> dict[MessageQueue, tuple[str, ...]]:
        """Queue -> owners, sorted, of the queues that have a target or a claim."""
        return {
            queue: self._owners(self._queues[queue])
            for queue in sorted(self._queues)
            if self._queues[queue].target is not None or self._queues[queue].claims
        }

    def account(self, now_ms: float) -> None:
        """Bring `double_owner_ms` and `orphan_ms` up to date."""
        self.now_ms = max(self.now_ms, now_ms)
        for state in self._queues.values():
            self._account_queue(state)

    def _account_queue(self, state: _TrackedQueue) -> None:
        elapsed_ms = self.now_ms - state.since_ms
        state.since_ms = self.now_ms
        owners = len(self._owners(state))
        if owners > 1:
            self.double_owner_ms += elapsed_ms
        elif not owners and state.target is not None:
            self.orphan_ms += elapsed_ms

    def _owners(self, state: _TrackedQueue) -> tuple[str, ...]:
        return tuple(client for client, claim in state.claims.items() if claim.leased and client not in self._muted)

    def _judge_claims_of(self, client: str) -> None:
        for queue, state in self._queues.items():
            if client in state.claims:
                self._judge(queue)

    def _judge(self, queue: MessageQueue) -> None:
        """Check a queue against its target, and note the time if the whole group has converged."""
        state = self._queues[queue]
        if self._owners(state) == (() if state.target is None else (state.target,)):
            if self._wrong.pop(queue, 0) is None and not self._wrong:
                self._step.right_at_ms = self.now_ms
        else:
            self._wrong[queue] = None
