"""The requests of POP: take messages for a time, acknowledge them, change how long they stay invisible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgpack

from client.decode import decode_as
from client.instance import ClientInstance
from client.pop_message import PopMessage, popped_of
from model.errors import PullNotFound
from model.heartbeat import ConsumeFrom
from model.limits import CONNECT_TIMEOUT_S, PULL_TIMEOUT_S
from model.message_queue import MessageQueue
from model.record import RecordCorrupt
from model.subscription import SubscriptionData
from remoting.client import raise_for_code
from remoting.command import Command
from remoting.request_code import RequestCode

ANY_QUEUE = -1
"""Queue id of a pop that takes whatever queue of the broker has messages."""

Acked = Mapping[tuple[str, int, int], Sequence[int]]
"""(topic, queue id, token) -> offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopOptions:
    """What every pop of a consumer says.

    Attributes:
        consume_from, consume_timestamp_ms: where a group without commits begins.
        order: only queues of which the group has nothing in flight.
        max_attempts: deliveries after which the broker makes a message a dead letter; None for its default.
    """

    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    consume_timestamp_ms: int = 0
    order: bool = False
    max_attempts: int | None = None


class PopRequests:
    """The requests of one group.

    Args:
        instance: the client instance.
        group: the group.
        options: what every pop says.
    """

    def __init__(self, instance: ClientInstance, group: str, options: PopOptions) -> None:
        self._instance = instance
        self._group = group
        self._options = options

    async def pop(
        self,
        broker_name: str,
        subscription: SubscriptionData,
        *,
        max_n: int,
        invisible_ms: int,
        suspend_ms: int,
        queue_id: int = ANY_QUEUE,
    ) -> list[PopMessage]:
        """Take messages of a topic from one broker.

        Args:
            broker_name: which.
            subscription: the topic, and which tags of it.
            max_n: messages at the most.
            invisible_ms: how long nobody else gets them.
            suspend_ms: how long the broker may wait for some.
            queue_id: one queue of the topic, or `ANY_QUEUE`.

        Returns:
            The messages, those of a queue together in offset order; none if nothing came.

        Raises:
            NetworkError: the broker may have given messages away that did not arrive; they come again once their
                invisible time is over.
            RlabError: the broker refused.
            RecordCorrupt: the answer is damaged.

        Cancellation: as for a network error.
        """
        header: dict[str, Any] = {
            "group": self._group,
            "topic": subscription.topic,
            "queue_id": queue_id,
            "client_id": self._instance.client_id,
            "max_n": max_n,
            "invisible_ms": invisible_ms,
            "suspend_ms": suspend_ms,
            "consume_from": self._options.consume_from.value,
        }
        if self._options.consume_from is ConsumeFrom.TIMESTAMP:
            header["consume_timestamp_ms"] = self._options.consume_timestamp_ms
        if subscription.tag_hashes is not None:
            header["tag_hashes"] = list(subscription.tag_hashes)
        if self._options.order:
            header["order"] = True
        if self._options.max_attempts is not None:
            header["max_attempts"] = self._options.max_attempts
        timeout_s = suspend_ms / 1000 + PULL_TIMEOUT_S / 2
        try:
            answer = await self._request(broker_name, RequestCode.POP_MESSAGE, header, None, timeout_s)
        except PullNotFound:
            return []
        return decode_batches(broker_name, answer.body or b"")

    async def ack(self, broker_name: str, acked: Acked) -> list[tuple[str, int, int]]:
        """End messages on one broker.

        Args:
            broker_name: which.
            acked: the handles.

        Returns:
            The dead ones: (topic, queue id, offset). All others are done with, durably.

        Raises:
            RlabError: nothing is known of any of them if it is not `definite`.

        Cancellation: they may be done with.
        """
        body = msgpack.packb([[*key, offsets] for key, offsets in acked.items()])
        header = {"group": self._group, "client_id": self._instance.client_id}
        timeout_s = self._instance.config.request_timeout_s
        answer = await self._request(broker_name, RequestCode.BATCH_ACK_MESSAGE, header, body, timeout_s)
        return [(dead[0], dead[1], dead[2]) for dead in cast("list[Any]", msgpack.unpackb(answer.body or b"\x90"))]

    async def change_invisible(
        self, queue: MessageQueue, offset: int, token: int, invisible_ms: int
    ) -> tuple[int, int]:
        """Let one message stay invisible for so long from now on; 0 gives it back at once.

        Returns:
            Token of the new handle, and when the message comes again in wall clock ms.

        Raises:
            ReceiptHandleDead: it was acknowledged or delivered again before.
            RlabError: the old handle may be dead and the new one unknown if it is not `definite`.

        Cancellation: the same.
        """
        header = {
            "group": self._group,
            "topic": queue.topic,
            "queue_id": queue.queue_id,
            "client_id": self._instance.client_id,
            "offset": offset,
            "token": token,
            "invisible_ms": invisible_ms,
        }
        timeout_s = self._instance.config.request_timeout_s
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        answer = await self._request(queue.broker_name, code, header, None, timeout_s)
        return answer.header["token"], answer.header["visible_ms"]

    async def _request(
        self, broker_name: str, code: RequestCode, header: dict[str, Any], body: bytes | None, timeout_s: float
    ) -> Command:
        instance = self._instance
        connection = instance.masters.get(broker_name)
        if connection is None or not connection.ready:
            connection = await instance.connect_master(broker_name, CONNECT_TIMEOUT_S)
            await connection.wait_writable()
        return raise_for_code(await connection.request(code, header, body, timeout_s))


def decode_batches(broker_name: str, body: bytes) -> list[PopMessage]:
    """Decode the answer of a pop.

    Args:
        broker_name: who answered.
        body: msgpack array of batches [topic, queue id, token, visible ms, [attempts, ...], records].

    Returns:
        The messages, in the order of the answer.

    Raises:
        RecordCorrupt: it is something else.
    """
    messages: list[PopMessage] = []
    try:
        for topic, queue_id, token, visible_ms, attempts, records in cast("list[Any]", msgpack.unpackb(body)):
            decoded = decode_as(PopMessage, MessageQueue(topic, broker_name, queue_id), records)
            for message, attempt in zip(decoded, attempts, strict=True):
                if attempt - 1 == message.times_delivered:
                    message.token, message.visible_ms = token, visible_ms
                    messages.append(message)
                else:
                    messages.append(popped_of(message, attempt - 1, token, visible_ms))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RecordCorrupt(f"what {broker_name} answered to a pop is not whole batches ({error})") from error
    return messages
