"""GroupConsumer: the lifecycle, subscriptions and queues that all kinds of consumers have in common.

A start registers the subscriptions at every broker, and only then asks for the first rebalance pass. A shutdown stops
the pulls, waits for listeners, commits, releases the queues and unregisters.

RocketMQ: DefaultMQPushConsumerImpl and DefaultLitePullConsumerImpl, each of which has a copy of it. The subclasses
(push, lite pull, pop) add the calls for users and the processing of messages.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from contextlib import suppress

import anyio

from client.allocate import AllocateMessageQueueAveragely, AllocateMessageQueueStrategy
from client.allocate.strategy import AssignedByBroker, usable
from client.config import ClientConfig, ServerDialect
from client.instance.background import BackgroundTasks
from client.instance.instance import ClientInstance
from client.instance.member import ClientLifecycle, GroupMember, ServiceState
from client.instance.registry import acquire_instance, release_instance
from client.instance.schedule import RebalancePass
from client.leases.local_offset_store import LocalOffsetStore, offsets_path
from client.listeners.listener import MessageQueueListener
from client.listeners.queue_listener_notifier import QueueListenerNotifier
from client.options import ConsumeOrder, ConsumerOptions, fit_for_rocketmq
from client.rebalance.broker_assigned_queues import BrokerAssignedQueues
from client.rebalance.leased_queues import LeasedQueues
from client.rebalance.ownership import MemberContext, MissedMessages, Popping, QueueOwnership
from client.rebalance.unleased_queues import UnleasedQueues
from model.assignment import AssignedBy
from model.errors import ConfigError, IllegalOperation, NetworkError, UsageError
from model.events import EventKind
from model.heartbeat import ConsumerData, ConsumeType, MessageModel, check_subscriptions
from model.message_queue import MessageQueue
from model.names import TRACE_TOPIC, check_group, check_topic, is_retry_topic, retry_topic
from model.quirks import Quirk
from model.subscription import Expression, SubscriptionData, make_subscription

logger = logging.getLogger(__name__)

_HURRY_S = 1.0
"""How long a consumer may take to release its queues at the end of the event loop."""


class GroupConsumer(ClientLifecycle, GroupMember):
    """A member of a group; the base class of the consumers.

    Raises:
        InvalidParameter: an illegal group name.
        ConfigError: the strategy is not a strategy, or one is given although a broker assigns the queues.
    """

    _consume_type: ConsumeType

    def __init__(
        self,
        group: str,
        strategy: AllocateMessageQueueStrategy | None,
        message_queue_listener: MessageQueueListener | None,
        config: ClientConfig,
        options: ConsumerOptions,
    ) -> None:
        self.group = check_group(group)
        self.config, self.options = config, options
        self.rebalance_interval_s = options.rebalance_interval_s
        self.session_timeout_s = options.session_timeout_s
        if options.assignment == AssignedBy.BROKER:
            if strategy is not None:
                raise ConfigError("assignment='broker' leaves no choice to a strategy: give one or the other")
            strategy = AssignedByBroker()
        if options.rejoin_within_s and config.instance_name is None:
            raise ConfigError("rejoin_within_s needs an instance_name: a member that comes back is known by it")
        # Checked here: in the first heartbeat or pass the mistake would be a crash in the background.
        self._strategy = AllocateMessageQueueAveragely() if strategy is None else usable("strategy", strategy)
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._subscription_version = 0
        # Stays true after the last unsubscribe: the consumer unregisters at shutdown.
        self._is_member = False
        self._background = BackgroundTasks(f"consumer of {group}", self._leave_after_failure)
        self._queue_listener = QueueListenerNotifier(message_queue_listener, self._background)
        self._instance: ClientInstance | None = None
        self._ownership: QueueOwnership | None = None
        self.missed = MissedMessages()  # counts of the queues that it pulls

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the consumer. RocketMQ: DefaultMQPushConsumerImpl.start, in its order.

        Raises:
            ConnectFailed: no name server answers.
            IllegalOperation: started before, or the instance has a consumer of this group already.
            ClientIdConflict: another live process is in the group under this client id.
            InvalidParameter, NoPermission: a broker refuses the consumer.
            ConfigError: in BROADCASTING: the file of the offsets is damaged.

        Cancellation: all tasks are stopped, and the consumer is not registered.
        """
        self._begin_start("consumer")
        instance = await acquire_instance(self.config)
        try:
            await self._background.start()
            if instance.config.dialect is ServerDialect.ROCKETMQ:
                self.options = fit_for_rocketmq(self.options)
                self.session_timeout_s = self.options.session_timeout_s
            self._instance = instance
            context = MemberContext(
                instance, self.group, self.options, self._background, self._subscription_of, missed=self.missed
            )
            self._context = self._begin(context)
            self._ownership = await self._make_ownership(self._context)
            instance.register(self)
            self._state = ServiceState.RUNNING
            await self._apply_subscriptions()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                if self._state is ServiceState.SHUTDOWN_ALREADY:
                    await self._background.stop()  # a background task failed during the start, which leaves the group
                    raise
                if isinstance(error, UsageError) and instance.members.get(self.group) is self:
                    # One broker has refused us, but another may have registered us, for instance because it has no
                    # other process with our client id.
                    await instance.heartbeats.leave(self.group, "")
                instance.unregister(self)
                await self._background.stop()
                await release_instance(instance)
            self._state = ServiceState.START_FAILED
            raise

    async def shutdown(self) -> None:
        """Leave: stop the intake, drain, commit, release, unregister, close. Idempotent.

        The drain may take `shutdown_grace_s`; messages that are finished later are redelivered to another member. A
        consumer that has failed leaves in the same way without this call, which then waits for the end of that.

        Raises:
            IllegalOperation: called by a listener of this consumer.

        Cancellation: the remaining steps are skipped; the broker sees the connection close.
        """
        self._check_loop()
        if self._state is not ServiceState.RUNNING:
            return await self._background.left()
        self._prepare_shutdown()
        instance, _ = self._parts()
        try:
            await self._leave(rejoin=self.options.rejoin_within_s > 0)
        finally:
            with anyio.CancelScope(shield=True):
                await self._background.stop()
                await release_instance(instance)

    async def _leave(self, *, rejoin: bool) -> None:
        self._state = ServiceState.SHUTDOWN_ALREADY
        instance, ownership = self._parts()
        cause = instance.events.emit(EventKind.CLIENT_STOP, group=self.group, client=instance.client_id)
        try:
            await ownership.close(cause)
        finally:
            try:
                if self._is_member:
                    await instance.heartbeats.leave(self.group, cause, rejoin=rejoin)
            finally:
                instance.unregister(self)

    async def _leave_after_failure(self, reason: BaseException, hurry: bool) -> bool:
        """Leave the group without a shutdown, so that its queues go to other members; see `BackgroundTasks`.

        As after a shutdown, plain listeners that still run have `shutdown_grace_s` to return, but their results are
        lost with the tasks that called them. At the end of the event loop, which waits for this, they have less time.
        """
        if self._state is not ServiceState.RUNNING:
            return False  # the start has failed, or a shutdown is in progress and leaves
        self._prepare_shutdown()
        instance, _ = self._parts()
        try:
            with anyio.move_on_after(_HURRY_S if hurry else math.inf):
                await self._leave(rejoin=False)
        finally:
            await release_instance(instance)
        return False

    def instance_failed(self, reason: BaseException) -> None:
        """See `Resident`."""
        self._background.fail(reason, "its client instance")

    async def join(self) -> None:
        """Wait until the consumer is shut down. Cancellation: harmless; the consumer goes on.

        Raises:
            ClientFailed: the consumer has ended without a shutdown: because of a bug, because other code cancelled its
                tasks, or because a broker refuses its heartbeats permanently. It leaves its group within
                `shutdown_grace_s`.
            KeyboardInterrupt, SystemExit: user code ends the process. The consumer has left its group.
        """
        self._check_loop()
        await self._background.wait()

    def _check_running(self) -> None:
        self._check_loop()
        self._background.check()
        if self._state is not ServiceState.RUNNING:
            raise IllegalOperation(f"this consumer is {self._state}: start it first, and use it before its shutdown")

    def _begin(self, context: MemberContext) -> MemberContext:
        """Make the part that processes messages, and start it; returns the context with its callbacks."""
        return context

    def _prepare_shutdown(self) -> None:
        """Refuse a shutdown that would wait for itself, and return messages that will not be processed."""

    async def _make_ownership(self, context: MemberContext) -> QueueOwnership:
        if self.options.assignment == AssignedBy.BROKER:
            return BrokerAssignedQueues(context, self._make_popping)
        if self.options.model is MessageModel.CLUSTERING:
            return LeasedQueues(context, self._strategy)
        return UnleasedQueues(context, await self._local_offsets(context), self._all_queues)

    async def _local_offsets(self, context: MemberContext) -> LocalOffsetStore:
        store = LocalOffsetStore(offsets_path(self.options.offsets_dir, context.instance.client_id, self.group))
        await store.load()
        return store

    def _make_popping(self, context: MemberContext) -> Popping | None:
        """Make the part that pops, when the coordinator has set a topic to POP; None without listeners."""
        return None

    def _all_queues(self, topics: tuple[str, ...]) -> list[MessageQueue]:
        instance, _ = self._parts()
        return [queue for topic in topics for queue in instance.routes.subscribe_queues(topic)]

    # --- subscriptions -----------------------------------------------------------------------------------------------

    def _record_subscription(self, topic: str, expression: Expression, *, with_retry: bool) -> None:
        self._check_loop()
        if is_retry_topic(check_topic(topic)):
            raise IllegalOperation(
                f"{topic!r} belongs to its group, which reads it anyway: subscribe to the topic itself"
            )
        check_subscriptions(self.group, {topic, *self._subscriptions})
        version = self._subscription_version + 1
        self._subscriptions[topic] = make_subscription(topic, expression, version)
        self._subscription_version = version
        self._is_member = True
        if with_retry:
            retry = retry_topic(self.group)
            self._subscriptions.setdefault(retry, make_subscription(retry, "*", version))
        self._restart_pulls({topic})

    def _restart_pulls(self, topics: Collection[str]) -> None:
        """Cancel the parked pulls of topics: they wait for the tags of an earlier subscription."""
        for owned in self._ownership.owned.values() if self._ownership is not None else ():
            if owned.queue.topic in topics:
                owned.cancel_pending_pull()

    async def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic: its queues are committed and released, and the other members are notified.

        In BROADCASTING the offsets of the topic are deleted; nothing else deletes them.

        Raises:
            InvalidParameter: an illegal name.

        Cancellation: the topic is unsubscribed all the same.
        """
        self._check_loop()
        if self._subscriptions.pop(check_topic(topic), None) is None:
            return
        if isinstance(self._ownership, UnleasedQueues):
            self._ownership.end(topic)
        if self._state is ServiceState.RUNNING and Quirk.UNSUBSCRIBE_STRANDS not in self.config.quirks:
            # No queue is added, so the new routes are not needed: a silent name server must not fail this.
            with suppress(NetworkError):
                await self._register_at_brokers()

    async def _subscribe(self, topic: str, expression: Expression, *, with_retry: bool) -> None:
        """Record a subscription and apply it; if a broker refuses it, it is withdrawn, and the others go on."""
        old = self._subscriptions.get(topic)
        self._record_subscription(topic, expression, with_retry=with_retry)
        try:
            await self._apply_subscriptions()
        except UsageError:
            await self._withdraw(topic, old)
            raise

    async def _withdraw(self, topic: str, old: SubscriptionData | None) -> None:
        if old is not None:
            self._subscriptions[topic] = old
        else:
            self._subscriptions.pop(topic, None)
            if isinstance(self._ownership, UnleasedQueues):
                self._ownership.end(topic)
        self._restart_pulls({topic})
        if self._state is ServiceState.RUNNING:
            with suppress(NetworkError):
                await self._parts()[0].heartbeats.send()

    def refused(self, error: UsageError) -> None:
        """See `GroupMember`."""
        if self._state is ServiceState.RUNNING:
            self._background.fail(error, "a heartbeat, which its broker has refused for a whole session,")

    async def _apply_subscriptions(self) -> None:
        if self._subscriptions and self._state is ServiceState.RUNNING:
            await self._register_at_brokers()

    async def _register_at_brokers(self) -> None:
        """Register the subscriptions at every broker, and rebalance only after their answers.

        RocketMQ starts to pull and then waits 500 ms, so that its heartbeat wins the race to the broker; here the
        heartbeat is answered first. Its lite pull consumer sends none at its start, and waits for up to 20 s.
        """
        instance, ownership = self._parts()
        cause = self._emit_start(instance)
        new = ownership.begin(self.subscribed_topics()) if isinstance(ownership, UnleasedQueues) else ()
        try:
            await self._update_routes(instance, cause)
        except NetworkError:
            # Known brokers get the heartbeat in any case; a later poll brings the missing routes.
            await instance.heartbeats.send(cause)
            instance.start_rebalancing(self, cause)
            raise
        await instance.heartbeats.send(cause)
        instance.heartbeats.check_accepted()
        if isinstance(ownership, UnleasedQueues):
            await ownership.store_start_offsets(new)
        instance.start_rebalancing(self, cause)

    def _emit_start(self, instance: ClientInstance) -> str:
        """Emit CLIENT_START; returns its cause."""
        detail = f"session_timeout_s={self.options.session_timeout_s:g}"
        return instance.events.emit(EventKind.CLIENT_START, group=self.group, client=instance.client_id, detail=detail)

    async def _update_routes(self, instance: ClientInstance, cause: str) -> None:
        await instance.update_routes(self.topics(), cause)
        missing = [
            t for t in self.subscribed_topics() if not instance.routes.subscribe_queues(t) and not is_retry_topic(t)
        ]
        if missing:
            logger.warning("%s do not exist yet; %s waits for them", ", ".join(missing), instance.client_id)
            # Every broker has the trace topic, so its route has all brokers. A broker that creates the missing topic
            # later needs the group before the first message, or LAST_OFFSET would begin after that message.
            await instance.update_routes((TRACE_TOPIC,), cause)

    def _subscription_of(self, topic: str) -> SubscriptionData | None:
        return self._subscriptions.get(topic)

    @property
    def client_id(self) -> str:
        """`ip@instance`, once started."""
        return self._instance.client_id if self._instance is not None else ""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member owns now, sorted."""
        return sorted(self._ownership.owned) if self._ownership is not None else []

    def subscribed_topics(self) -> tuple[str, ...]:
        """The topics that it subscribes to, sorted, with the group's retry topic."""
        return tuple(sorted(self._subscriptions))

    # --- what the client instance calls (GroupMember) ----------------------------------------------------------------

    def topics(self) -> tuple[str, ...]:
        """See `GroupMember`."""
        topics_of_others = self._ownership.topics_of_others if self._ownership is not None else ()
        # Each broker at which a member registers gets the group's retry topic. Through its route all members find the
        # same brokers, also members that consume no retries: a broker without a heartbeat of one member would answer
        # the others with a member list that lacks it.
        shared = {retry_topic(self.group)} if self._is_member and self.options.model is MessageModel.CLUSTERING else ()
        return tuple(sorted({*self._subscriptions, *topics_of_others, *shared}))

    def consumer_data(self) -> ConsumerData | None:
        """See `GroupMember`."""
        instance, _ = self._parts()
        if not self._is_member or self._state not in (ServiceState.RUNNING, ServiceState.SHUTDOWN_ALREADY):
            return None
        # In a shutdown it subscribes to nothing, so that others are assigned its queues; but it stays a member until
        # its listeners have finished, or its leases would end while they have messages. A member that will come back
        # keeps its queues, and so its subscriptions.
        stays = self._state is ServiceState.RUNNING or self.options.rejoin_within_s > 0
        subscribed = self.subscribed_topics() if stays else ()
        return ConsumerData(
            group=self.group,
            consume_type=self._consume_type,
            model=self.options.model,
            consume_from=self.options.consume_from,
            consume_timestamp_ms=self.options.consume_timestamp_ms,
            strategy=self._strategy.name,
            session_timeout_s=self.options.session_timeout_s,
            rejoin_within_s=self.options.rejoin_within_s,
            ordered=self.options.order != ConsumeOrder.NONE and instance.config.dialect is ServerDialect.ROCKETMQ,
            group_created_ms=instance.heartbeats.group_created_ms(self.group),
            subscriptions=tuple(self._subscriptions[topic] for topic in subscribed),
        )

    async def rebalance(self, due: RebalancePass) -> bool:
        """See `GroupMember`."""
        _, ownership = self._parts()
        if self._state is not ServiceState.RUNNING:
            return True  # the shutdown releases everything
        with self._background.isolating_failures("a rebalance pass"):
            try:
                return await ownership.rebalance(due, self.subscribed_topics())
            finally:
                self._notify_queue_listener()
        return True

    def _notify_queue_listener(self) -> None:
        instance, ownership = self._parts()
        queues_of = {topic: instance.routes.subscribe_queues(topic) for topic in self.subscribed_topics()}
        self._queue_listener.update(queues_of, ownership.owned)

    async def persist_offsets(self) -> None:
        """See `GroupMember`."""
        _, ownership = self._parts()
        with self._background.isolating_failures("the commit of offsets"):
            await ownership.persist()

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """See `GroupMember`."""
        _, ownership = self._parts()
        with self._background.isolating_failures("a reset of offsets"):
            ownership.offsets_reset(queues, token, cause)

    def _parts(self) -> tuple[ClientInstance, QueueOwnership]:
        assert self._instance is not None, "the consumer was not started"
        assert self._ownership is not None, "the consumer was not started"
        return self._instance, self._ownership
