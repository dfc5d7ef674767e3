"""The pop loop of a push consumer: requests messages of one topic from one broker, again and again.

The broker holds a request while it has no message (long polling). Each answer goes to a callback. While too many of its
messages are unfinished the loop waits, so that other members can get the rest.

RocketMQ: DefaultMQPushConsumerImpl.popMessage, PopMessageService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import anyio

from client.pop.message import PopMessage
from client.pop.requests import PopRequests
from client.rebalance.ownership import MemberContext
from model.errors import NetworkError, NoPermission, NotMaster, RequestCodeNotSupported, RlabError
from model.limits import MAX_POP_BATCH, PULL_RETRY_ERROR_S, PULL_SUSPEND_S
from model.message_queue import MessageQueue
from model.record import RecordCorrupt
from model.subscription import SubscriptionData

logger = logging.getLogger(__name__)


class PopLoop:
    """Pops one topic of one broker until it is stopped; `queue` is one queue of it, or `ANY_QUEUE`.

    It waits while `max_unacked` of its messages are unfinished. `arrived` is called with this loop, the messages, and
    the loop time of their request.
    """

    def __init__(
        self,
        context: MemberContext,
        requests: PopRequests,
        queue: MessageQueue,
        arrived: Callable[[PopLoop, list[PopMessage], float], None],
    ) -> None:
        invisible_s, self._max_unfinished = context.options.invisible_s, context.options.max_unacked
        self.queue = queue
        self.unfinished = 0  # messages from here; its owner adds to it, and calls `finished` for each
        self.stopping = False
        self.suspended = False
        self.scope = anyio.CancelScope()  # cancelled to end the loop at once
        self._instance = context.instance
        self._group = context.group
        self._requests = requests
        self._subscription_of = context.subscription_of
        self._arrived = arrived
        self._invisible_ms = int(invisible_s * 1000)
        # The travel time of an answer is unknown, but a message is certainly still invisible if its request was sent
        # less than the invisible time ago. So a request must not be held for most of that time.
        self._suspend_ms = int(min(PULL_SUSPEND_S, invisible_s / 2) * 1000)
        # At least half a batch: requests for single messages would cost one request each.
        self._least_room = max(1, min(MAX_POP_BATCH, self._max_unfinished) // 2)
        self._progress: asyncio.Future[None] | None = None

    def stop(self) -> None:
        """Send no more requests. Messages of an outstanding request still go to `arrived`, which has to return them.

        The request is not cancelled: messages that the broker has already sent would stay invisible until their time
        ends.
        """
        self.stopping = True
        self._wake()

    def set_suspended(self, suspended: bool) -> None:
        """Send no more requests, or go on. As after `stop`, messages of an outstanding one are to be returned."""
        self.suspended = suspended
        self._wake()

    def finished(self) -> None:
        """Count a message from here as finished."""
        self.unfinished -= 1
        if self._progress is not None and self._room >= self._least_room:
            self._wake()

    @property
    def _room(self) -> int:
        return self._max_unfinished - self.unfinished

    async def run(self) -> None:
        """Run until `stop`. Cancellation: messages of an outstanding request are redelivered when their time ends."""
        with self.scope:
            while not self.stopping:
                subscription = self._subscription_of(self.queue.topic)
                if subscription is None:
                    await anyio.sleep(PULL_RETRY_ERROR_S)  # unsubscribed; the next pass stops this loop
                elif self.suspended or self._room < self._least_room:
                    self._progress = asyncio.get_running_loop().create_future()
                    await self._progress
                else:
                    await self._pop(subscription)
        self._instance.refusals.discard(self._instance.client_id, self._group, self.queue)

    async def _pop(self, subscription: SubscriptionData) -> None:
        instance, queue = self._instance, self.queue
        sent_at = asyncio.get_running_loop().time()
        try:
            messages = await self._requests.pop(
                queue.broker_name,
                subscription,
                queue_id=queue.queue_id,
                max_n=min(MAX_POP_BATCH, self._room),
                invisible_ms=self._invisible_ms,
                suspend_ms=self._suspend_ms,
            )
        except (NetworkError, NotMaster, RecordCorrupt) as error:
            logger.debug("%s: pop of %s on %s: %s", instance.client_id, queue.topic, queue.broker_name, error)
            if not self.stopping:
                await instance.pause(queue.broker_name)
        except (NoPermission, RequestCodeNotSupported) as error:
            reason = subscription.explained(error, queue.broker_name)
            instance.refusals.add(instance.client_id, self._group, queue, reason)
            await anyio.sleep(PULL_RETRY_ERROR_S)
        except RlabError as error:
            # A deleted topic, which the next route shows; or a broker that is busy, stopping, or out of disk.
            logger.warning("%s: pop of %s on %s: %s", instance.client_id, queue.topic, queue.broker_name, error)
            await anyio.sleep(PULL_RETRY_ERROR_S)
        else:
            if instance.refusals.refused:
                instance.refusals.discard(instance.client_id, self._group, queue)
            if messages:
                self._arrived(self, messages, sent_at)

    def _wake(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)
        self._progress = None
