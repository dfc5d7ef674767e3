"""Start offsets of queues that are read without leases: stored, or by the policy, and checked against the topic.

The policy LAST_OFFSET means the time of the first subscription to the topic: `subscribe` requests the offset and stores
it. A queue that is created later, or whose broker was away, is read from that time on, by the clock of its broker.
RocketMQ decides when it first sees the queue, and loses the messages sent before that
(RebalancePushImpl.computePullFromWhere).

A topic may be deleted and created again under its name, and a broker may come back with a new disk. Old offsets would
then skip the first messages, so offsets are stored with the incarnation of the topic (`model/topic_incarnation.py`).
The consumer compares it before it acquires queues, and the broker at each pull and commit. RocketMQ uses the old
offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from client.leases.offset_store import OffsetStore
from client.leases.queue_offsets import QueueOffsets, TopicAnswer
from client.rebalance.ownership import MemberContext
from model.errors import RlabError
from model.heartbeat import ConsumeFrom
from model.message_queue import MessageQueue
from model.topic_incarnation import TopicIncarnation
from remoting.tasks import run_together

logger = logging.getLogger(__name__)

_Place = tuple[str, str]
"""A topic and the name of a broker, which has one incarnation for the topic."""


def _place(queue: MessageQueue) -> _Place:
    return queue.topic, queue.broker_name


class StartOffsets:
    """The start offsets of one consumer."""

    def __init__(self, context: MemberContext, offsets: OffsetStore) -> None:
        self._offsets, self._options = offsets, context.options
        self._client_id, self._group = context.instance.client_id, context.group
        self._ask = QueueOffsets(context.instance)
        self._clocks: dict[str, float] = {}  # by broker name; see `WantedTopic.since`

    async def find(self, queues: Collection[MessageQueue], *, now: bool = False) -> dict[MessageQueue, int]:
        """Start offsets of queues; offsets that cannot be found now are missing. `now`: LAST_OFFSET is this moment.

        Cancellation: some queues may have their start offset, and keep it.
        """
        starts: dict[MessageQueue, int] = {}

        async def find_new(queue: MessageQueue) -> None:
            try:
                starts[queue] = await self._policy_offset(queue, now=now)
            except RlabError as error:
                logger.warning("%s: no start offset for %s: %s", self._client_id, queue, error)
                return
            self._offsets.update(queue, starts[queue])

        failed = await self._check_topics(queues)
        committed = await self._offsets.read(
            [queue for queue in queues if _place(queue) not in failed or self.incarnation_of(queue)]
        )
        starts |= {queue: offset for queue, offset in committed.items() if offset is not None}
        new = [queue for queue, offset in committed.items() if offset is None and _place(queue) not in failed]
        await run_together([partial(find_new, queue) for queue in new])
        return starts

    async def _check_topics(self, queues: Collection[MessageQueue]) -> set[_Place]:
        """Drop the offsets of queues whose topic was created again; returns the places that did not answer.

        Without an answer a queue may begin at an offset whose topic incarnation is known: the broker compares that
        incarnation at each pull.
        """
        looks: dict[_Place, TopicAnswer] = {}
        one_of = {_place(queue): queue for queue in queues}

        async def look(topic_at: _Place, queue: MessageQueue) -> None:
            try:
                looks[topic_at] = await self._ask.query_topic(queue)
            except RlabError as error:
                logger.warning("%s: no answer about topic %s on broker %s: %s", self._client_id, *topic_at, error)

        await run_together([partial(look, topic_at, queue) for topic_at, queue in one_of.items()])
        for (_, broker), answer in looks.items():
            if answer.clock_ms is not None:
                self._clocks[broker] = answer.clock_ms
        for topic_at, answer in sorted(looks.items()):
            self._record_incarnation(
                topic_at, answer.incarnation, [queue for queue in queues if _place(queue) == topic_at]
            )
        return one_of.keys() - looks.keys()

    def _record_incarnation(
        self, topic_at: _Place, incarnation: TopicIncarnation | None, queues: list[MessageQueue]
    ) -> None:
        old, has_offsets = self.incarnation_of(queues[0]), any(self._offsets.offset_of(queue) for queue in queues)
        owner_text = f"{self._client_id}: group {self._group}: topic {topic_at[0]} on broker {topic_at[1]}"
        if self._offsets.record(*topic_at, incarnation, self._clocks):
            logger.warning(
                "%s is not the topic that was read before: it was deleted and created again, or the broker has a new "
                "disk (incarnation %s, now %s). The offsets so far mean nothing in it and are dropped",
                *(owner_text, old, incarnation),
            )
        elif old is None and incarnation is not None and has_offsets:
            logger.info(
                "%s: offsets that were stored without its incarnation count as those of incarnation %s",
                owner_text,
                incarnation,
            )

    def incarnation_of(self, queue: MessageQueue) -> TopicIncarnation | None:
        """The incarnation of the topic to which the stored offset of a queue belongs; None if unknown."""
        wanted_topic = self._offsets.wanted_topic(queue.topic)
        return None if wanted_topic is None else wanted_topic.incarnations.get(queue.broker_name)

    async def _policy_offset(self, queue: MessageQueue, *, now: bool) -> int:
        options = self._options
        if options.consume_from is ConsumeFrom.FIRST_OFFSET:
            return await self._ask.first(queue)
        if options.consume_from is ConsumeFrom.TIMESTAMP:
            return await self._ask.at(queue, options.consume_timestamp_ms)
        if now:
            return await self._ask.end(queue)
        wanted_topic = self._offsets.wanted_topic(queue.topic)
        # None if the topic was unsubscribed during the requests: the offset is not used then.
        return await self._ask.at(
            queue, 0 if wanted_topic is None else wanted_topic.since(queue.broker_name, self._clocks)
        )
