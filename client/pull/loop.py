"""The pull loop of one owned queue: one pull after the other, until the queue is revoked or its lease is lost.

    wait while flow control pauses the queue
    pull, with the offset to commit                 the broker answers, or holds the pull until a message arrives
    put the messages into the process queue         and wake a worker

RocketMQ: DefaultMQPushConsumerImpl.pullMessage, PullMessageService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import anyio

from client.instance.events import QueueEvents, report_undecodable
from client.instance.instance import ClientInstance
from client.pull.owned_queue import OwnedQueue
from model.decode import Undecodable, decode_messages
from model.errors import (
    ConfigError,
    LeaseLost,
    NetworkError,
    NoPermission,
    NotAuthenticated,
    NotMaster,
    RequestCodeNotSupported,
    RlabError,
)
from model.events import EventKind
from model.limits import (
    CONNECT_TIMEOUT_S,
    MAX_PULL_BATCH,
    MAX_PULL_SUSPEND_S,
    PULL_GROWTH,
    PULL_RETRY_ERROR_S,
    PULL_SUSPEND_S,
)
from model.record import RecordCorrupt
from model.response_code import ResponseCode
from model.subscription import SubscriptionData
from model.topic_incarnation import TopicIncarnation
from remoting.client import raise_for_code
from remoting.command import Command
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)
_ANSWER_S = 10.0
"""Time for the answer after the end of the long poll; then the pull is sent again."""
PAUSE_LOGGED_S = 5.0
"""How long flow control has to pause a queue before the pause is logged."""

_FOUND = int(ResponseCode.SUCCESS)
_NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
_RETRY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullCallbacks:
    """The callbacks of a pull loop; `arrived` and `subscription_of` are those of `MemberContext`."""

    subscription_of: Callable[[str], SubscriptionData | None]
    arrived: Callable[[OwnedQueue], None]
    lost: Callable[[OwnedQueue], None]
    """The lease was granted to another member."""
    moved: Callable[[OwnedQueue, int], None]
    """The broker does not have the offset; called with the offset to go on from."""
    recreated: Callable[[OwnedQueue], None]
    """The topic was deleted and created again, or its broker has a new disk: the offsets of the queue mean nothing."""
    damaged: Callable[[OwnedQueue, int, int], None]
    """Called with how many messages before an offset the broker has lost, and with that offset."""


class PullLoop:
    """Pulls one queue until it is revoked."""

    def __init__(
        self, instance: ClientInstance, group: str, owned: OwnedQueue, batch_size: int, callbacks: PullCallbacks
    ) -> None:
        self._instance = instance
        self._group = group
        self._owned = owned
        self._batch_size = batch_size
        self._lagging = batch_size  # size of the next pull; it grows while answers are full
        self._asked = batch_size
        self._hold_s = PULL_SUSPEND_S  # how long the next pull may be held: longer while the queue stays empty
        self._callbacks = callbacks
        self._is_refused = False
        self._emit = QueueEvents(instance, group).emit

    async def run(self) -> None:
        """Run until the queue's scope is cancelled or the lease is lost.

        Cancellation: an outstanding pull is forgotten; its messages are pulled again by the next owner.
        """
        owned = self._owned
        with owned.pulling:
            while not owned.process_queue.dropped:
                subscription = self._callbacks.subscription_of(owned.queue.topic)
                if subscription is None:
                    # Unsubscribed: the tags to pull are not known. The next pass revokes the queue, unless the member
                    # subscribes to the topic again first.
                    await anyio.sleep(PULL_RETRY_ERROR_S)
                    continue
                if owned.paused:
                    await owned.wait_progress()
                    continue
                if owned.process_queue.flow_control_reason() is not None:
                    await self._wait_room()
                    continue
                try:
                    token = owned.token  # a pass may renew it while the pull is outstanding, see `_handle_refusal`
                    answer = await self._pull(subscription)
                    continues = answer is None or await self._handle_answer(answer, token, subscription)
                except (NetworkError, RecordCorrupt, NotAuthenticated, ConfigError) as error:
                    # The last two are of a new connection: a key or a certificate is being changed, here or there.
                    level = logging.DEBUG if isinstance(error, NetworkError) else logging.WARNING
                    logger.log(level, "%s: pull of %s: %s", self._instance.client_id, owned.queue, error)
                    owned.sent_commit = 0  # it may not have arrived
                    self._hold_s = PULL_SUSPEND_S
                    await self._instance.pause(owned.queue.broker_name)
                    continue
                if not continues:
                    break
        self._clear_refusal()

    async def _wait_room(self) -> None:
        """Wait for the end of flow control. A pause longer than 5 s is logged with the oldest unfinished message.

        A lag pauses every queue for a moment before each pull; that is not logged.
        """
        owned, process_queue = self._owned, self._owned.process_queue
        with anyio.move_on_after(PAUSE_LOGGED_S):
            while process_queue.flow_control_reason() is not None:
                await owned.wait_progress()
            return
        where = f"{self._instance.client_id}: group {self._group} on {owned.queue}"
        logger.info(
            "%s is not pulled: %s; %r is the oldest", where, process_queue.flow_control_reason(), process_queue.oldest()
        )
        while process_queue.flow_control_reason() is not None:
            await owned.wait_progress()
        logger.info("%s is pulled again", where)

    async def _pull(self, subscription: SubscriptionData) -> Command | None:
        """Pull by the subscription; None if that changed, or the queue was revoked, before the answer."""
        owned, instance = self._owned, self._instance
        queue = owned.queue
        self._asked = owned.process_queue.pull_size(self._batch_size, self._lagging)
        header: dict[str, object] = {
            "group": self._group,
            "topic": queue.topic,
            "queue_id": queue.queue_id,
            "offset": owned.process_queue.pull_offset,
            "max_n": self._asked,
            "suspend_ms": int(self._hold_s * 1000),
            "client_id": instance.client_id,
        }
        header |= subscription.to_header()
        connection = instance.masters.get(queue.broker_name)
        if connection is None or not connection.ready:
            connection = await instance.connect_master(queue.broker_name, CONNECT_TIMEOUT_S)
            await connection.wait_writable()
        if not owned.first_pull_seen:
            # When it is sent, not when it is answered: on a quiet queue that is only after the long poll.
            owned.first_pull_seen = True
            offset = owned.process_queue.pull_offset
            self._emit(EventKind.FIRST_PULL, queue, cause=owned.cause, version=owned.token, offset=offset)
        if owned.incarnation is not None:
            header |= owned.incarnation.to_header()
        if owned.token >= 0:
            # After the last wait: an offset that `next_commit` returns counts as sent, so it must leave now.
            header["token"] = owned.token
            if (commit := owned.next_commit()) is not None:
                header["commit"] = commit
        code = RequestCode.PULL_MESSAGE_BY_SQL if subscription.is_sql else RequestCode.PULL_MESSAGE
        answer = connection.request(code, header, None, self._hold_s + _ANSWER_S)
        owned.pending_pull = answer_future = cast("asyncio.Future[Command | None]", answer)
        try:
            return await answer_future
        finally:
            owned.pending_pull = None

    async def _handle_answer(self, response: Command, token: int, pulled_subscription: SubscriptionData) -> bool:
        """Handle the answer to a pull of this subscription under this token; returns whether the loop goes on."""
        owned, code = self._owned, response.code
        if owned.process_queue.dropped:
            # The queue was revoked after the answer had arrived and before this task ran, so that `stop` could not
            # cancel the pull. The messages belong to the next owner.
            return False
        if self._is_refused and code in (_FOUND, _NOT_FOUND, _RETRY, _MOVED):
            self._clear_refusal()
        subscription = self._callbacks.subscription_of(owned.queue.topic)
        if code in (_FOUND, _NOT_FOUND, _RETRY) and (
            subscription is None or subscription.wants != pulled_subscription.wants
        ):
            # The answer skips messages that match the new subscription: they are pulled again, by us or the next owner.
            return True
        if (damaged := response.header.get("damaged")) is not None:
            self._callbacks.damaged(owned, damaged, response.header["next_offset"])
        if code == _FOUND:
            self._put_messages(response, pulled_subscription.tags)
        elif code in (_NOT_FOUND, _RETRY):
            owned.process_queue.advance(response.header["next_offset"])
            if code == _NOT_FOUND:
                self._hold_s = min(self._hold_s + PULL_SUSPEND_S, MAX_PULL_SUSPEND_S)
        elif code == _MOVED and TopicIncarnation.from_header(response.header) is not None:
            self._callbacks.recreated(owned)
            return False
        elif code == _MOVED:
            self._callbacks.moved(owned, response.header["next_offset"])
        else:
            return await self._handle_refusal(response, token, pulled_subscription)
        return True

    def _put_messages(self, response: Command, tags: frozenset[str] | None) -> None:
        owned = self._owned
        self._hold_s = PULL_SUSPEND_S
        undecodable: list[Undecodable] = []
        messages = decode_messages(owned.queue, response.body or b"", undecodable)
        # A full answer shows that there is more: requests cost less per message if they bring many.
        max_batch = min(self._batch_size * PULL_GROWTH, MAX_PULL_BATCH)
        self._lagging = min(self._lagging * 2, max_batch) if len(messages) >= self._asked else self._batch_size
        if undecodable:
            # Skipped like messages of other tags: the committed offset passes them once all earlier messages are
            # finished.
            report_undecodable(self._instance, self._group, undecodable, owned.cause)
        if tags is not None:
            # The broker compares hashes; two tags may have the same one.
            messages = [message for message in messages if message.tags in tags]
        process_queue = owned.process_queue
        process_queue.put(messages)
        process_queue.advance(response.header["next_offset"])
        if messages and not owned.first_message_seen:
            owned.first_message_seen = True
            self._emit(
                EventKind.FIRST_MESSAGE, owned.queue, cause=owned.cause, version=owned.token, offset=messages[0].offset
            )
        self._callbacks.arrived(owned)

    def _clear_refusal(self) -> None:
        self._is_refused = False
        self._instance.refusals.discard(self._instance.client_id, self._group, self._owned.queue)

    async def _handle_refusal(self, response: Command, token: int, pulled_subscription: SubscriptionData) -> bool:
        owned = self._owned
        try:
            raise_for_code(response)
        except LeaseLost:
            if owned.token != token:
                # The broker freed the lease and granted it to us again while this pull was parked. To apply the answer
                # to the new lease would leave the broker with an owner that does not know of it.
                return True
            self._callbacks.lost(owned)
            return False
        except (NoPermission, RequestCodeNotSupported) as error:
            # An operator has disabled the group or the topic, or the broker is of a version without SQL filters. Pull
            # until that is over.
            self._is_refused = True
            reason = pulled_subscription.explained(error, owned.queue.broker_name)
            self._instance.refusals.add(self._instance.client_id, self._group, owned.queue, reason)
            await anyio.sleep(PULL_RETRY_ERROR_S)
        except NotMaster as error:
            logger.debug("%s: pull of %s: %s", self._instance.client_id, owned.queue, error)
            owned.sent_commit = 0  # the broker did not store it
            await self._instance.pause(owned.queue.broker_name)
        except RlabError as error:
            # The topic or the queue was deleted: the next route lacks it, and the pass after that revokes the queue.
            wait_s = self._instance.busy_wait_s(owned.queue.broker_name, error)
            if not wait_s:
                logger.warning("%s: pull of %s: %s", self._instance.client_id, owned.queue, error)
            await anyio.sleep(wait_s or PULL_RETRY_ERROR_S)
        return True
