"""What becomes of messages once a listener has answered: finished, sent back, put back in order, or dead.

RocketMQ: ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import anyio

from client.listeners.listener import ConsumeResult
from client.listeners.send_back import SendBack
from client.listeners.worker_pool import WorkerPool
from client.pull.ordered_process_queue import OrderedProcessQueue
from client.pull.owned_queue import OwnedQueue
from model.message import MessageExt

logger = logging.getLogger(__name__)


class ConsumeService(Protocol):
    """Acts on the answer of a listener."""

    async def settle(self, owned: OwnedQueue, messages: Sequence[MessageExt], result: ConsumeResult) -> None:
        """Act on one answer.

        Args:
            owned: the queue, not lost.
            messages: the batch.
            result: what the listener said of it.

        Cancellation: messages that are not settled come again, here or to the next owner.
        """
        ...


class LastResort(Protocol):
    """Where a message goes that has failed as often as it may."""

    async def bury(self, message: MessageExt) -> bool:
        """Take it, and say so in the log; returns whether it was taken. Cancellation: it may come again."""
        ...


class PassOver:
    """The last resort in BROADCASTING: there are no dead letters of one member, so all that is left is the log."""

    async def bury(self, message: MessageExt) -> bool:
        """See `LastResort`."""
        logger.error("%r failed %d times and is passed over", message, message.times_delivered + 1)
        return True


class ConsumeConcurrently:
    """Messages in any order. What fails goes back to a broker and comes again through the retry topic of the group.

    Args:
        pool: hands out again what no broker takes back.
        send_back: the way back to a broker.
        retry_s: wait before such a message is handed out again.
    """

    def __init__(self, pool: WorkerPool, send_back: SendBack, retry_s: float) -> None:
        self._pool = pool
        self._send_back = send_back
        self._retry_s = retry_s

    async def settle(self, owned: OwnedQueue, messages: Sequence[MessageExt], result: ConsumeResult) -> None:
        """See `ConsumeService`. Everything but SUCCESS and COMMIT is a failure: there is no order to wait in."""
        if result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT):
            owned.process_queue.finish(messages)
            return
        for message in messages:
            if await self._send_back(message):
                owned.process_queue.finish([message])
            else:
                not_before = anyio.current_time() + self._retry_s
                owned.process_queue.give_back([message], not_before)
                self._pool.retry_at(owned, not_before)


class ConsumeInPlace:
    """Messages in any order, in BROADCASTING. What fails stays here and is tried again here.

    For the retry topic of a group comes to one of its members, and this member's failure is nobody else's. RocketMQ
    logs the message and drops it at its first failure. Here that is the end after `max_attempts` retries; the commit
    point waits for them, so they survive a restart.

    Args:
        pool: hands out again what failed.
        last_resort: where a message goes that failed too often.
        max_attempts: retries after which it goes there.
        retry_s: wait before each of them.
    """

    def __init__(self, pool: WorkerPool, last_resort: LastResort, *, max_attempts: int, retry_s: float) -> None:
        self._pool = pool
        self._last_resort = last_resort
        self._max_attempts = max_attempts
        self._retry_s = retry_s

    async def settle(self, owned: OwnedQueue, messages: Sequence[MessageExt], result: ConsumeResult) -> None:
        """See `ConsumeService`. Everything but SUCCESS and COMMIT is a failure: there is no order to wait in."""
        if result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT):
            owned.process_queue.finish(messages)
            return
        for message in messages:
            if message.times_delivered >= self._max_attempts and await self._last_resort.bury(message):
                owned.process_queue.finish([message])
            else:
                not_before = anyio.current_time() + self._retry_s
                owned.process_queue.give_back([message], not_before)
                self._pool.retry_at(owned, not_before)


class ConsumeOrderly:
    """Messages of a lane one after the other. What fails is tried again where it stands, and its lane waits for it.

    RocketMQ lets a message that always fails block its queue for ever (its default is no limit of attempts). Here it
    becomes a dead letter after `max_attempts`, as everywhere else, and its lane goes on.

    Args:
        pool: hands out again what waits.
        last_resort: where a message goes that failed too often.
        max_attempts: retries after which it goes there.
        suspend_s: how long a lane stands still after a failure.
        auto_commit: whether SUCCESS ends a message; otherwise it waits for a COMMIT in its lane.
    """

    def __init__(
        self, pool: WorkerPool, last_resort: LastResort, *, max_attempts: int, suspend_s: float, auto_commit: bool
    ) -> None:
        self._pool = pool
        self._last_resort = last_resort
        self._max_attempts = max_attempts
        self._suspend_s = suspend_s
        self._auto_commit = auto_commit

    async def settle(self, owned: OwnedQueue, messages: Sequence[MessageExt], result: ConsumeResult) -> None:
        """See `ConsumeService`.

        ROLLBACK with automatic commit puts the batch back. RocketMQ warns and commits it, which loses what the
        listener did not want to be done.
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
            queue.roll_back(messages[0], self._suspended_until(owned))
        else:
            await self._failed(owned, queue, messages)

    async def _failed(self, owned: OwnedQueue, queue: OrderedProcessQueue, messages: Sequence[MessageExt]) -> None:
        dead = [message for message in messages if message.times_delivered >= self._max_attempts]
        again = [message for message in messages if message.times_delivered < self._max_attempts]
        for message in dead:
            # The lane stands still meanwhile: what follows must not overtake a message that no broker has taken.
            if await self._last_resort.bury(message):
                queue.finish([message])
            else:
                again.append(message)
        if again:  # also of a queue that was lost meanwhile: whoever waits for its listeners waits for these
            queue.give_back(again, self._suspended_until(owned))

    def _suspended_until(self, owned: OwnedQueue) -> float:
        not_before = anyio.current_time() + self._suspend_s
        self._pool.retry_at(owned, not_before)
        return not_before
