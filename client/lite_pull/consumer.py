"""LitePullConsumer: a consumer whose user polls for messages, and may choose the queues that it reads.

RocketMQ: DefaultLitePullConsumer, DefaultLitePullConsumerImpl. It either subscribes and is a member of the group that
owns some of the queues, or it assigns queues to itself and is not a member; `client/lite_pull/polled_messages.py`
defines which messages are processed. Differences from RocketMQ: offsets are committed after processing instead of when
a poll returns; it heartbeats and rebalances at its start; a paused queue delivers nothing until it is resumed, also
after a rebalance.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio

from client.allocate import AllocateMessageQueueStrategy
from client.instance.member import ServiceState
from client.leases.offset_store import CommittedOffsetStore, OffsetStore
from client.leases.queue_offsets import QueueOffsets
from client.listeners.listener import MessageQueueListener, TopicQueuesListener
from client.listeners.topic_queues_watch import TopicQueuesWatch
from client.lite_pull.polled_messages import PolledMessages
from client.lite_pull.ready_queues import ReadyQueues
from client.options import LitePullOptions, split_options
from client.pull.owned_queue import OwnedQueue
from client.rebalance.member import GroupConsumer
from client.rebalance.ownership import MemberContext, QueueOwnership
from client.rebalance.pulled_queues import PulledQueues
from client.rebalance.unleased_queues import UnleasedQueues
from model.arguments import check_integer, check_mapping, check_number, check_whole
from model.errors import IllegalOperation, InvalidParameter
from model.heartbeat import MAX_NUMBER, ConsumeType, MessageModel
from model.limits import POLL_TIMEOUT_S
from model.message import MessageExt
from model.message_queue import MessageQueue, check_queue, check_queues
from model.names import check_topic
from model.subscription import Expression, SubscriptionData, make_subscription


class LitePullConsumer(GroupConsumer):
    """A consumer that is polled; one task polls at a time.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        group: consumer group.
        strategy: assigns the group's queues; every member must use the same. Not used after `assign`.
        message_queue_listener: called as `(topic, all queues, mine)` after each change of a subscribed topic.
        **options: `LitePullOptions` and `ClientConfig` by name.

    Raises:
        ConfigError, InvalidParameter: an option or name is wrong.

    Use:
        async with LitePullConsumer("127.0.0.1:9876", group="g") as consumer:
            await consumer.subscribe("orders")
            while messages := await consumer.poll():
                process(messages)
            await consumer.commit()
    """

    _consume_type = ConsumeType.ACTIVELY

    def __init__(
        self,
        name_servers: str | Sequence[str],
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        message_queue_listener: MessageQueueListener | None = None,
        **options: Any,
    ) -> None:
        config, self.poll_options = split_options(LitePullOptions, name_servers, options)
        super().__init__(group, strategy, message_queue_listener, config, self.poll_options.of_member())
        self._assigned: dict[MessageQueue, None] = {}
        self._assigned_topics: dict[str, SubscriptionData] = {}
        self._paused: dict[MessageQueue, None] = {}
        self._commits = PolledMessages(auto_commit=self.poll_options.auto_commit)
        self._topic_queues = TopicQueuesWatch(self._queues_of)
        self._ready = ReadyQueues()

    # --- lifecycle (GroupConsumer) -----------------------------------------------------------------------------------

    def _begin(self, context: MemberContext) -> MemberContext:
        self._ask = QueueOffsets(context.instance)
        self._background.start_soon(self._topic_queues.run)
        if self.poll_options.auto_commit:
            self._background.start_soon(self._commit_periodically)
        return replace(context, arrived=self._ready.arrived, started=self._queue_started)

    async def _commit_periodically(self) -> None:
        while True:
            await anyio.sleep(self.poll_options.auto_commit_interval_s)
            await self._parts()[1].persist()

    async def persist_offsets(self) -> None:
        """See `GroupMember`. Nothing: this consumer commits at its own interval, or when its user calls `commit`."""

    def _prepare_shutdown(self) -> None:
        self._commits.abandon()
        self._ready.close()

    async def _make_ownership(self, context: MemberContext) -> QueueOwnership:
        if not self._assigned:
            return await super()._make_ownership(context)
        store: OffsetStore = CommittedOffsetStore(context.instance, self.group)
        if self.options.model is MessageModel.BROADCASTING:
            store = await self._local_offsets(context)
        return UnleasedQueues(context, store, lambda topics: list(self._assigned))

    # --- queues ------------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Subscribe to a topic as a member of the group, or change the expression; before or after the start.

        Args:
            topic: its name; it need not exist yet.
            expression: `*`, tags as `tagA || tagB`, or `Sql("price > 10")`.

        Raises:
            IllegalOperation: queues were assigned.
            InvalidParameter: an illegal topic or expression, or a topic too many.
            UsageError: a broker refuses the subscription, which is withdrawn.
            ConnectFailed: no name server answers; the subscription stays and takes effect when one does.

        Cancellation: the subscription stays.
        """
        if self._assigned:
            raise IllegalOperation(
                "assign() and subscribe() cannot be mixed: create a second LitePullConsumer to subscribe"
            )
        await self._subscribe(topic, expression, with_retry=False)

    async def assign(self, queues: Iterable[MessageQueue], expressions: Mapping[str, Expression] | None = None) -> None:
        """Read exactly these queues, also if other consumers read them; before or after the start.

        The consumer does not join the group and gets no lease: no member is notified, and offsets are committed only
        while no member of the group owns the queue. Queues of an earlier assignment are released.

        Args:
            queues: at least one.
            expressions: topic -> tags or `Sql`, for topics of which not all messages are wanted.

        Raises:
            IllegalOperation: it has subscribed to a topic before.
            InvalidParameter: no queue, or an illegal topic or expression.
            ConnectFailed: no name server answers; the assignment stays and takes effect when one does.

        Cancellation: the assignment stays.
        """
        self._check_loop()
        assigned = dict.fromkeys(sorted(set(check_queues(queues))))
        if not assigned:
            raise InvalidParameter("no queue to assign: name at least one, or shut the consumer down")
        if self._is_member:
            raise IllegalOperation(
                "assign() and subscribe() cannot be mixed: create a second LitePullConsumer to assign queues"
            )
        check_mapping("expressions", {} if expressions is None else expressions)
        topics = dict.fromkeys(check_topic(queue.topic) for queue in assigned)
        filters = {topic: make_subscription(topic, (expressions or {}).get(topic, "*"), 0) for topic in topics}
        first, self._assigned, self._assigned_topics = not self._assigned, assigned, filters
        self._restart_pulls(topics)
        if self._state is ServiceState.RUNNING:
            if first:
                self._ownership = await self._make_ownership(self._context)
            await self._apply_subscriptions()

    async def _apply_subscriptions(self) -> None:
        if not self._assigned or self._state is not ServiceState.RUNNING:
            await super()._apply_subscriptions()
            return
        instance, ownership = self._parts()
        assert isinstance(ownership, UnleasedQueues), "assigned queues have no leases"
        cause = self._emit_start(instance)
        new = ownership.begin(self.topics())
        try:
            await instance.update_routes(self.topics(), cause)
            await ownership.store_start_offsets(new)
        finally:
            instance.start_rebalancing(self, cause)

    def topics(self) -> tuple[str, ...]:
        """See `GroupMember`."""
        return tuple(sorted(self._assigned_topics)) if self._assigned else super().topics()

    def _subscription_of(self, topic: str) -> SubscriptionData | None:
        return self._assigned_topics.get(topic) if self._assigned else super()._subscription_of(topic)

    def assignment(self) -> list[MessageQueue]:
        """The queues that it owns now, sorted; not those that it is about to get."""
        return self.queues

    def register_message_queue_listener(self, listener: MessageQueueListener | None) -> None:
        """Have a listener called as `(topic, all queues, mine)` after each change, and now for the current queues."""
        self._queue_listener.listen(listener)
        if self._state is ServiceState.RUNNING:
            self._notify_queue_listener()

    # --- messages ----------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float = POLL_TIMEOUT_S) -> list[MessageExt]:
        """Get messages; the messages of earlier polls count as processed from now on.

        Args:
            timeout_s: how long to wait if there are none; 0 for not at all.

        Returns:
            Up to `poll_batch` messages of one or several queues, in the offset order of each queue. Empty when none
            came in time or the consumer is shut down.

        Raises:
            InvalidParameter: no time that can be waited for.
            IllegalOperation: not running, nothing subscribed or assigned, or another task polls.
            ClientFailed: the consumer has ended without a shutdown; see `join`.

        Cancellation: no message is lost; messages of earlier polls count as processed.
        """
        check_number("timeout_s", timeout_s, 0, math.inf)
        self._check_running()
        if self._ready.waited_for:
            raise IllegalOperation(
                "another task is polling: the next poll marks the messages of the last one as processed"
            )
        if not self._subscriptions and not self._assigned:
            raise IllegalOperation("nothing to poll: subscribe to a topic or assign queues first")
        self._commits.finish_polled()
        await self._ready.wait(timeout_s)
        self._background.check()
        polled = self._ready.poll(self.poll_options.poll_batch, anyio.current_time())
        for owned, messages in polled:
            self._commits.add_polled(owned, messages, self.config.clock_ms())
        return [message for _, messages in polled for message in messages]

    def _queue_started(self, owned: OwnedQueue) -> None:
        owned.paused = owned.queue in self._paused
        self._commits.begin(owned)

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit now, and wait until it is stored.

        Args:
            offsets: exactly these, each the first offset that is not processed; only with `auto_commit=False`. By
                default all messages that polls have returned count as processed, and are committed.

        Raises:
            IllegalOperation: not running; or this consumer does not own a queue now; or offsets with automatic commit.
            InvalidParameter: no poll has reached an offset yet.
            LeaseLost: another member owns a queue now, and its messages are redelivered there.
            RlabError: some offset could not be stored; the next commit tries again.

        Cancellation: some may have been stored.
        """
        self._check_running()
        ownership = self._pulled()
        if offsets is None:
            self._commits.commit(ownership.owned.values())
        else:
            if self.poll_options.auto_commit:
                raise IllegalOperation("offsets are committed automatically: set auto_commit=False to choose them")
            check_mapping("offsets", offsets)
            chosen = [(self._owned(queue), offset) for queue, offset in offsets.items()]
            for owned, offset in chosen:
                check_integer(f"the offset of {owned.queue}", offset)
                if not 0 <= offset <= owned.process_queue.position:
                    raise InvalidParameter(
                        f"{owned.queue} was polled up to {owned.process_queue.position}; {offset} cannot be "
                        "committed: seek there first"
                    )
            for owned, offset in chosen:
                self._commits.commit_at(owned, offset)
        failures = await ownership.persist()
        for queue in sorted(failures):
            raise failures[queue]

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of the group on a queue; in BROADCASTING, of this consumer. None if there is none.

        Raises:
            NetworkError, TopicNotExist, InvalidParameter: its broker does not answer, or refuses.

        Cancellation: harmless.
        """
        self._check_running()
        ownership = self._pulled()
        if isinstance(ownership, UnleasedQueues) and self.options.model is MessageModel.BROADCASTING:
            return await ownership.stored(check_queue(queue))
        return await self._ask.committed(check_queue(queue), self.group)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at or after a wall-clock time; the end of the queue if there is none.

        Raises and cancellation: see `committed`.
        """
        self._check_running()
        check_whole("timestamp_ms", timestamp_ms, 0, MAX_NUMBER)
        return await self._ask.at(check_queue(queue), timestamp_ms)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at another offset; fetched messages are dropped. The next commit starts there as well.

        Args:
            queue: one that it owns now.
            offset: from the first offset that the queue holds to its end.

        Raises:
            IllegalOperation: this consumer does not own the queue now, maybe because of a rebalance in progress.
            InvalidParameter: the queue does not hold the offset.
            NetworkError: its broker does not answer; nothing changed.

        Cancellation: nothing changed.
        """
        owned = self._owned(queue)
        check_integer("offset", offset)
        first, end = await self._ask.first(queue), await self._ask.end(queue)
        if not first <= offset <= end:
            raise InvalidParameter(f"{queue} holds offsets {first} to {end}; {offset} cannot be sought")
        self._continue_at(owned, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the first offset that the queue holds. Raises and cancellation: see `seek`."""
        owned = self._owned(queue)
        self._continue_at(owned, await self._ask.first(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the end of the queue. Raises and cancellation: see `seek`."""
        owned = self._owned(queue)
        self._continue_at(owned, await self._ask.end(queue))

    def _continue_at(self, owned: OwnedQueue, offset: int) -> None:
        # During the request the queue may have been lost, and may even have returned, as another object.
        if self._owned(owned.queue) is not owned:
            raise IllegalOperation(f"{owned.queue} was lost and regained during the seek: seek again")
        self._commits.replace_queue(owned, self._pulled().restart(owned, offset))

    # --- pausing -----------------------------------------------------------------------------------------------------

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Deliver nothing from these queues until they are resumed; they stay paused if they are lost and regained."""
        for queue in check_queues(queues):
            self._paused[queue] = None
            if self._ownership is not None and queue in self._ownership.owned:
                self._ownership.owned[queue].paused = True

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Deliver messages of these queues again; queues that are not paused are ignored."""
        for queue in check_queues(queues):
            self._paused.pop(queue, None)
            if self._ownership is not None and queue in self._ownership.owned:
                owned = self._ownership.owned[queue]
                owned.paused = False
                owned.notify_progress()
                self._ready.arrived(owned)

    # --- topics ------------------------------------------------------------------------------------------------------

    async def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, sorted; empty if there is no such topic.

        ConnectFailed: no name server answers. Cancellation: harmless.
        """
        self._check_running()
        return list(await self._queues_of(check_topic(topic)))

    async def register_topic_message_queue_change_listener(self, topic: str, listener: TopicQueuesListener) -> None:
        """Have a listener called as `(topic, queues)` when the queues of a topic change; checked every 30 s.

        Raises and cancellation: see `TopicQueuesWatch.register`.
        """
        self._check_running()
        await self._topic_queues.register(topic, listener)

    async def fetch_topic_message_queues_and_compare(self) -> None:
        """Check now whether the queues of topics with a listener have changed. Cancellation: harmless."""
        self._check_loop()
        await self._topic_queues.fetch_and_compare()

    async def _queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        route = await self._parts()[0].name_servers.route(topic)
        return () if route is None else tuple(route.subscribe_queues())

    # --- shared ------------------------------------------------------------------------------------------------------

    def _pulled(self) -> PulledQueues:
        ownership = self._parts()[1]
        assert isinstance(ownership, PulledQueues), "a consumer that is polled pulls"
        return ownership

    def _owned(self, queue: MessageQueue) -> OwnedQueue:
        self._check_running()
        owned = self._pulled().owned.get(check_queue(queue))
        if owned is None:
            raise IllegalOperation(
                f"this consumer does not own {queue} now: another member may, or a rebalance is in progress"
            )
        return owned
