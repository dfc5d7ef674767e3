"""The common part of both POP consumers: drops unwanted tags, acknowledges, and returns messages to their brokers.

A push consumer pops in loops, and the results of its listeners decide about the messages (`consumption.py`). A
`PopConsumer` pops when its user calls `receive`, and the user decides (`receiver.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import anyio

from client.pop.acks import PopAcks
from client.pop.message import Handle, PopMessage, handle_of
from client.pop.requests import PopRequests
from client.pull.owned_queue import OwnedQueue
from client.rebalance.ownership import MemberContext
from model.errors import ReceiptHandleDead, RlabError
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class PopIntake:
    """A `QueueOwnership` without queues: `owned` and `topics_of_others` stay empty.

    With `order`, a queue delivers only while none of its messages is invisible. An acknowledgement is repeated for
    `retry_s` to a broker that does not answer; 0 for never.
    """

    def __init__(self, context: MemberContext, *, order: bool, retry_s: float) -> None:
        self.owned: dict[MessageQueue, OwnedQueue] = {}
        self.topics_of_others: tuple[str, ...] = ()
        # Not acknowledged, it would be redelivered, undecodable each time, until it is a dead letter.
        self.requests = PopRequests(context.instance, context.group, context.options, self._pass_over, order=order)
        self.acks = PopAcks(context.instance, self.requests, context.background, retry_s)
        self._context = context
        self._late = 0
        self._outstanding = 0
        self._idle = anyio.Event()

    def _pass_over(self, handle: Handle) -> None:
        self.acks.add(handle)

    @property
    def late(self) -> int:
        """Results that came after the handle of their message had died."""
        return self._late + self.acks.late

    def matching(self, topic: str, messages: list[PopMessage]) -> list[PopMessage] | None:
        """The popped messages that the subscription of this topic names; None if the topic is no longer subscribed to.

        Brokers compare the hashes of tags, and two tags may have one hash: other messages are acknowledged here.
        """
        subscription = self._context.subscription_of(topic)
        if subscription is None:
            return None
        tags = subscription.tags
        if tags is None:
            return messages
        matching = []
        for message in messages:
            if message.queue.topic == topic and message.tags not in tags:
                self.acks.add(handle_of(message))
            else:
                matching.append(message)
        return matching

    def start(self, work: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        """Run a coroutine function in the background, for which `wait_idle` waits; not after the consumer's end."""
        if self._context.background.running:
            self._outstanding += 1
            self._context.background.start_soon(self._count, work, args)

    async def _count(self, work: Callable[..., Coroutine[Any, Any, None]], args: tuple[object, ...]) -> None:
        try:
            await work(*args)
        finally:
            self._outstanding -= 1
            if not self._outstanding:
                self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until everything that was started has ended, and all acknowledgements. Cancellation: harmless."""
        while self._outstanding:
            self._idle = anyio.Event()
            await self._idle.wait()
        await self.acks.wait_idle()

    def change_invisible(
        self, message: PopMessage, invisible_ms: int, until: float = 0.0, failed_attempts: int = 0
    ) -> None:
        """Set the invisible time of a message that this consumer has removed; 0 returns it to the broker.

        A broker that does not answer is asked again until this loop time. If it never does, the message is redelivered
        when its time ends. `failed_attempts` is as of `PopRequests.change_invisible`.
        """
        self.start(self._change_invisible, message, invisible_ms, until, failed_attempts)

    async def _change_invisible(
        self, message: PopMessage, invisible_ms: int, until: float, failed_attempts: int
    ) -> None:
        instance, may_have_been_executed = self._context.instance, False
        while True:
            try:
                await self.requests.change_invisible(*handle_of(message), invisible_ms, failed_attempts)
            except ReceiptHandleDead:
                self._late += not may_have_been_executed
                return
            except RlabError as error:
                logger.debug("%s: invisible time of %r not changed: %s", instance.client_id, message, error)
                may_have_been_executed = may_have_been_executed or not error.definite
                if not error.retryable or anyio.current_time() >= until:
                    return
            else:
                return
            await instance.pause(message.queue.broker_name)

    async def leave(self, cause: str) -> None:
        """Leave the group: brokers no longer deliver to this member, and answer the pops that they hold."""
        await self._context.instance.heartbeats.leave(self._context.group, cause)

    # --- QueueOwnership ----------------------------------------------------------------------------------------------

    async def persist(self) -> None:
        """Nothing: every acknowledgement is durable when it is answered."""

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Nothing: brokers invalidate the handles of messages that were popped before a reset."""
