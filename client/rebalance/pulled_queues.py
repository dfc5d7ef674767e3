"""The queues that one consumer pulls: the common base of the queues with and without leases.

`client/rebalance/ownership_table.py` decides the acts for a queue; here they are carried out. The parts that need or
lack a lease are in `client/rebalance/leased_queues.py` and `client/rebalance/unleased_queues.py`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import anyio

from client.instance.events import QueueEvents
from client.leases.offset_store import OffsetStore
from client.leases.offsets_to_commit import OffsetsToCommit
from client.pull.loop import PullCallbacks, PullLoop
from client.pull.owned_queue import DispatchCounts, OwnedQueue, make_process_queue
from client.rebalance import ownership_acts as acts
from client.rebalance import ownership_events as events
from client.rebalance.ownership import MemberContext
from client.rebalance.ownership_table import OwnershipTable
from client.trigger import Trigger
from model.counted import plural
from model.errors import RlabError
from model.events import EventKind
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class PulledQueues(ABC):
    """The queues of one consumer; `QueueOwnership` documents the attributes."""

    def __init__(self, context: MemberContext, offsets: OffsetsToCommit | OffsetStore) -> None:
        self._offsets = offsets
        self._table: OwnershipTable[OwnedQueue] = OwnershipTable()
        self._left = anyio.Event()  # set when a queue was released, or a lost one is drained
        self.owned = self._table.owned
        self._context = context
        self._instance = context.instance
        self._group = context.group
        self._options = context.options
        self._background = context.background
        self._emit = QueueEvents(context.instance, context.group).emit
        self._callbacks = PullCallbacks(
            subscription_of=context.subscription_of,
            arrived=context.arrived,
            lost=self._lost,
            moved=self._moved,
            recreated=self._restart_recreated,
            damaged=self._damaged,
        )

    # --- acts --------------------------------------------------------------------------------------------------------

    def _apply(self, event: events.OwnershipEvent[OwnedQueue], cause: str = "") -> list[Any]:
        """Pass an event to the table and carry out its acts.

        Returns the acts that have to wait, which the caller carries out: `AwaitReleases` after `TargetFound`,
        `RequestLeases` after `LeasesDue`, `ReleaseQueues` after `QueuesDrained`, `FinishQueues` after `MemberClosed`.
        """
        waiting: list[Any] = []
        for act in self._table.on(event):
            match act:
                case acts.StartQueue(owned):
                    self._start(owned)
                    offset, version = owned.process_queue.pull_offset, owned.token
                    self._emit(EventKind.QUEUE_ACQUIRED, owned.queue, cause=owned.cause, version=version, offset=offset)
                case acts.RestartQueue(owned, replacement):
                    self._report_dispatched(owned)
                    owned.detached = True
                    owned.stop()
                    self._start(replacement)
                case acts.RenewQueue(owned, grant):
                    owned.token, owned.session = grant.token, grant.session
                    owned.sent_commit = 0  # a commit under the old lease may have been refused
                    self._callbacks.arrived(owned)  # while the lease was in doubt, no message was dispatched
                case acts.StopQueue(owned, why):
                    owned.stop()
                    self._report_dropped(owned, why, cause)
                case acts.DropQueue(owned, why):
                    cause = self._report_dropped(owned, why, cause)
                    owned.detached = True
                    owned.stop()
                    self._offsets.forget(owned.queue)
                case acts.DrainQueues(holdings):
                    self._background.start_soon(self._leave, holdings, cause or holdings[0].cause)
                case acts.WakePass(recompute):
                    self._wake(recompute, cause)
                case _:
                    waiting.append(act)
        return waiting

    def _wake(self, recompute: bool, cause: str) -> None:
        self._instance.wake(self._group, Trigger.LOCK, cause)

    def _start(self, owned: OwnedQueue) -> None:
        self._context.started(owned)
        loop = PullLoop(self._instance, self._group, owned, self._options.pull_batch, self._callbacks)
        self._background.start_soon(loop.run)

    async def _leave(self, queues: Sequence[OwnedQueue], cause: str) -> None:
        """Drain queues that are no longer owned, and release the leases among them that are still valid."""
        await self._drain(queues)
        await self._release_drained(queues, cause)

    async def _release_drained(self, queues: Sequence[OwnedQueue], cause: str) -> None:
        for act in self._apply(events.QueuesDrained(queues), cause):
            try:
                await self._release(act.holdings, cause)
            finally:
                # Also after a failure or a cancellation: a queue that stays "releasing" would never be acquired again.
                for owned in act.holdings:
                    self._offsets.forget(owned.queue)
                self._apply(events.QueuesReleased(act.holdings), cause)
        self._left.set()

    @abstractmethod
    async def _release(self, queues: Sequence[OwnedQueue], cause: str) -> None:
        """Commit drained queues, and release them."""

    async def _drain(self, queues: Sequence[OwnedQueue]) -> None:
        """Wait until no message of these queues is with a listener, or the grace period has ended."""
        busy = [owned for owned in queues if owned.busy]
        if busy:  # a task group costs more than the rest of a release, and most queues are idle
            async with anyio.create_task_group() as tasks:
                for owned in busy:
                    tasks.start_soon(owned.wait_drained, self._options.shutdown_grace_s)

    # --- reports of pull loops ---------------------------------------------------------------------------------------

    def _lost(self, owned: OwnedQueue) -> None:
        self._apply(events.QueueLost(owned))

    def _restart_recreated(self, owned: OwnedQueue) -> None:
        self._apply(events.QueueOutdated(owned), owned.cause)

    def restart(self, owned: OwnedQueue, offset: int) -> OwnedQueue:
        """Pull an owned queue from another offset on; its fetched messages are dropped."""
        process_queue = make_process_queue(self._options, offset)
        replacement = OwnedQueue(owned.queue, owned.token, process_queue, owned.cause, owned.session, owned.incarnation)
        self._apply(events.QueueRestarted(owned, replacement))
        return replacement

    def _moved(self, owned: OwnedQueue, next_offset: int) -> None:
        """Go on at another offset: the broker has deleted the messages at ours, or has lost the newest ones."""
        wanted_offset = owned.process_queue.pull_offset
        logger.warning(
            "%s: group %s on %s goes on at %d instead of %d: %s",
            *(self._instance.client_id, self._group, owned.queue, next_offset, wanted_offset),
            f"{plural(next_offset - wanted_offset, 'message', 'was', 'were')} deleted unread"
            if next_offset >= wanted_offset
            else "the queue ends there",
        )
        if next_offset >= wanted_offset:
            self._context.missed.deleted += next_offset - wanted_offset
            owned.process_queue.advance(next_offset)
            return
        # The broker will give the offsets beyond its end to other messages: ours must not be committed.
        self._offsets.reset(owned.queue, next_offset)
        owned.detached, owned.commit_at = True, next_offset
        owned.stop()
        self._background.start_soon(self._restart_drained, owned, next_offset)

    def _damaged(self, owned: OwnedQueue, n: int, next_offset: int) -> None:
        """Count and log messages that are damaged or missing at the broker; the queue goes on at the offset."""
        self._context.missed.damaged += n
        logger.warning(
            "%s: group %s on %s misses %d before offset %d: they are damaged or missing at the broker, whose log names "
            "the file",
            *(self._instance.client_id, self._group, owned.queue, n, next_offset),
        )

    async def _restart_drained(self, owned: OwnedQueue, offset: int) -> None:
        """Restart a queue once it is drained: in order, new messages wait for the listeners of the old ones."""
        await self._drain([owned])
        # It may have been revoked or lost during the wait: the table then ignores the restart.
        self.restart(owned, offset)

    # --- offsets and events ------------------------------------------------------------------------------------------

    @abstractmethod
    async def persist(self) -> dict[MessageQueue, RlabError]:
        """Store the offset of every queue; returns the failures, which the next call tries again."""

    def _set_start_offsets(self) -> None:
        for owned in self.owned.values():
            self._report_dispatched(owned)
            self._set_start_offset(owned)

    def _set_start_offset(self, owned: OwnedQueue) -> None:
        if owned.rewound:
            owned.rewound = False
            self._offsets.reset(owned.queue, owned.commit_offset)
        self._offsets.update(owned.queue, owned.commit_offset)

    def _report_dispatched(self, owned: OwnedQueue) -> None:
        """Emit the number of messages of a queue that were dispatched since the last event, if there are any."""
        counts = owned.dispatch_counts
        if counts.n:
            owned.dispatch_counts = DispatchCounts()
            self._emit(
                EventKind.MESSAGES_HANDED_OUT,
                owned.queue,
                cause=owned.cause,
                version=owned.token,
                offset=owned.process_queue.position,
                n=counts.n,
                detail=f"waited_ms={counts.waited_ms / counts.n:.1f} max_ms={counts.waited_max_ms:.1f}"
                + (" seek" if owned.sought else ""),
            )

    def _report_dropped(self, owned: OwnedQueue, detail: str, cause: str = "") -> str:
        """Emit that a queue is dropped, after its last dispatches; returns the cause."""
        self._report_dispatched(owned)
        return self._emit(EventKind.QUEUE_DROPPED, owned.queue, cause=cause, version=owned.token, detail=detail)
