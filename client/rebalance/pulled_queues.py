"""The queues that one consumer pulls: the common half of owning queues with and without leases.

`client/rebalance/leased_queues.py` and `client/rebalance/unleased_queues.py` acquire and revoke queues; here a queue
that starts is pulled, and one whose offset moves or is sought begins again as a new `OwnedQueue`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable

import anyio

from client.instance.events import QueueEvents
from client.leases.offset_store import OffsetStore
from client.leases.offsets_to_commit import OffsetsToCommit
from client.pull.loop import PullCallbacks, PullLoop
from client.pull.owned_queue import DispatchCounts, OwnedQueue, process_queue_for
from client.rebalance.ownership import MemberContext
from model.errors import RlabError
from model.events import EventKind
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class PulledQueues(ABC):
    """The queues of one consumer; the attributes are those of `QueueOwnership`."""

    def __init__(self, context: MemberContext, offsets: OffsetsToCommit | OffsetStore) -> None:
        self._offsets = offsets
        self._releasing: dict[MessageQueue, OwnedQueue] = {}
        self._closing = False
        self.owned: dict[MessageQueue, OwnedQueue] = {}
        self.topics_of_others: tuple[str, ...] = ()
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
            created_again=self._created_again,
            damaged=self._damaged,
        )

    def _acquired(self, owned: OwnedQueue) -> None:
        self._start(owned)
        offset = owned.process_queue.pull_offset
        self._emit(EventKind.QUEUE_ACQUIRED, owned.queue, cause=owned.cause, version=owned.token, offset=offset)

    def _start(self, owned: OwnedQueue) -> None:
        self.owned[owned.queue] = owned
        self._context.started(owned)
        loop = PullLoop(self._instance, self._group, owned, self._options.pull_batch, self._callbacks)
        self._background.start_soon(loop.run)

    def restart(self, owned: OwnedQueue, offset: int) -> OwnedQueue:
        """Pull an owned queue from another offset on; messages that were fetched of it before are dropped."""
        self._report_dispatched(owned)
        owned.detached = True
        owned.stop()
        process_queue = process_queue_for(self._options, offset)
        again = OwnedQueue(owned.queue, owned.token, process_queue, owned.cause, owned.session, owned.number)
        self._start(again)
        return again

    def _moved(self, owned: OwnedQueue, next_offset: int) -> None:
        """Go on at another offset: the messages at ours were deleted, or the newest ones were lost."""
        wanted = owned.process_queue.pull_offset
        logger.warning(
            "%s: group %s on %s goes on at %d instead of %d: %s",
            *(self._instance.client_id, self._group, owned.queue, next_offset, wanted),
            f"{next_offset - wanted} messages were deleted unread" if next_offset >= wanted else "the queue ends there",
        )
        if next_offset >= wanted:
            self._context.missed.deleted += next_offset - wanted
            owned.process_queue.advance(next_offset)
            return
        # Offsets beyond the end will be those of other messages: those that we have must not be committed.
        self._offsets.reset(owned.queue, next_offset)
        owned.detached, owned.commit_at = True, next_offset
        owned.stop()
        self._background.start_soon(self._restart_drained, owned, next_offset)

    def _damaged(self, owned: OwnedQueue, n: int, next_offset: int) -> None:
        """Note messages that are damaged or missing at the broker, before an offset at which the queue goes on."""
        self._context.missed.damaged += n
        logger.warning(
            "%s: group %s on %s misses %d before offset %d: they are damaged or missing at the broker, whose log names "
            "the file",
            *(self._instance.client_id, self._group, owned.queue, n, next_offset),
        )

    async def _restart_drained(self, owned: OwnedQueue, offset: int) -> None:
        """Begin a queue again once it is drained: in order, the messages in place of the old ones have to wait."""
        await self._drain([owned])
        if self.owned.get(owned.queue) is owned:
            self.restart(owned, offset)

    @abstractmethod
    def _lost(self, owned: OwnedQueue) -> None:
        """Another member owns the queue."""

    def _created_again(self, owned: OwnedQueue) -> None:
        """Drop a queue whose topic is another one than that which its offsets count in."""
        raise AssertionError(f"{owned.queue} is leased: its lease ends with its topic, and its pulls send no number")

    @abstractmethod
    async def persist(self) -> dict[MessageQueue, RlabError]:
        """Store the offset of every queue; returns the failures, which are tried again next time."""

    def _report_dispatched(self, owned: OwnedQueue) -> None:
        """Emit the count of messages of a queue that were dispatched since the last event, if there are any."""
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

    def _begin_release(self, queues: Iterable[OwnedQueue], cause: str, why: str = "revoked") -> None:
        for owned in queues:
            del self.owned[owned.queue]
            self._releasing[owned.queue] = owned
            owned.stop()
            self._report_dropped(owned, why, cause)

    def _orphaned(self) -> list[OwnedQueue]:
        """Take over the releases whose tasks have ended with a background that has failed, at the end of it all."""
        if self._background.running:
            return []
        orphaned = [owned for owned in self._releasing.values() if not owned.detached]
        self._releasing.clear()
        return orphaned

    def _take_offsets(self) -> None:
        for owned in self.owned.values():
            self._report_dispatched(owned)
            self._take_offset(owned)

    def _take_offset(self, owned: OwnedQueue) -> None:
        if owned.rewound:
            owned.rewound = False
            self._offsets.reset(owned.queue, owned.commit_offset)
        self._offsets.update(owned.queue, owned.commit_offset)

    def _report_dropped(self, owned: OwnedQueue, detail: str, cause: str = "") -> str:
        """Emit that a queue is dropped, after its last dispatches; returns the cause."""
        self._report_dispatched(owned)
        return self._emit(EventKind.QUEUE_DROPPED, owned.queue, cause=cause, version=owned.token, detail=detail)

    async def _drain(self, queues: Iterable[OwnedQueue]) -> None:
        """Wait until no message of these queues is with a listener, or the grace period has ended."""
        busy = [owned for owned in queues if owned.process_queue.dispatched]
        if busy:  # a task group costs more than all the rest of a release, and most queues are idle
            async with anyio.create_task_group() as tasks:
                for owned in busy:
                    tasks.start_soon(owned.wait_drained, self._options.shutdown_grace_s)
