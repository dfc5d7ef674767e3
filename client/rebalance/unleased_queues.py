"""Queues that a consumer reads without leases: all in BROADCASTING, or those that a lite pull consumer assigned.

No other member is involved, so a queue only needs the offset to begin with:

    wanted -> stored offset, or that of the policy -> OwnedQueue, pull loop starts    QUEUE_ACQUIRED
    not wanted -> stop pulling -> drain (up to a grace) -> store the offset           QUEUE_DROPPED

The policy LAST_OFFSET means the time of the first subscription to the topic: the offset is asked for in `subscribe`,
and stored. A queue that is new later, or whose broker was away, is read from that time on, by the clock of its broker.
RocketMQ decides when it first sees the queue, and loses what was sent before (RebalancePushImpl.computePullFromWhere).

A topic may be deleted and created again under its name, and a broker may come back with a new disk. Offsets from before
would skip the first messages then, so they are stored with the number of the topic (`model/topic_number.py`). It is
compared before queues are acquired, and by the broker at each pull and commit. RocketMQ uses the old offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial

import anyio

from client.instance.schedule import RebalancePass
from client.leases.offset_store import NO_LEASE, OffsetStore
from client.leases.queue_offsets import QueueOffsets, TopicLook
from client.pull.owned_queue import OwnedQueue, process_queue_for
from client.rebalance.ownership import MemberContext
from client.rebalance.plan import plan_rebalance
from client.rebalance.pulled_queues import PulledQueues
from client.trigger import Trigger
from model.errors import RlabError
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.message_queue import MessageQueue
from model.topic_number import TopicNumber
from remoting.tasks import run_together

logger = logging.getLogger(__name__)

_Place = tuple[str, str]
"""A topic and the name of a broker, which has one number for the topic."""


def _place(queue: MessageQueue) -> _Place:
    return queue.topic, queue.broker_name


class UnleasedQueues(PulledQueues):
    """The queues of one consumer, without leases; `wanted` maps topics to the queues to own now, sorted."""

    _offsets: OffsetStore

    def __init__(
        self, context: MemberContext, store: OffsetStore, wanted: Callable[[tuple[str, ...]], list[MessageQueue]]
    ) -> None:
        super().__init__(context, store)
        self._wanted = wanted
        self._ask = QueueOffsets(context.instance)
        self._clocks: dict[str, float] = {}  # by broker name; see `WantedTopic.since`

    # --- the target --------------------------------------------------------------------------------------------------

    def begin(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Record that topics are wanted from now on; returns those that were not wanted before."""
        now_ms, loop_ms = int(self._instance.config.clock_ms()), anyio.current_time() * 1000
        return tuple(topic for topic in topics if self._offsets.begin(topic, now_ms, loop_ms))

    async def store_start_offsets(self, new: tuple[str, ...]) -> None:
        """Find and store the start offsets of the queues of these topics, which `begin` returned.

        An offset whose broker does not answer now is found by time later. RlabError: the offsets could not be stored.

        Cancellation: some queues may have their start offset, and keep it.
        """
        if new:
            await self._starts_of(self._wanted(new), now=True)
            await self._offsets.persist()

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """See `QueueOwnership`: begin wanted queues, revoke the others. Cancellation: the next pass goes on."""
        trigger = "+".join(due.triggers)
        cause = self._emit(EventKind.REBALANCE_BEGIN, cause=due.cause, detail=trigger)
        target = self._wanted(topics)
        plan = plan_rebalance(self.owned, target)
        self._revoke([self.owned[queue] for queue in plan.revoke], cause)
        starts = await self._starts_of([queue for queue in plan.acquire if queue not in self._releasing])
        still = set(self._wanted(topics)) if starts else set()
        for queue, offset in starts.items():
            if queue in still and queue not in self.owned and not self._closing:
                number = self._number_of(queue)
                process_queue = process_queue_for(self._options, offset)
                self._acquired(OwnedQueue(queue, NO_LEASE, process_queue, cause, number=number))
        balanced = self.owned.keys() == set(target)
        detail = f"{trigger} {'balanced' if balanced else 'unbalanced'}"
        self._emit(EventKind.REBALANCE_END, cause=cause, n=len(starts) + len(plan.revoke), detail=detail)
        return balanced

    async def _starts_of(self, queues: Collection[MessageQueue], *, now: bool = False) -> dict[MessageQueue, int]:
        """Start offsets of queues; those that are not known now are missing. `now`: LAST_OFFSET is this moment."""
        starts: dict[MessageQueue, int] = {}

        async def find(queue: MessageQueue) -> None:
            try:
                starts[queue] = await self._policy_offset(queue, now=now)
            except RlabError as error:
                logger.warning("%s: no start offset for %s: %s", self._instance.client_id, queue, error)
                return
            self._offsets.update(queue, starts[queue])

        failed = await self._look_at_topics(queues)
        known = await self._offsets.read(
            [queue for queue in queues if _place(queue) not in failed or self._number_of(queue)]
        )
        starts |= {queue: offset for queue, offset in known.items() if offset is not None}
        new = [queue for queue, offset in known.items() if offset is None and _place(queue) not in failed]
        await run_together([partial(find, queue) for queue in new])
        return starts

    async def _look_at_topics(self, queues: Collection[MessageQueue]) -> set[_Place]:
        """Drop the offsets of queues whose topic was created again since; returns the places that did not answer.

        Without an answer a queue may begin at an offset whose number is known: its pulls are compared by the broker.
        """
        looks: dict[_Place, TopicLook] = {}
        one_of = {_place(queue): queue for queue in queues}

        async def look(place: _Place, queue: MessageQueue) -> None:
            try:
                looks[place] = await self._ask.look(queue)
            except RlabError as error:
                logger.warning("%s: no answer about topic %s on broker %s: %s", self._instance.client_id, *place, error)

        await run_together([partial(look, place, queue) for place, queue in one_of.items()])
        for (_, broker), answer in looks.items():
            if answer.clock_ms is not None:
                self._clocks[broker] = answer.clock_ms
        for place, answer in sorted(looks.items()):
            self._take_number(place, answer.number, [queue for queue in queues if _place(queue) == place])
        return one_of.keys() - looks.keys()

    def _take_number(self, place: _Place, number: TopicNumber | None, queues: list[MessageQueue]) -> None:
        before, has_offsets = self._number_of(queues[0]), any(self._offsets.offset_of(queue) for queue in queues)
        who = f"{self._instance.client_id}: group {self._group}: topic {place[0]} on broker {place[1]}"
        if self._offsets.note(*place, number, self._clocks):
            logger.warning(
                "%s is not the topic that was read before: it was deleted and created again, or the broker has a new "
                "disk (number %s, now %s). The offsets so far mean nothing in it and are dropped",
                *(who, before, number),
            )
        elif before is None and number is not None and has_offsets:
            logger.info("%s: offsets that were stored without its number count as those of number %s", who, number)

    def _number_of(self, queue: MessageQueue) -> TopicNumber | None:
        wanted = self._offsets.wanted(queue.topic)
        return None if wanted is None else wanted.numbers.get(queue.broker_name)

    async def _policy_offset(self, queue: MessageQueue, *, now: bool) -> int:
        options = self._options
        if options.consume_from is ConsumeFrom.FIRST_OFFSET:
            return await self._ask.first(queue)
        if options.consume_from is ConsumeFrom.TIMESTAMP:
            return await self._ask.at(queue, options.consume_timestamp_ms)
        if now:
            return await self._ask.end(queue)
        wanted = self._offsets.wanted(queue.topic)
        # Without one it was unsubscribed meanwhile, and the offset is not used.
        return await self._ask.at(queue, 0 if wanted is None else wanted.since(queue.broker_name, self._clocks))

    # --- revoking ----------------------------------------------------------------------------------------------------

    def _revoke(self, queues: list[OwnedQueue], cause: str) -> None:
        self._begin_release(queues, cause)
        for owned in queues:
            self._background.start_soon(self._drain_and_store, owned, cause)

    async def _drain_and_store(self, owned: OwnedQueue, cause: str) -> None:
        await self._drain([owned])
        owned.detached = True
        self._take_offset(owned)
        await self.persist()
        self._offsets.forget(owned.queue)
        del self._releasing[owned.queue]
        self._instance.wake(self._group, Trigger.LOCK, cause)  # it may be wanted again

    def end(self, topic: str) -> None:
        """Forget the offsets of a topic after an unsubscribe."""
        self._offsets.end(topic)

    def _created_again(self, owned: OwnedQueue) -> None:
        if self.owned.get(owned.queue) is owned:
            self._begin_release([owned], owned.cause, "created again")
            self._background.start_soon(self._drain_and_store, owned, owned.cause)

    def _take_offset(self, owned: OwnedQueue) -> None:
        wanted = self._offsets.wanted(owned.queue.topic)
        if wanted is None or not wanted.is_other(owned.queue.broker_name, owned.number):
            super()._take_offset(owned)

    def _lost(self, owned: OwnedQueue) -> None:
        raise AssertionError(f"{owned.queue} is pulled without a lease that could be lost")

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Nothing: operators do not set offsets that are kept here, and brokers notify members only."""

    async def close(self, cause: str) -> None:
        """Release everything: stop pulling, drain, store the offsets.

        Cancellation: messages whose offset is not stored yet are consumed again.
        """
        self._closing = True
        leaving = [*self.owned.values(), *self._releasing.values()]
        for owned in self.owned.values():
            owned.stop()
            self._report_dropped(owned, "shutdown", cause)
        await self._drain(leaving)
        for owned in leaving:
            owned.detached = True
            self._take_offset(owned)
        self.owned.clear()
        await self.persist()

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """See `PulledQueues`. Cancellation: some of it may have been stored."""
        self._take_offsets()
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
