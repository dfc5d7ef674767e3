"""PushConsumer: a member of a group whose listeners are called with messages as they arrive.

RocketMQ: DefaultMQPushConsumer, DefaultMQPushConsumerImpl. The lifecycle is `client/rebalance/member.py`, the queues
are `client/rebalance/leased_queues.py` (in BROADCASTING `client/rebalance/unleased_queues.py`), the workers are
`client/listeners/worker_pool.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from types import CoroutineType
from typing import Any, cast

from client.allocate import AllocateMessageQueueStrategy
from client.instance.instance import ClientInstance
from client.instance.member import ServiceState
from client.listeners.hanging import HangingListeners
from client.listeners.listener import ConsumeResult, Listener, ListenerCall, MessageQueueListener, Messages, Result
from client.listeners.send_back import SendBackRequests
from client.listeners.threads import ListenerThreads
from client.listeners.worker_pool import WorkerPool
from client.options import ConsumeMode, ConsumeOrder, ConsumerOptions, split_options
from client.pop.consumption import PopConsumption
from client.pull.owned_queue import OwnedQueue
from client.push.runs import PendingCall, run_listener
from client.push.services import ConsumeConcurrently, ConsumeOrderly, FailureHandler, log_exhausted, retry_locally
from client.rebalance.member import GroupConsumer
from client.rebalance.ownership import MemberContext, QueueOwnership
from model.errors import IllegalOperation, InvalidParameter, UsageError
from model.events import EventKind
from model.heartbeat import ConsumerData, ConsumeType, MessageModel
from model.message import MessageExt
from model.names import is_retry_topic
from model.subscription import Expression

logger = logging.getLogger(__name__)


class PushConsumer(GroupConsumer):
    """A consumer that calls listeners with messages as they arrive.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        group: consumer group.
        strategy: how the group's queues are assigned; every member must use the same. Not used in BROADCASTING.
        message_queue_listener: called as `(topic, all queues, owned queues)` after each change; not at the shutdown.
        **options: `ConsumerOptions` and `ClientConfig` by name.

    Raises:
        ConfigError, InvalidParameter: an option or name is wrong.

    Use:
        async with PushConsumer("127.0.0.1:9876", group="g") as consumer:
            await consumer.subscribe("orders", on_message)
            await consumer.join()
    """

    _consume_type = ConsumeType.PASSIVELY

    def __init__(
        self,
        name_servers: str | Sequence[str],
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        message_queue_listener: MessageQueueListener | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            group, strategy, message_queue_listener, *split_options(ConsumerOptions, name_servers, options)
        )
        if self.options.mode == ConsumeMode.POP:
            self._consume_type = ConsumeType.POP
        self._suspended = False
        self._late_results = 0
        self._popped: PopConsumption | None = None
        self._threads = ListenerThreads(self.options.max_workers, self._background)
        self._hanging = HangingListeners(self.options.consume_timeout_s)
        self._listeners: dict[str, ListenerCall] = {}
        self._pool: WorkerPool | None = None
        self._service: ConsumeConcurrently | ConsumeOrderly | None = None

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    def _begin(self, context: MemberContext) -> MemberContext:
        self._background.start_soon(self._hanging.run, context.instance, self.group)
        if self.options.mode == ConsumeMode.POP:
            return context
        options = self.options
        self._pool = WorkerPool(
            self._consume,
            max_workers=options.max_workers,
            batch_size=options.consume_batch,
            run=partial(self._run, asyncio.get_running_loop().time) if self._has_runs() else None,
        )
        self._pool.set_suspended(self._suspended)
        self._service = self._consume_service(context.instance, self._pool)
        self._pool.start(self._background)
        return replace(context, arrived=self._pool.offer, started=self._queue_started)

    async def _make_ownership(self, context: MemberContext) -> QueueOwnership:
        if self.options.mode == ConsumeMode.PULL:
            return await super()._make_ownership(context)
        return self._pop(context)

    def _pop(self, context: MemberContext) -> PopConsumption:
        self._popped = PopConsumption(context, self._listen)
        self._popped.set_suspended(self._suspended)
        return self._popped

    def _make_popping(self, context: MemberContext) -> PopConsumption:
        if self.options.order == ConsumeOrder.KEY:
            logger.warning(
                "%s: group %s is to pop, and order='key' keeps the order of whole queues then: keys wait for each "
                "other; let the group pull where that is too slow",
                *(self.client_id, self.group),
            )
        return self._pop(context)

    def _prepare_shutdown(self) -> None:
        pools = (self._pool, self._popped.pool if self._popped is not None else None)
        if any(pool is not None and pool.runs_current_task() for pool in pools):
            raise IllegalOperation(
                "a listener cannot shut its own consumer down, because the shutdown waits for the listener: "
                "set an event there, and shut down where the consumer was started"
            )

    # --- subscriptions -----------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, listener: Listener, expression: Expression = "*") -> None:
        """Subscribe to a topic, or change the listener or expression of one; before or after the start.

        Args:
            topic: the topic; one that does not exist yet is waited for.
            listener: see `client/listeners/listener.py`.
            expression: `*`, tags as `tagA || tagB`, or `Sql("price > 10")`.

        Raises:
            InvalidParameter: an illegal topic or expression, a listener that cannot be called, or a topic too many.
            UsageError: a broker refuses the subscription, which is withdrawn.
            ConnectFailed: no name server answers; the subscription stays and takes effect when one does.

        Cancellation: the subscription stays.
        """
        if not callable(listener):  # every message would fail, and be sent to the DLQ
            raise InvalidParameter(f"listener must be a function of messages, got {listener!r}; tags come third")
        earlier = self._listeners.get(topic)
        self._listeners[topic] = ListenerCall(listener, topic, self._threads, self._hanging)
        try:
            await self._subscribe(topic, expression, with_retry=self.options.model is MessageModel.CLUSTERING)
        except UsageError:
            if earlier is None:
                self._listeners.pop(topic, None)
            else:
                self._listeners[topic] = earlier
            raise

    # --- suspending --------------------------------------------------------------------------------------------------

    @property
    def suspended(self) -> bool:
        """Whether `suspend` was called, and `resume` not since."""
        return self._suspended

    def suspend(self) -> None:
        """Call no listener until `resume`, and pull and pop nothing; before or after the start. Idempotent.

        It stays a member and keeps its queues, so no member consumes them until it resumes; in a rebalance it releases
        and acquires queues as usual. Listeners that have messages finish. Fetched messages stay here, and are
        dispatched first afterwards. RocketMQ: DefaultMQPushConsumer.suspend, which goes on with fetched messages, and
        takes part in no rebalance.
        """
        self._set_suspended(True)

    def resume(self) -> None:
        """Go on after `suspend`. Idempotent."""
        self._set_suspended(False)

    def _set_suspended(self, suspended: bool) -> None:
        self._check_loop()
        if self._suspended == suspended:
            return
        self._suspended = suspended
        if self._pool is not None:
            self._pool.set_suspended(suspended)
        if self._popped is not None:
            self._popped.set_suspended(suspended)
        if self._state is not ServiceState.RUNNING:
            return
        instance, ownership = self._parts()
        for owned in ownership.owned.values():
            owned.paused = suspended
            owned.notify_progress()
        cause = instance.events.emit(
            EventKind.CONSUMER_SUSPENDED,
            group=self.group,
            client=instance.client_id,
            detail="suspended" if suspended else "resumed",
        )
        self._background.start_soon(instance.heartbeats.send, cause)  # brokers show it to operators

    def _queue_started(self, owned: OwnedQueue) -> None:
        owned.paused = self._suspended

    def consumer_data(self) -> ConsumerData | None:
        """See `GroupMember`."""
        data = super().consumer_data()
        return replace(data, suspended=True) if data is not None and self._suspended else data

    # --- consuming ---------------------------------------------------------------------------------------------------

    @property
    def late_results(self) -> int:
        """Number of ignored listener results: their queue or message had gone to another member, or was reset."""
        return self._late_results + (self._popped.late if self._popped is not None else 0)

    def _listen(self, messages: Messages) -> PendingCall:
        # Not a coroutine itself: each coroutine between the queue and the listener adds a twentieth to the cost of a
        # dispatch.
        listener = self._listener_of(messages[0])
        return self._refuse(messages) if listener is None else listener(messages)

    async def _refuse(self, messages: Messages) -> Result:
        # The retry topic has failed messages of all members, also of topics that this one does not subscribe to. This
        # one must not finish them: they have to reach a member that can process them, or the DLQ.
        logger.error("%s has no listener for %r: members of a group need the same topics", self.client_id, messages)
        return ConsumeResult.RECONSUME_LATER

    def _has_runs(self) -> bool:
        """Whether a listener may be called with one batch after the other while it does not wait; see `runs.py`."""
        options = self.options
        if options.order == ConsumeOrder.NONE:
            return True
        return options.auto_commit and (options.order == ConsumeOrder.QUEUE or options.consume_batch == 1)

    def _run(self, clock: Callable[[], float], owned: OwnedQueue, now: float) -> Awaitable[None] | None:
        call, batch_size = self._listeners.get(owned.queue.topic), self.options.consume_batch
        if call is not None and call.is_async and owned.process_queue.can_run():
            outcome = run_listener(call, self._listen, owned, batch_size, clock, self.config.clock_ms())
            return None if outcome is None else self._finish(owned, *outcome)
        messages = tuple(owned.process_queue.next_batch(batch_size, now))
        return self._consume(owned, messages) if messages else None

    async def _consume(self, owned: OwnedQueue, messages: Messages) -> None:
        owned.dispatch_counts.add(messages, self.config.clock_ms())
        await self._finish(owned, messages, await self._listen(messages))

    async def _finish(self, owned: OwnedQueue, messages: Messages, result: Result | PendingCall) -> None:
        settled = await result if isinstance(result, CoroutineType) else cast(Result, result)
        assert self._service is not None, "messages are consumed after the start"
        if owned.detached:
            self._late_results += len(messages)
            owned.process_queue.finish(messages)  # not committed, but a reset waits until listeners are done
        else:
            await self._service.handle_result(owned, messages, settled)
        owned.notify_progress()

    def _consume_service(self, instance: ClientInstance, pool: WorkerPool) -> ConsumeConcurrently | ConsumeOrderly:
        options = self.options
        send_back = SendBackRequests(instance, self.group, options.max_attempts, options.retry_delay_ms)
        broadcasting = options.model is MessageModel.BROADCASTING

        def max_attempts(broker_name: str) -> int:
            return instance.max_attempts(self.group, broker_name, options.max_attempts)

        if options.order == ConsumeOrder.NONE:
            failed: FailureHandler = retry_locally(max_attempts) if broadcasting else send_back
            return ConsumeConcurrently(pool, failed, options.consume_retry_s, waits_here=broadcasting)
        return ConsumeOrderly(
            pool,
            log_exhausted if broadcasting else send_back.send_to_dlq,
            max_attempts=max_attempts,
            suspend_s=options.suspend_s,
            auto_commit=options.auto_commit,
        )

    def _listener_of(self, message: MessageExt) -> ListenerCall | None:
        # A message of the retry topic belongs to the listener of the topic that it was sent to. In other topics the
        # original topic of a message is not used: its producer wrote it, and may have no right to that topic.
        stored_in = message.queue.topic
        return self._listeners.get(message.topic if is_retry_topic(stored_in) else stored_in)
