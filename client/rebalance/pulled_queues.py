"""The queues that one consumer pulls, however it came to have them: under leases, all of them, or the ones it named.

How queues are gained and given up is decided by `client/rebalance/leased_queues.py` and
`client/rebalance/unleased_queues.py`; what they have in common is here: a queue that starts is pulled, one that moves
or is sought begins again as a new `OwnedQueue`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable

import anyio

from client.instance.events import QueueEvents
from client.pull.loop import PullCallbacks, PullLoop
from client.pull.owned_queue import DispatchCounts, OwnedQueue, process_queue_for
from client.rebalance.ownership import MemberContext
from model.errors import RlabError
from model.events import EventKind
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class PulledQueues(ABC):
    """The queues of one consumer; the attributes are those of `QueueOwnership`."""

    def __init__(self, context: MemberContext) -> None:
        self.owned: dict[MessageQueue, OwnedQueue] = {}
        self.topics_of_others: tuple[str, ...] = ()
        self._context = context
        self._instance = context.instance
        self._group = context.group
        self._options = context.options
        self._background = context.background
        self._emit = QueueEvents(context.instance, context.group).emit
        self._callbacks = PullCallbacks(
            subscription_of=context.subscription_of, arrived=context.arrived, lost=self._lost, moved=self._moved
        )

    def _start(self, owned: OwnedQueue) -> None:
        self.owned[owned.queue] = owned
        self._context.started(owned)
        loop = PullLoop(self._instance, self._group, owned, self._options.pull_batch, self._callbacks)
        self._background.start_soon(loop.run)

    def restart(self, owned: OwnedQueue, offset: int) -> OwnedQueue:
        """Pull a queue that is owned from another offset on; what was fetched of it before counts no more."""
        self._report_dispatched(owned)
        owned.detached = True
        owned.stop()
        process_queue = process_queue_for(self._options, offset)
        again = OwnedQueue(owned.queue, owned.token, process_queue, owned.cause, owned.session)
        self._start(again)
        return again

    def _moved(self, owned: OwnedQueue, next_offset: int) -> None:
        """The broker has nothing at our offset: its messages were deleted, or its newest ones were lost."""
        wanted = owned.process_queue.pull_offset
        logger.warning(
            "%s: group %s on %s goes on at %d instead of %d: %s",
            *(self._instance.client_id, self._group, owned.queue, next_offset, wanted),
            f"{next_offset - wanted} messages were deleted unread" if next_offset >= wanted else "the queue ends there",
        )
        if next_offset >= wanted:
            owned.process_queue.advance(next_offset)
            return
        # Offsets beyond the end will be given to other messages: what we have of them must not be committed.
        self._set_back(owned.queue, next_offset)
        owned.detached, owned.commit_at = True, next_offset
        owned.stop()
        self._background.start_soon(self._restart_drained, owned, next_offset)

    async def _restart_drained(self, owned: OwnedQueue, offset: int) -> None:
        """Begin a queue again once no listener has messages of it: in order, what takes their place has to wait."""
        await self._drain([owned])
        if self.owned.get(owned.queue) is owned:
            self.restart(owned, offset)

    @abstractmethod
    def _lost(self, owned: OwnedQueue) -> None:
        """Another member has the queue."""

    @abstractmethod
    def _set_back(self, queue: MessageQueue, offset: int) -> None:
        """Store this offset of a queue, although a later one may be stored."""

    @abstractmethod
    async def persist(self) -> dict[MessageQueue, RlabError]:
        """Store how far every queue has come; returns what could not be stored, and is tried again next time."""

    def _report_dispatched(self, owned: OwnedQueue) -> None:
        """Emit what was handed out of a queue since the last time, if it was anything."""
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
                detail=f"waited_ms={counts.waited_ms / counts.n:.1f} max_ms={counts.waited_max_ms:.1f}",
            )

    def _report_dropped(self, owned: OwnedQueue, detail: str, cause: str = "") -> str:
        """Emit that nothing of a queue is handed out any more, and before that what was; returns the cause."""
        self._report_dispatched(owned)
        return self._emit(EventKind.QUEUE_DROPPED, owned.queue, cause=cause, version=owned.token, detail=detail)

    async def _drain(self, queues: Iterable[OwnedQueue]) -> None:
        """Wait until no message of these queues is with a listener, or the grace is over."""
        busy = [owned for owned in queues if owned.process_queue.dispatched]
        if busy:  # a task group costs more than all the rest of a release, and most queues are idle
            async with anyio.create_task_group() as tasks:
                for owned in busy:
                    tasks.start_soon(owned.wait_drained, self._options.shutdown_grace_s)
