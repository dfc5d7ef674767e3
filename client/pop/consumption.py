"""PopConsumption: pops messages for a push consumer in mode pop, dispatches them to listeners, acknowledges them.

RocketMQ: RebalanceImpl.updateMessageQueueAssignment, ConsumeMessagePopConcurrentlyService. It takes the place of
`client/rebalance/leased_queues.py`, which owns whole queues. A message passes through

    popped    invisible to all other consumers; the time is extended while the message waits or a listener has it
    success   acknowledged, together with the others of the same event-loop iteration
    failure   invisible for the retry delay, then redelivered from its own queue, to any member
    late      its handle died and another consumer may have the message; the listener's result is ignored and counted

A pass only finds the brokers that serve the topics: there is no target to converge to.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import anyio

from client.instance.schedule import RebalancePass
from client.listeners.failed import FAILED, Failed
from client.listeners.listener import ConsumeResult, Messages, Result
from client.listeners.send_back import SendBackRequests
from client.listeners.worker_pool import WorkerPool
from client.options import ConsumeOrder
from client.pop.intake import PopIntake
from client.pop.loop import PopLoop
from client.pop.message import PopMessage, handle_of
from client.pop.process_queue import PoppedRecord, PopProcessQueue, apply_renewal, retry_renewal
from client.pop.requests import targets_to_pop
from client.rebalance.ownership import MemberContext
from model.errors import ReceiptHandleDead, RlabError
from model.limits import MAX_INVISIBLE_MS, MIN_SUSPEND_S
from model.message import MessageExt, retry_delay_ms
from model.message_queue import MessageQueue
from remoting.deadline_driver import DeadlineDriver

logger = logging.getLogger(__name__)

_DONE = (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)


class PopConsumption(PopIntake):
    """See the module header; `listen` calls the listener of messages, on the workers of `pool`."""

    def __init__(self, context: MemberContext, listen: Callable[[Messages], Awaitable[Result]]) -> None:
        options = self._options = context.options
        self._in_order = options.order != ConsumeOrder.NONE
        super().__init__(context, order=self._in_order, retry_s=options.invisible_s)
        self.pool = WorkerPool(self._consume, max_workers=options.max_workers, batch_size=options.consume_batch)
        self._listen = listen
        self._send_back = SendBackRequests(
            context.instance, context.group, options.max_attempts, options.retry_delay_ms
        )
        self._loops: dict[MessageQueue, PopLoop] = {}
        self._running: dict[PopLoop, None] = {}  # also stopped ones, until their last request is answered
        self._queues: dict[MessageQueue, PopProcessQueue] = {}
        self._progress = anyio.Event()
        self._closing = False
        self._suspended = False
        self._driver = DeadlineDriver(self._next_renewal, self._renew)
        context.background.start_soon(self._driver.run)
        self.pool.start(context.background)

    @property
    def unfinished(self) -> int:
        """Messages that wait or that listeners have."""
        return sum(len(queue) for queue in self._queues.values())

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """Pop the topics on every broker that has them, and no others. See `QueueOwnership.rebalance`."""
        self.pop_from(targets_to_pop(self._context.instance.routes, topics))
        return True

    def pop_from(self, queues: Collection[MessageQueue]) -> None:
        """Pop exactly these from now on; the id `ANY_QUEUE` is for all queues of a topic on a broker."""
        if self._closing:
            return
        for queue in [queue for queue in self._loops if queue not in queues]:
            self._loops.pop(queue).stop()
        for queue in queues:
            if queue not in self._loops:
                loop = self._loops[queue] = PopLoop(self._context, self.requests, queue, self._arrived)
                loop.set_suspended(self._suspended)
                self.start(self._run, loop)
        for queue in [queue for queue, popped in self._queues.items() if not popped and not popped.offered]:
            del self._queues[queue]

    def set_suspended(self, suspended: bool) -> None:
        """Pop and dispatch nothing more, or go on.

        Messages popped before wait here, invisible to others: returned each time, a message would reach its limit of
        attempts without a single call of a listener. Messages that an outstanding request brings are returned.
        """
        self._suspended = suspended
        self.pool.set_suspended(suspended)
        for loop in self._loops.values():
            loop.set_suspended(suspended)

    async def _run(self, loop: PopLoop) -> None:
        self._running[loop] = None
        try:
            await loop.run()
        finally:
            del self._running[loop]

    def _arrived(self, loop: PopLoop, messages: list[PopMessage], sent_at: float) -> None:
        invisible_s = self._options.invisible_s
        matching = None if loop.stopping or loop.suspended else self.matching(loop.queue.topic, messages)
        if matching is None:
            for message in messages:
                self.change_invisible(message, 0, sent_at + invisible_s)
            return
        by_queue: dict[MessageQueue, list[PopMessage]] = {}
        for message in matching:
            by_queue.setdefault(message.queue, []).append(message)
        for queue, of_queue in by_queue.items():
            popped = self._queues.get(queue)
            if popped is None:
                popped = self._queues[queue] = PopProcessQueue(queue, in_order=self._in_order)
            loop.unfinished += len(of_queue)
            popped.put(of_queue, sent_at, invisible_s, loop.finished)
            self.pool.offer(popped)
            self._driver.wake_by(popped.next_deadline())

    # --- listeners ---------------------------------------------------------------------------------------------------

    async def _consume(self, queue: PopProcessQueue, messages: Messages) -> None:
        result = await self._listen(messages)
        if result in _DONE:
            self._end(queue, messages, self._acknowledge)
            return
        failure = result if isinstance(result, Failed) else FAILED
        succeeded, failed = failure.split(messages)
        self._end(queue, succeeded, self._acknowledge)
        if self._in_order:
            await self._failed_in_order(queue, failed, failure)
        else:
            await self._failed(queue, failed, failure)

    async def _failed(self, queue: PopProcessQueue, messages: Sequence[MessageExt], failure: Failed) -> None:
        for message in messages:
            if failure.dead_letter and await self._send_back.send_to_dlq(message):
                self._end(queue, [message], self._acknowledge)
            else:
                self._end(queue, [message], partial(self._retry_later, failure))

    def _end(self, queue: PopProcessQueue, messages: Sequence[MessageExt], act: Callable[[PoppedRecord], None]) -> None:
        ended_records = queue.end(messages)
        self._late += len(messages) - len(ended_records)
        for popped in ended_records:
            if popped.busy:
                popped.then = partial(act, popped)  # the answer of its renewal has the only valid handle
            else:
                act(popped)
        if self._closing:
            self._progress.set()

    def _acknowledge(self, popped: PoppedRecord) -> None:
        self.acks.add(handle_of(popped.message))

    def _max_attempts(self, message: MessageExt) -> int:
        context = self._context
        return context.instance.max_attempts(context.group, message.queue.broker_name, self._options.max_attempts)

    def _retry_later(self, failure: Failed, popped: PoppedRecord) -> None:
        message, options, failed_attempts = popped.message, self._options, 0
        if message.attempts > self._max_attempts(message):
            delay_ms = 0  # the broker sends it to the DLQ, which need not wait
        elif failure.retry_after_s is not None:
            delay_ms = round(failure.retry_after_s * 1000)
        elif options.retry_delay_ms is not None:
            delay_ms = options.retry_delay_ms
        else:
            delay_ms, failed_attempts = retry_delay_ms(message.times_delivered), message.attempts
        self.change_invisible(message, min(delay_ms, MAX_INVISIBLE_MS), popped.expires_at, failed_attempts)

    async def _failed_in_order(self, queue: PopProcessQueue, messages: Sequence[MessageExt], failure: Failed) -> None:
        """Retry here: if it were returned to the broker, the messages after it would be redelivered with it.

        Their attempt counters would then rise as well.
        """
        to_retry = []
        for message in messages:
            # All behind it wait for the DLQ: they must not overtake a message that no broker has stored.
            is_dead = failure.dead_letter or message.times_delivered >= self._max_attempts(message)
            if is_dead and await self._send_back.send_to_dlq(message):
                self._end(queue, [message], self._acknowledge)
            else:
                to_retry.append(message)
        if to_retry:
            not_before = anyio.current_time() + max(failure.wait_s(self._options.suspend_s), MIN_SUSPEND_S)
            queue.requeue(to_retry, not_before)
            self.pool.retry_at(queue, not_before)
            if self._closing:
                self._progress.set()

    # --- invisible time ----------------------------------------------------------------------------------------------

    def _next_renewal(self) -> float | None:
        deadlines = [queue.next_deadline() for queue in self._queues.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _renew(self, now: float) -> None:
        for queue in self._queues.values():
            for popped in queue.due(now):
                self.start(self._renew_one, queue, popped)

    async def _renew_one(self, queue: PopProcessQueue, popped: PoppedRecord) -> None:
        client_id, message, sent_at = self._context.instance.client_id, popped.message, anyio.current_time()
        invisible_s = self._options.invisible_s
        try:
            token, visible_ms = await self.requests.change_invisible(*handle_of(message), int(invisible_s * 1000))
        except ReceiptHandleDead:
            logger.info("%s: %r has been delivered to another consumer", client_id, message)
            if not queue.lost(popped) and popped.then is not None:
                self._late += 1
                popped.then = None
        except RlabError as error:
            logger.warning("%s: invisible time of %r could not be extended: %s", client_id, message, error)
            retry_renewal(popped, anyio.current_time())
        else:
            apply_renewal(popped, token, visible_ms, sent_at, invisible_s)
        if popped.then is not None:
            popped.then()
        if self._closing:
            self._progress.set()
        self._driver.wake_by(queue.next_deadline())

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self, cause: str) -> None:
        """Leave: pop no more, wait for listeners, acknowledge, and return all other messages to the broker.

        Cancellation: messages that are not returned are redelivered when their time ends.
        """
        self._closing = True
        for loop in self._loops.values():
            loop.stop()
        self._loops.clear()
        for queue in self._queues.values():
            self._return(queue.remove_all(dispatched=False))
        await self.leave(cause)
        with anyio.move_on_after(self._options.shutdown_grace_s):
            while any(queue.in_flight for queue in self._queues.values()):
                self._progress = anyio.Event()
                await self._progress.wait()
        for queue in self._queues.values():
            self._return(queue.remove_all(dispatched=True))  # a later result of their listeners is late
        with anyio.move_on_after(self._context.instance.config.request_timeout_s):
            await self.wait_idle()
        for loop in self._running:
            loop.scope.cancel()

    def _return(self, records: list[PoppedRecord]) -> None:
        for popped in records:
            give_back = partial(self.change_invisible, popped.message, 0, popped.expires_at)
            if popped.busy:
                popped.then = give_back
            else:
                give_back()
