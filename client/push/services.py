"""Acts on the results of listeners: messages are finished, sent back, requeued, or sent to the DLQ.

RocketMQ: ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from client.listeners.failed import FAILED, Failed
from client.listeners.listener import ConsumeResult, Result
from client.listeners.worker_pool import WorkerPool
from client.pull.ordered_process_queue import OrderedProcessQueue
from client.pull.owned_queue import OwnedQueue
from model.limits import MIN_SUSPEND_S
from model.message import MessageExt

logger = logging.getLogger(__name__)

MaxAttempts = Callable[[str], int]
"""Broker name -> retries of a failed message of that broker."""

FailureHandler = Callable[[MessageExt, Failed], Awaitable[bool]]
"""Takes a failed message; returns whether it did, or it is requeued. Cancellation: the message may be redelivered."""


async def log_exhausted(message: MessageExt) -> bool:
    """Log a message whose attempts are exhausted, in BROADCASTING: a single member has no DLQ."""
    logger.error("%r failed %d times and is passed over", message, message.times_delivered + 1)
    return True


def retry_locally(max_attempts: MaxAttempts) -> FailureHandler:
    """Make the handler of failed messages in BROADCASTING: it requeues each for `max_attempts` retries.

    The retry topic is read by one member only, so a broadcasting consumer retries locally. RocketMQ logs the message
    and drops it at its first failure. Here the committed offset waits for the retries, so they survive a restart.
    """

    async def handle(message: MessageExt, failure: Failed) -> bool:
        exhausted = failure.dead_letter or message.times_delivered >= max_attempts(message.queue.broker_name)
        return exhausted and await log_exhausted(message)

    return handle


class ConsumeConcurrently:
    """Consumes messages in any order. Those that `failed` does not take are requeued, and dispatched after `retry_s`.

    In CLUSTERING `failed` sends messages back to a broker, for the group's retry topic. If no broker takes one, its
    wait is `retry_s`, because a wait of hours would hold back the committed offset for hours. With `waits_here`,
    messages are always requeued here, and wait as long as their listener has decided.
    """

    def __init__(self, pool: WorkerPool, failed: FailureHandler, retry_s: float, *, waits_here: bool) -> None:
        self._pool = pool
        self._failed = failed
        self._retry_s = retry_s
        self._waits_here = waits_here

    async def handle_result(self, owned: OwnedQueue, messages: Sequence[MessageExt], result: Result) -> None:
        """Act on one result, of a batch of a queue that is not detached.

        Everything but SUCCESS, COMMIT and the processed part of a `Failed` is a failure: there is no order to wait in.

        Cancellation: messages that are not processed yet are redelivered, here or to the next owner.
        """
        if result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT):
            owned.process_queue.finish(messages)
            return
        failure = result if isinstance(result, Failed) else FAILED
        succeeded, failed = failure.split(messages)
        owned.process_queue.finish(succeeded)
        wait_s = failure.wait_s(self._retry_s) if self._waits_here else self._retry_s
        for message in failed:
            if await self._failed(message, failure):
                owned.process_queue.finish([message])
            else:
                not_before = anyio.current_time() + wait_s
                owned.process_queue.requeue([message], not_before)
                self._pool.retry_at(owned, not_before)


class ConsumeOrderly:
    """Messages of a lane one after the other. A failed one is retried in its place, and its lane waits for it.

    RocketMQ lets a message that always fails block its queue for ever (by default its attempts are unlimited). Here it
    is sent to the DLQ after `max_attempts`, as everywhere else, and its lane goes on.

    Without `auto_commit`, a message that is a SUCCESS waits for a COMMIT in its lane.
    """

    def __init__(
        self,
        pool: WorkerPool,
        exhausted: Callable[[MessageExt], Awaitable[bool]],
        *,
        max_attempts: MaxAttempts,
        suspend_s: float,
        auto_commit: bool,
    ) -> None:
        self._pool = pool
        self._exhausted = exhausted
        self._max_attempts = max_attempts
        self._suspend_s = suspend_s
        self._auto_commit = auto_commit

    async def handle_result(self, owned: OwnedQueue, messages: Sequence[MessageExt], result: Result) -> None:
        """See `ConsumeConcurrently.handle_result`.

        ROLLBACK with automatic commit requeues the batch. RocketMQ warns and commits it, which loses messages that the
        listener wanted back.
        """
        queue = owned.process_queue
        assert isinstance(queue, OrderedProcessQueue), "an orderly consumer has ordered process queues"
        if self._auto_commit and result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT):
            queue.finish(messages)
        elif result is ConsumeResult.SUCCESS:
            queue.hold(messages)
        elif result is ConsumeResult.COMMIT:
            queue.hold(messages)
            queue.finish_held(messages[0])
        elif result is ConsumeResult.ROLLBACK:
            queue.hold(messages)
            queue.roll_back(messages[0], self._suspended_until(owned, FAILED))
        else:
            failure = result if isinstance(result, Failed) else FAILED
            succeeded, failed = failure.split(messages)
            if self._auto_commit:
                queue.finish(succeeded)
            else:
                queue.hold(succeeded)
            await self._failed(owned, queue, failed, failure)

    async def _failed(
        self, owned: OwnedQueue, queue: OrderedProcessQueue, messages: Sequence[MessageExt], failure: Failed
    ) -> None:
        to_retry: list[MessageExt] = []
        max_attempts = self._max_attempts(owned.queue.broker_name)
        for message in messages:
            if not failure.dead_letter and message.times_delivered < max_attempts:
                to_retry.append(message)
            # The lane is suspended until then: later messages must not overtake one that no broker has taken.
            elif await self._exhausted(message):
                queue.finish([message])
            else:
                to_retry.append(message)
        if to_retry:  # also of a queue that was detached in between: its drain waits for these
            queue.requeue(to_retry, self._suspended_until(owned, failure))

    def _suspended_until(self, owned: OwnedQueue, failure: Failed) -> float:
        not_before = anyio.current_time() + max(failure.wait_s(self._suspend_s), MIN_SUSPEND_S)
        self._pool.retry_at(owned, not_before)
        return not_before
