"""The state machine of one member's queues: an event changes the states of queues and returns acts. Pure.

RocketMQ: processQueueTable of RebalanceImpl. There a queue is in the table or not; every state between the two (a
request without an answer, a listener that still works) is in local variables of several threads. A queue that
enters the target and leaves it later, and one that another member got or that was reset, have these states:

    absent -> wanted -> requested -> owned -> draining -> releasing -> absent
    absent -> wanted -> requested -> owned -> lost -> wanted -> requested -> owned

A holding is the object that the caller makes for one granted queue, see `Holding` in `ownership_events.py`.

`TRANSITIONS` has every step that is possible. For example, for a queue `q` that another member releases late:

    on(TargetFound([q]))         []                                            q is wanted
    on(LeasesDue(()))            [RequestLeases([q], [])]                      requested
    on(QueueRefused(q))          []                                            wanted again, until the next pass
    on(LeasesDue(()))            [RequestLeases([q], [])]                      requested
    on(QueueGranted(h, None))    [StartQueue(h)]                               owned; h is the holding
    on(TargetFound([]))          [StopQueue(h, "revoked"), DrainQueues((h,))]  draining
    on(QueuesDrained((h,)))      [ReleaseQueues((h,))]                         releasing
    on(QueuesReleased((h,)))     []                                            absent

Laws, with a test of each in tests/property/test_ownership_table.py: a queue is in one state; without an event there is
no act; a holding is started once and stopped once, and dispatches only between the two; each granted lease is owned,
draining or released, or is requested again; after `MemberClosed` no queue is owned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Generic, Literal

from client.rebalance import ownership_acts as acts
from client.rebalance import ownership_events as events
from client.rebalance.ownership_acts import OwnershipAct
from client.rebalance.ownership_events import HoldingT, OwnershipEvent
from client.rebalance.plan import plan_rebalance
from model.message_queue import MessageQueue


class OwnershipState(StrEnum):
    """The state of a queue."""

    ABSENT = "absent"  # not in the table
    WANTED = "wanted"  # in the target, without a lease: not requested yet, or refused
    REQUESTED = "requested"  # its lease may have been granted: a request is outstanding, or its answer was lost
    OWNED = "owned"  # pulled and dispatched
    DRAINING = "draining"  # stopped under a valid lease, until no listener has a message of it
    RELEASING = "releasing"  # drained; the request to commit and to free the lease is outstanding
    LOST = "lost"  # stopped without a valid lease; a listener still has a message of it


ABSENT, WANTED, REQUESTED, OWNED, DRAINING, RELEASING, LOST = OwnershipState
WITHOUT_HOLDING: Final = None
"""In `TRANSITIONS`, the next state of a queue without a holding.

REQUESTED if a request that was not answered may have granted it, else WANTED if the target has it, else ABSENT.
"""

Step = Literal[
    "target", "request", "grant", "grant to give back", "refuse", "revoke", "lose", "reset", "drain", "release"
]

TRANSITIONS: Final[Mapping[tuple[OwnershipState, Step], OwnershipState | None]] = {
    (ABSENT, "target"): WITHOUT_HOLDING,
    (WANTED, "target"): WITHOUT_HOLDING,
    (REQUESTED, "target"): WITHOUT_HOLDING,
    (WANTED, "request"): REQUESTED,
    (REQUESTED, "request"): REQUESTED,
    (REQUESTED, "refuse"): WITHOUT_HOLDING,
    (REQUESTED, "grant"): OWNED,
    (WANTED, "grant"): OWNED,  # the queue was owned, and was lost while its lease was being confirmed
    (REQUESTED, "grant to give back"): DRAINING,
    (ABSENT, "grant to give back"): DRAINING,
    (OWNED, "revoke"): DRAINING,
    (DRAINING, "drain"): RELEASING,
    (RELEASING, "release"): WITHOUT_HOLDING,
    (OWNED, "lose"): LOST,
    (OWNED, "reset"): LOST,
    (LOST, "drain"): WITHOUT_HOLDING,
}


class OwnershipTable(Generic[HoldingT]):
    """The queues of one member and their states; the module header explains both.

    Protocol of use: acts are carried out in their order, before the next event. Passes do not overlap: each is
    `TargetFound`, `LeasesDue`, and for each queue of `RequestLeases` at most one of `QueueGranted`, `QueueRefused` and
    `RequestFailed`. All other events come at any time.

    Attributes:
        owned: the holdings that are pulled and dispatched. Read only.
        leaving: the holdings of draining, releasing and lost queues. Read only.
    """

    def __init__(self) -> None:
        """Make an empty table."""
        self.owned: dict[MessageQueue, HoldingT] = {}
        self.leaving: dict[MessageQueue, HoldingT] = {}
        self.closing = False
        self._places = {OWNED: self.owned, **dict.fromkeys((DRAINING, RELEASING, LOST), self.leaving)}
        self._states: dict[MessageQueue, OwnershipState] = {}  # of all queues that are not absent
        self._target_order: Sequence[MessageQueue] = ()
        self._target: frozenset[MessageQueue] = frozenset()
        # Queues of requests that were not answered. Their leases may be granted until a later request is answered,
        # because a broker that hangs executes a request after its timeout. The value is true if an earlier request was
        # not answered either: then the lease may be granted even if the last request was never sent.
        self._unanswered: dict[MessageQueue, bool] = {}

    def state(self, queue: MessageQueue) -> OwnershipState:
        """The state of a queue."""
        return self._states.get(queue, ABSENT)

    @property
    def balanced(self) -> bool:
        """Whether exactly the queues of the target are owned."""
        return len(self.owned) == len(self._target) and not self.closing  # an owned queue is in the target

    def settled(self, target: Sequence[MessageQueue]) -> bool:
        """Whether a pass with this target would change nothing, provided that no lease has ended."""
        return self.balanced and not self._unanswered and target == self._target_order

    def on(self, event: OwnershipEvent[HoldingT]) -> Sequence[OwnershipAct[HoldingT]]:
        """Apply an event; returns the acts that the caller has to carry out."""
        match event:
            case events.TargetFound(queues):
                return self._target_found(queues)
            case events.LeasesDue(unconfirmed):
                return self._leases_due(unconfirmed)
            case events.QueueGranted(holding, confirmed):
                return self._granted(holding, confirmed)
            case events.QueueRefused(queue):
                self._unanswered.pop(queue, None)
                if (refused := self.owned.get(queue)) is not None:
                    return [*self._drop(refused, "lose", "lost"), acts.WakePass(recompute=True)]
                self._end_request(queue)
            case events.RequestFailed(queue, definite):
                if not definite:
                    self._unanswered[queue] = True
                elif not self._unanswered.get(queue):
                    self._unanswered.pop(queue, None)
                self._end_request(queue)
            # Events below are compared by identity: one may be about a holding that has been replaced.
            case events.QueueLost(lost_holding) if self.owned.get(lost_holding.queue) is lost_holding:
                return [*self._drop(lost_holding, "lose", "lost"), acts.WakePass(recompute=True)]
            case events.QueuesReset(queues, token):
                # A lease with a higher token was granted after the reset, and began at the new offset.
                old = [older for queue, older in self.owned.items() if queue in queues and older.token <= token]
                drops = [act for older in old for act in self._drop(older, "reset", "reset")]
                return [*drops, acts.WakePass(recompute=False)]
            case events.QueueRestarted(source, replacement) if self.owned.get(source.queue) is source:
                self.owned[source.queue] = replacement
                return [acts.RestartQueue(source, replacement)]
            case events.QueueOutdated(outdated) if self.owned.get(outdated.queue) is outdated:
                return [*self._revoke([outdated], "created again"), acts.DrainQueues((outdated,))]
            case events.QueuesDrained(holdings):
                return self._drained(holdings)
            case events.QueuesReleased(holdings):
                released = self._move_all(holdings, RELEASING, "release")
                if not self.closing and any(grant.queue in self._target for grant in released):
                    return [acts.WakePass(recompute=False)]
            case events.MemberClosed(alone):
                return self._closed(alone)
        return []

    # --- passes ------------------------------------------------------------------------------------------------------

    def _target_found(self, queues: Sequence[MessageQueue]) -> Sequence[OwnershipAct[HoldingT]]:
        if self.closing or (self.balanced and queues == self._target_order):
            return []  # nearly every pass: no object is made for it
        old_target, self._target_order, self._target = self._target, queues, frozenset(queues)
        plan = plan_rebalance(self.owned, self._target)
        revoked = [self.owned[queue] for queue in plan.revoke]
        next_acts: list[OwnershipAct[HoldingT]] = self._revoke(revoked, "revoked")
        for queue in sorted(old_target.symmetric_difference(self._target)):
            if self.state(queue) in (ABSENT, WANTED, REQUESTED):
                self._move(queue, "target")
        idle: dict[str, list[HoldingT]] = {}
        for holding in revoked:
            if holding.busy:  # in a separate task, so that it delays no other queue
                next_acts.append(acts.DrainQueues((holding,)))
            else:
                idle.setdefault(holding.queue.broker_name, []).append(holding)
        next_acts += map(acts.DrainQueues, idle.values())  # one request for all idle queues of a broker
        # When a new member moves a queue from each member to the next, all members do this at the same time. A member
        # that asked at once would be refused, be notified when its neighbour releases, and ask again.
        return [*next_acts, acts.AwaitReleases(plan.revoke)] if plan.revoke and plan.acquire else next_acts

    def _leases_due(self, unconfirmed: Sequence[MessageQueue]) -> Sequence[OwnershipAct[HoldingT]]:
        if self.closing or (self.balanced and not self._unanswered and not unconfirmed):
            return []
        # A queue that is leaving is requested after its release: now the broker would grant it again at once, with the
        # offset before the last commit.
        to_request = sorted(q for q in self._target if q not in self.owned and q not in self.leaving)
        # A queue that is no longer in the target is requested again if an answer is missing: if the lost answer has
        # granted it, it is stranded until its release, and only the next grant has the token for that.
        unsure = [q for q in self._unanswered if q not in self._target and q not in self.leaving]
        for queue in (*to_request, *unsure):
            self._move(queue, "request")
        for queue in (*to_request, *unconfirmed, *unsure):
            self._unanswered[queue] = queue in self._unanswered
        return [acts.RequestLeases(to_request, [*unconfirmed, *unsure])] if to_request or unconfirmed or unsure else []

    def _granted(self, grant: HoldingT, confirmed: int | None) -> Sequence[OwnershipAct[HoldingT]]:
        queue, next_acts = grant.queue, list[OwnershipAct[HoldingT]]()
        self._unanswered.pop(queue, None)
        if self.closing:
            return []  # the shutdown began while the request was outstanding: the lease ends with the membership
        if (owned := self.owned.get(queue)) is not None:
            if (confirmed or 0) <= grant.commit_offset <= owned.commit_offset:
                return [acts.RenewQueue(owned, grant)]  # `confirmed` is None if no commit was answered yet
            # Above our offset: another member owned the queue in between, and has committed messages that we would
            # consume again. Below the confirmed one: the group was reset, because only a reset moves a broker back
            # behind an offset that it has confirmed.
            next_acts += [*self._drop(owned, "lose", "lost"), acts.WakePass(recompute=True)]
        if queue in self.leaving:
            # The queue was lost while it was requested, and a listener still has a message of it. If it were started
            # now, it could dispatch that message a second time, or its neighbours at the same time. So this grant is
            # not used, and the lease is requested again after the drain.
            self._unanswered[queue] = True
        elif queue in self._target:
            self._move(queue, "grant", grant)
            next_acts.append(acts.StartQueue(grant))
        else:
            # An earlier request whose answer was lost was granted; now the queue is in the target of another member.
            self._move(queue, "grant to give back", grant)
            next_acts.append(acts.DrainQueues((grant,)))
        return next_acts

    def _end_request(self, queue: MessageQueue) -> None:
        if self.state(queue) is REQUESTED:
            self._move(queue, "refuse")

    # --- losing queues -----------------------------------------------------------------------------------------------

    def _revoke(self, holdings: Sequence[HoldingT], why: str) -> list[OwnershipAct[HoldingT]]:
        for holding in holdings:
            self._move(holding.queue, "revoke")
        return [acts.StopQueue(holding, why) for holding in holdings]

    def _drop(self, holding: HoldingT, step: Step, why: str) -> list[OwnershipAct[HoldingT]]:
        """Drop a queue whose lease is no longer valid; it may be requested again once it is drained.

        Messages with listeners may be duplicates. RocketMQ: a queue is removed from the table only under the lock of
        its process queue.
        """
        self._move(holding.queue, step)
        if holding.busy:
            return [acts.DropQueue(holding, why), acts.DrainQueues((holding,))]
        self._move(holding.queue, "drain")
        return [acts.DropQueue(holding, why)]

    def _drained(self, holdings: Sequence[HoldingT]) -> Sequence[OwnershipAct[HoldingT]]:
        drained = self._move_all(holdings, DRAINING, "drain")
        lost_holdings = self._move_all(holdings, LOST, "drain")
        return [
            *([acts.ReleaseQueues(drained)] if drained else ()),
            *([acts.WakePass(recompute=False)] if lost_holdings else ()),
        ]

    def _closed(self, alone: bool) -> Sequence[OwnershipAct[HoldingT]]:
        self.closing = True
        if alone:  # a lost queue needs no release, and the last commit of a releasing one was sent
            for queue in [queue for queue in self.leaving if self.state(queue) is not DRAINING]:
                del self.leaving[queue]
        # Not `alone`: the tasks that drain the leaving queues still run, and release them.
        orphans = list(self.leaving.values()) if alone else []
        owned = list(self.owned.values())
        stops = self._revoke(owned, "shutdown")
        self._states = {queue: self._states[queue] for queue in self.leaving}
        return [*stops, acts.FinishQueues(owned + orphans)]

    # --- states ------------------------------------------------------------------------------------------------------

    def _move_all(self, holdings: Iterable[HoldingT], state: OwnershipState, step: Step) -> list[HoldingT]:
        """Move the holdings that are in the state by the step; returns these holdings."""
        # Compared by identity: a task may report holdings that a shutdown has released before it.
        moved_holdings = [
            holding
            for holding in holdings
            if self.leaving.get(holding.queue) is holding and self.state(holding.queue) is state
        ]
        for holding in moved_holdings:
            self._move(holding.queue, step)
        return moved_holdings

    def _move(self, queue: MessageQueue, step: Step, holding: HoldingT | None = None) -> None:
        source_state = self.state(queue)
        target_state = TRANSITIONS[source_state, step]
        if target_state is WITHOUT_HOLDING:
            is_wanted = queue in self._target and not self.closing
            target_state = REQUESTED if queue in self._unanswered else WANTED if is_wanted else ABSENT
        source_table, target_table = self._places.get(source_state), self._places.get(target_state)
        if source_table is not target_table:
            if source_table is not None:
                holding = source_table.pop(queue)
            if target_table is not None and holding is not None:
                target_table[queue] = holding
        if target_state is ABSENT:
            self._states.pop(queue, None)
        else:
            self._states[queue] = target_state
