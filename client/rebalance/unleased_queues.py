"""Queues that a consumer reads without leases: all in BROADCASTING, or the assigned ones of a lite pull consumer.

No other member is involved, so a queue only needs its start offset (`client/rebalance/start_offsets.py`):

    wanted -> stored offset, or offset by policy -> OwnedQueue, pull loop starts      QUEUE_ACQUIRED
    not wanted -> stop pulling -> drain (up to a grace) -> store the offset           QUEUE_DROPPED
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

import anyio

from client.instance.schedule import RebalancePass
from client.leases.offset_store import NO_LEASE, OffsetStore
from client.pull.owned_queue import OwnedQueue, make_process_queue
from client.rebalance import ownership_events as events
from client.rebalance.ownership import MemberContext
from client.rebalance.pulled_queues import PulledQueues
from client.rebalance.start_offsets import StartOffsets
from model.errors import RlabError
from model.events import EventKind
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class UnleasedQueues(PulledQueues):
    """The queues of one consumer, without leases; `wanted` maps topics to the queues to own now, sorted."""

    _offsets: OffsetStore
    topics_of_others: tuple[str, ...] = ()

    def __init__(
        self, context: MemberContext, store: OffsetStore, wanted_queues: Callable[[tuple[str, ...]], list[MessageQueue]]
    ) -> None:
        super().__init__(context, store)
        self._wanted = wanted_queues
        self._starts = StartOffsets(context, store)

    # --- the target --------------------------------------------------------------------------------------------------

    def begin(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Record that topics are wanted from now on; returns the topics that were not wanted before."""
        now_ms, loop_ms = int(self._instance.config.clock_ms()), anyio.current_time() * 1000
        return tuple(topic for topic in topics if self._offsets.begin(topic, now_ms, loop_ms))

    async def store_start_offsets(self, new: tuple[str, ...]) -> None:
        """Find and store the start offsets of the queues of these topics, which `begin` returned.

        If a broker does not answer now, a later pass finds its offsets by time. RlabError: the offsets could not be
        stored.

        Cancellation: some queues may have their start offset, and keep it.
        """
        if new:
            await self._starts.find(self._wanted(new), now=True)
            await self._offsets.persist()

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """See `QueueOwnership`: begin wanted queues, revoke the others. Cancellation: the next pass goes on."""
        trigger = "+".join(due.triggers)
        cause = self._emit(EventKind.REBALANCE_BEGIN, cause=due.cause, detail=trigger)
        n_before = len(self.owned)
        self._apply(events.TargetFound(self._wanted(topics)), cause)
        n_moved = n_before - len(self.owned)
        for ask in self._apply(events.LeasesDue(())):
            starts = await self._starts.find(ask.wanted)
            n_moved += len(starts)
            # A topic may have been unsubscribed, or another set of queues assigned, while the offsets were requested.
            still = set(self._wanted(topics)) if starts else set()
            for queue in ask.wanted:
                if queue in starts and queue in still:
                    process_queue, incarnation = (
                        make_process_queue(self._options, starts[queue]),
                        self._starts.incarnation_of(queue),
                    )
                    new_queue = OwnedQueue(queue, NO_LEASE, process_queue, cause, incarnation=incarnation)
                    self._apply(events.QueueGranted(new_queue, None))
                else:
                    self._apply(events.RequestFailed(queue, definite=True))
        balanced = self._table.balanced
        detail = f"{trigger} {'balanced' if balanced else 'unbalanced'}"
        self._emit(EventKind.REBALANCE_END, cause=cause, n=n_moved, detail=detail)
        return balanced

    # --- revoking ----------------------------------------------------------------------------------------------------

    async def _release(self, queues: Sequence[OwnedQueue], cause: str) -> None:
        for owned in queues:
            owned.detached = True
            self._set_start_offset(owned)
        await self.persist()

    def end(self, topic: str) -> None:
        """Forget the offsets of a topic after an unsubscribe."""
        self._offsets.end(topic)

    def _set_start_offset(self, owned: OwnedQueue) -> None:
        wanted_topic = self._offsets.wanted_topic(owned.queue.topic)
        if wanted_topic is None or not wanted_topic.is_other(owned.queue.broker_name, owned.incarnation):
            super()._set_start_offset(owned)

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Do nothing: operators cannot reset offsets that a client stores, and brokers notify only members."""

    async def close(self, cause: str) -> None:
        """Release everything: stop pulling, drain, store the offsets.

        Cancellation: messages whose offset is not stored yet are consumed again.
        """
        self._apply(events.MemberClosed(alone=not self._background.running), cause)
        await self._leave(list(self._table.leaving.values()), cause)
        await self.persist()

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """See `PulledQueues`. Cancellation: some offsets may have been stored."""
        self._set_start_offsets()
        try:
            failures = await self._offsets.persist()
        except RlabError as error:
            logger.warning("%s: group %s: %s", self._instance.client_id, self._group, error)
            return dict.fromkeys(self.owned, error)
        for queue, failure in failures.items():
            logger.warning("%s: offset of %s: %s", self._instance.client_id, queue, failure)
        return failures

    async def stored(self, queue: MessageQueue) -> int | None:
        """The offset of a queue, or None if there is none. Cancellation: harmless."""
        return (await self._offsets.read([queue])).get(queue)
