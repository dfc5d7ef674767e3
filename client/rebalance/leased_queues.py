"""LeasedQueues: acquires and releases the queues of one member under leases.

`client/rebalance/ownership_table.py` decides the acts; this module carries them out.

RocketMQ: RebalanceImpl.updateProcessQueueTableInRebalance, RebalancePushImpl. A queue passes through

    acquire: lease granted -> OwnedQueue, pull loop starts                                 QUEUE_ACQUIRED
    revoke:  stop pulling -> drain (up to a grace) -> commit and release the lease         QUEUE_DROPPED
    lost:    a pull or commit is refused, because another member owns it: stop, no commit  QUEUE_DROPPED
    reset:   the group's offset was set: stop, drain, acquire it again                     QUEUE_DROPPED

A revoked queue does not delay the others: it is drained and released in the background. The broker then notifies the
member that waits for it, which starts a pass there (trigger LOCK). A queue that returns to the target before its
release is acquired again after the release.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import anyio

from client.allocate import AllocateMessageQueueStrategy
from client.instance.schedule import RebalancePass
from client.leases.offsets_to_commit import OffsetsToCommit
from client.leases.requests import Grant, LeaseRequests
from client.pull.owned_queue import OwnedQueue, make_process_queue
from client.rebalance import ownership_acts as acts
from client.rebalance import ownership_events as events
from client.rebalance.lease_commits import LeaseCommits
from client.rebalance.ownership import MemberContext
from client.rebalance.pulled_queues import PulledQueues
from client.rebalance.target import TargetFinder
from client.trigger import Trigger
from model.errors import RlabError
from model.events import EventKind
from model.message_queue import MessageQueue
from remoting.tasks import run_together

_SHUTDOWN_IDLE_WAIT_S = 0.05
"""Wait for listeners before a shutdown is announced. If they finish within it, the group rebalances only once."""

_RELEASE_FIRST_WAIT_S = 0.25
"""Longest wait for the release of revoked queues before others are acquired: a broker may hang."""


class LeasedQueues(PulledQueues):
    """The queues that one member owns under leases."""

    _offsets: OffsetsToCommit

    def __init__(self, context: MemberContext, strategy: AllocateMessageQueueStrategy) -> None:
        super().__init__(context, OffsetsToCommit())
        self._targets = TargetFinder(context, strategy, self.owned)
        self._leases = LeaseRequests(context.instance, context.group)
        self._commits = LeaseCommits(context.instance, self._leases, self._offsets, self._table, self._lost)
        self._background.start_soon(self._commits.run)

    @property
    def topics_of_others(self) -> tuple[str, ...]:
        """See `QueueOwnership`."""
        return self._targets.topics_of_others

    # --- rebalance ---------------------------------------------------------------------------------------------------

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """See `QueueOwnership`: find the target, then revoke and acquire.

        StrategyError: the strategy failed for some topics; their queues have not changed. RlabError: the member list
        could not be fetched; nothing has changed.

        Cancellation: the next pass asks again for a lease whose grant did not arrive.
        """
        if due.triggers == (Trigger.NOTIFY,) and self._is_known(topics):
            return True
        trigger = "+".join(due.triggers)
        cause = self._emit(EventKind.REBALANCE_BEGIN, cause=due.cause, detail=trigger)
        n_moved, balanced = 0, False
        self._targets.begin()
        try:
            target = await self._target(due, topics, cause)
            # The shutdown may have begun during the wait; it releases all queues, and none may be acquired after that.
            if target is not None and not self._table.closing:
                n_moved, balanced = await self._move_towards(target, cause)
            for error in self._targets.undecided.values():
                balanced = False
                raise error
        finally:
            detail = f"{trigger} {'balanced' if balanced else 'unbalanced'}"
            self._emit(EventKind.REBALANCE_END, cause=cause, version=self._targets.version, n=n_moved, detail=detail)
        return balanced

    def _is_known(self, topics: tuple[str, ...]) -> bool:
        """Whether a notification changes nothing: a pass would repeat the plan of the last one, which is complete."""
        target = self._targets.notified(topics)
        return target is not None and self._table.settled(target) and not self._unconfirmed()

    async def _target(self, due: RebalancePass, topics: tuple[str, ...], cause: str) -> Sequence[MessageQueue] | None:
        """The target of this member; None if it cannot be computed yet."""
        return await self._targets.find(due, topics, cause)

    async def _move_towards(self, target: Sequence[MessageQueue], cause: str) -> tuple[int, bool]:
        """Revoke and acquire towards the target; returns (queues moved, balanced)."""
        n_before, confirmed = len(self.owned), True
        waits = self._apply(events.TargetFound(target), cause)
        n_moved = n_before - len(self.owned)
        for wait in waits:
            await self._await_idle_released(wait.queues)
        for ask in self._apply(events.LeasesDue(self._unconfirmed())):
            confirmed = await self._ask(ask, cause)
            n_moved += sum(queue in self.owned for queue in ask.wanted)
        return n_moved, confirmed and self._table.balanced

    async def _ask(self, ask: acts.RequestLeases, cause: str) -> bool:
        """Request leases; returns whether every broker that was asked about an owned queue has answered."""
        # The confirmed offsets are read before the request. A grant waits here for the answers of other brokers, and a
        # later commit may be confirmed in that time: compared with it, a valid grant would look like a reset.
        confirmed = {queue: self._offsets.confirmed(queue) for queue in ask.again}
        outcome = await self._leases.acquire([*ask.wanted, *ask.again], cause)
        for queue, grant in outcome.granted.items():
            self._apply(events.QueueGranted(self._holding(queue, grant, cause), confirmed.get(queue)))
        for queue in outcome.refused:
            self._apply(events.QueueRefused(queue))
        for queue, error in outcome.failed.items():
            self._apply(events.RequestFailed(queue, error.definite))
        return not any(queue in self.owned for queue in outcome.failed)

    def _unconfirmed(self) -> list[MessageQueue]:
        return self._leases.unconfirmed(self.owned.values())

    def _holding(self, queue: MessageQueue, grant: Grant, cause: str) -> OwnedQueue:
        process_queue = make_process_queue(self._options, grant.start_offset)
        return OwnedQueue(queue, grant.token, process_queue, cause, grant.session)

    def _start(self, owned: OwnedQueue) -> None:
        owned.on_unsent = self._commits.note
        super()._start(owned)

    def _wake(self, recompute: bool, cause: str) -> None:
        if recompute:
            self._targets.forget()
        super()._wake(recompute, cause)

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Drop the messages of queues whose offset was reset, and acquire the queues again, from the new offset on.

        The broker has revoked the leases up to the token; a lease with a higher token begins at the new offset.
        """
        self._apply(events.QueuesReset(queues, token), cause)

    # --- releasing ---------------------------------------------------------------------------------------------------

    async def _await_idle_released(self, revoked: Collection[MessageQueue]) -> None:
        """Wait a short time for the release of the idle queues among these."""
        leaving = self._table.leaving
        with anyio.move_on_after(_RELEASE_FIRST_WAIT_S):
            while any(not owned.busy for queue in revoked if (owned := leaving.get(queue)) is not None):
                await self._wait_left()

    async def _wait_left(self) -> None:
        # anyio events cannot be cleared. No release is missed: callers check the queues and come here without an await
        # in between, and all waiters of an event that is set are awake.
        if self._left.is_set():
            self._left = anyio.Event()
        await self._left.wait()

    async def _release(self, queues: Sequence[OwnedQueue], cause: str) -> None:
        await self._commits.release(queues, cause)

    async def close(self, cause: str) -> None:
        """Release everything: stop pulling, drain, commit and release the leases.

        If listeners are busy, a heartbeat without subscriptions lets the other members acquire the idle queues first.

        Cancellation: leases that are not released yet end with the membership.
        """
        for last in self._apply(events.MemberClosed(alone=not self._background.running), cause):
            with anyio.move_on_after(_SHUTDOWN_IDLE_WAIT_S):
                await self._drain(last.holdings)
            busy = [owned for owned in last.holdings if owned.busy]
            await self._release_before_close([owned for owned in last.holdings if not owned.busy], cause)
            if busy:
                heartbeat = partial(self._instance.heartbeats.send, cause)
                await run_together(
                    [heartbeat, *(partial(self._release_before_close, [queue], cause) for queue in busy)]
                )
        with anyio.move_on_after(self._options.shutdown_grace_s + self._instance.config.request_timeout_s):
            while self._table.leaving:  # queues that were revoked before, and that their own tasks release
                await self._wait_left()

    async def _release_before_close(self, queues: list[OwnedQueue], cause: str) -> None:
        await self._drain(queues)
        with anyio.move_on_after(self._instance.config.request_timeout_s):
            await self._release_drained(queues, cause)

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """See `PulledQueues`."""
        self._set_start_offsets()
        return await self._commits.persist()
