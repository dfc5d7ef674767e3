"""PushConsumer: a member of a group that is handed the messages of its share of the queues.

RocketMQ: DefaultMQPushConsumer, DefaultMQPushConsumerImpl. This file is the lifecycle and what users call; the share of
queues is `client/queue_share.py`, the workers are `client/worker_pool.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Any

import anyio

from client.allocate import AllocateMessageQueueAveragely, AllocateMessageQueueStrategy
from client.background import Background
from client.consume_service import ConsumeConcurrently, ConsumeOrderly, ConsumeService
from client.consumer import ConsumeResult, Listener, ListenerCall
from client.consumer_options import ConsumeOrder, split_options
from client.instance import ClientInstance
from client.instance_registry import acquire_instance, release_instance
from client.owned_queue import OwnedQueue
from client.queue_share import QueueShare
from client.rebalance import RebalancePass
from client.send_back import SendBack
from client.service_state import ServiceState
from client.worker_pool import WorkerPool
from model.errors import ClientIdConflict, IllegalOperation
from model.events import EventKind
from model.heartbeat import ConsumerData, ConsumeType, MessageModel
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.names import TRACE_TOPIC, check_group, check_topic, is_retry_topic, retry_topic
from model.quirks import Quirk
from model.subscription import SubscriptionData, subscription_of

logger = logging.getLogger(__name__)


class PushConsumer:
    """A consumer that calls listeners with messages as they come.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        group: consumer group.
        strategy: how the group's queues are shared; every member must use the same.
        **options: `ConsumerOptions` and `ClientConfig` by name.

    Raises:
        ConfigError, InvalidParameter: an option or name is wrong.

    Use:
        async with PushConsumer("127.0.0.1:9876", group="g") as consumer:
            await consumer.subscribe("orders", on_message)
            await consumer.join()
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        **options: Any,
    ) -> None:
        self.group = check_group(group)
        self.config, self.options = split_options(name_servers, options)
        self.rebalance_interval_s = self.options.rebalance_interval_s
        self.session_timeout_s = self.options.session_timeout_s
        self.late_results = 0
        """Results of listeners that came after their queue was another member's, or was reset; they were ignored."""
        self._strategy = strategy or AllocateMessageQueueAveragely()
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._listeners: dict[str, ListenerCall] = {}
        self._subscription_version = 0
        self._state = ServiceState.CREATE_JUST
        self._background = Background(f"consumer of {group}")
        self._instance: ClientInstance | None = None
        self._share: QueueShare | None = None
        self._pool: WorkerPool | None = None
        self._service: ConsumeService | None = None

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> PushConsumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Leaving on a cancellation too means to leave the group properly, within its bounds.
        with anyio.CancelScope(shield=True):
            await self.shutdown()

    async def start(self) -> None:
        """Start the consumer. RocketMQ: DefaultMQPushConsumerImpl.start, in its order.

        Raises:
            ConnectFailed: no name server answers.
            IllegalOperation: started before, or the instance has a consumer of this group already.
            ClientIdConflict: another live process is in the group under this client id.

        Cancellation: nothing is left running.
        """
        if self._state is not ServiceState.CREATE_JUST:
            raise IllegalOperation(f"this consumer is {self._state}: make a new one to start again")
        self._state = ServiceState.START_FAILED
        instance = await acquire_instance(self.config)
        try:
            await self._background.start()
            self._instance = instance
            self._pool = WorkerPool(
                self._consume, max_workers=self.options.max_workers, batch_size=self.options.consume_batch
            )
            self._share = QueueShare(
                instance,
                self.group,
                self._strategy,
                self.options,
                self._background,
                self._subscriptions.get,
                self._pool.offer,
            )
            self._service = self._consume_service(instance, self._pool)
            self._pool.start(self._background)
            instance.register(self)
            self._state = ServiceState.RUNNING
            if self._subscriptions:
                await self._introduce()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                instance.unregister(self)
                if isinstance(error, ClientIdConflict):
                    # A broker that has not heard of the other process has taken us in.
                    await instance.heartbeats.leave(self.group, "")
                await self._background.stop()
                await release_instance(instance)
            self._state = ServiceState.START_FAILED
            raise

    async def shutdown(self) -> None:
        """Leave: stop the intake, finish what listeners have, commit, unlock, unregister, close. Idempotent.

        What listeners have may take `shutdown_grace_s`; what they finish later is delivered again to another member.

        Raises:
            IllegalOperation: called by a listener of this consumer.

        Cancellation: the rest is cut short; the broker sees the connection close.
        """
        if self._state is not ServiceState.RUNNING:
            return
        if self._pool is not None and self._pool.runs_current_task():
            raise IllegalOperation(
                "a listener cannot shut its own consumer down, because the shutdown waits for the listener: "
                "set an event there, and shut down where the consumer was started"
            )
        self._state = ServiceState.SHUTDOWN_ALREADY
        instance, share = self._parts()
        cause = instance.events.emit(EventKind.CLIENT_STOP, group=self.group, client=instance.client_id)
        try:
            await share.close(cause)
            if self._subscriptions:
                await instance.heartbeats.leave(self.group, cause)
        finally:
            instance.unregister(self)
            with anyio.CancelScope(shield=True):
                await self._background.stop()
                await release_instance(instance)

    async def join(self) -> None:
        """Wait until the consumer is shut down. Cancellation: harmless; the consumer goes on.

        Raises:
            ExceptionGroup: a background task failed, which is a bug.
        """
        await self._background.wait()

    # --- subscriptions -----------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, listener: Listener, expression: str = "*") -> None:
        """Subscribe to a topic, or change the listener or expression of one; before or after the start.

        Args:
            topic: the topic; one that does not exist yet is waited for.
            listener: see `client/consumer.py`.
            expression: `*`, or tags as `tagA || tagB`.

        Raises:
            InvalidParameter: an illegal topic or expression.
            ConnectFailed: no name server answers; the subscription stays and takes effect when one does.

        Cancellation: the subscription stays.
        """
        if is_retry_topic(check_topic(topic)):
            raise IllegalOperation(
                f"{topic!r} belongs to its group, which reads it anyway: subscribe to the topic itself"
            )
        self._subscription_version += 1
        retry = retry_topic(self.group)
        self._subscriptions[topic] = subscription_of(topic, expression, self._subscription_version)
        self._subscriptions.setdefault(retry, subscription_of(retry, "*", self._subscription_version))
        self._listeners[topic] = ListenerCall(listener, topic)
        if self._state is ServiceState.RUNNING:
            await self._introduce()

    async def unsubscribe(self, topic: str) -> None:
        """Give up a topic: its queues are committed and released, and the other members are told.

        Cancellation: the topic is given up all the same.
        """
        if self._subscriptions.pop(topic, None) is None:
            return
        if self._state is ServiceState.RUNNING and Quirk.UNSUBSCRIBE_STRANDS not in self.config.quirks:
            await self._introduce()

    async def _introduce(self) -> None:
        """Tell everybody what we want now, and only when they know it, rebalance.

        RocketMQ starts to pull and then waits 500 ms, so that its heartbeat wins the race to the broker; here the
        heartbeat is answered first.
        """
        instance, _ = self._parts()
        cause = instance.events.emit(EventKind.CLIENT_START, group=self.group, client=instance.client_id)
        await instance.update_routes(self.subscribed_topics(), cause)
        missing = [
            t for t in self.subscribed_topics() if not instance.routes.subscribe_queues(t) and not is_retry_topic(t)
        ]
        if missing:
            logger.warning("%s do not exist yet; %s waits for them", ", ".join(missing), instance.client_id)
            # Every broker has the trace topic, so its route names them all. Whichever of them makes the topic later has
            # to know the group before the first message comes, or «last» would begin behind that message.
            await instance.update_routes((TRACE_TOPIC,), cause)
        await instance.heartbeats.send(cause)
        instance.heartbeats.check_accepted()
        instance.introduced(self, cause)

    @property
    def client_id(self) -> str:
        """`ip@instance`, once started."""
        return self._instance.client_id if self._instance is not None else ""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member has now, sorted."""
        return sorted(self._share.owned) if self._share is not None else []

    def subscribed_topics(self) -> tuple[str, ...]:
        """What it subscribes to, sorted; the group's retry topic is among it."""
        return tuple(sorted(self._subscriptions))

    # --- what the client instance calls (GroupMember) ----------------------------------------------------------------

    def topics(self) -> tuple[str, ...]:
        """See `GroupMember`."""
        others = self._share.topics_of_others if self._share is not None else ()
        return tuple(sorted({*self._subscriptions, *others}))

    def consumer_data(self) -> ConsumerData | None:
        """See `GroupMember`."""
        instance, _ = self._parts()
        if not self._subscriptions or self._state is not ServiceState.RUNNING:
            return None
        return ConsumerData(
            group=self.group,
            consume_type=ConsumeType.PASSIVELY,
            model=MessageModel.CLUSTERING,
            consume_from=self.options.consume_from,
            consume_timestamp_ms=self.options.consume_timestamp_ms,
            strategy=self._strategy.name,
            session_timeout_s=self.options.session_timeout_s,
            group_created_ms=instance.heartbeats.group_created_ms(self.group),
            subscriptions=tuple(self._subscriptions[topic] for topic in self.subscribed_topics()),
        )

    async def rebalance(self, due: RebalancePass) -> bool:
        """See `GroupMember`."""
        _, share = self._parts()
        return await share.rebalance(due, self.subscribed_topics())

    async def persist_offsets(self) -> None:
        """See `GroupMember`."""
        _, share = self._parts()
        await share.persist()

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """See `GroupMember`."""
        _, share = self._parts()
        share.offsets_reset(queues, token, cause)

    # --- consuming ---------------------------------------------------------------------------------------------------

    async def _consume(self, owned: OwnedQueue, messages: list[MessageExt]) -> None:
        listener = self._listener_of(messages[0])
        if listener is not None:
            result = await listener(messages)
        else:
            # The retry topic is the whole group's, and brings what members with other topics have failed on. It is not
            # ours to finish: it has to come to a member that can, or to become a dead letter that somebody sees.
            logger.error("%s has no listener for %r: members of a group need the same topics", self.client_id, messages)
            result = ConsumeResult.RECONSUME_LATER
        assert self._service is not None, "messages are consumed after the start"
        if owned.lost:
            self.late_results += len(messages)
            owned.process_queue.finish(messages)  # nobody commits it, but a reset waits until listeners are done
        else:
            await self._service.settle(owned, messages, result)
        owned.made_progress()

    def _consume_service(self, instance: ClientInstance, pool: WorkerPool) -> ConsumeService:
        options = self.options
        send_back = SendBack(instance, self.group, options.max_attempts, options.retry_delay_ms)
        if options.order == ConsumeOrder.NONE:
            return ConsumeConcurrently(pool, send_back, options.consume_retry_s)
        return ConsumeOrderly(
            pool,
            send_back,
            max_attempts=options.max_attempts,
            suspend_s=options.suspend_s,
            auto_commit=options.auto_commit,
        )

    def _listener_of(self, message: MessageExt) -> ListenerCall | None:
        # A message of the retry topic belongs to the listener of the topic that it was sent to.
        return self._listeners.get(message.topic) or self._listeners.get(message.queue.topic)

    def _parts(self) -> tuple[ClientInstance, QueueShare]:
        assert self._instance is not None, "the consumer was not started"
        assert self._share is not None, "the consumer was not started"
        return self._instance, self._share
