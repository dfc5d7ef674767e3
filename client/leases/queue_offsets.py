"""Requests offsets of queues from their brokers: the first, the end, the first at a time, and the committed one."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from client.instance.instance import ClientInstance
from model.errors import QueryNotFound
from model.message_queue import MessageQueue
from model.topic_incarnation import TopicIncarnation
from remoting.request_code import RequestCode


class TopicAnswer(NamedTuple):
    """A topic at a broker that has answered."""

    incarnation: TopicIncarnation | None  # None from servers of RocketMQ
    clock_ms: float | None
    """The wall clock of the broker less our loop time, as `WantedTopic.since` needs it; None of an earlier version."""


class QueueOffsets:
    """Questions about the offsets of one queue each. RocketMQ: MQAdminImpl.

    Every question may raise NetworkError (its broker does not answer) and TopicNotExist or InvalidParameter (there is
    no such queue). Cancellation: harmless.
    """

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

    async def query_topic(self, queue: MessageQueue) -> TopicAnswer:
        """The incarnation of the queue's topic at its broker, and the time there."""
        header = await self._answer(RequestCode.GET_MAX_OFFSET, queue)
        loop_ms = asyncio.get_running_loop().time() * 1000
        now_ms = header.get("now_ms")
        return TopicAnswer(TopicIncarnation.from_header(header), None if now_ms is None else now_ms - loop_ms)

    async def first(self, queue: MessageQueue) -> int:
        """The lowest offset that the queue still holds."""
        return await self._ask(RequestCode.GET_MIN_OFFSET, queue)

    async def end(self, queue: MessageQueue) -> int:
        """The offset that the next message of the queue gets."""
        return await self._ask(RequestCode.GET_MAX_OFFSET, queue)

    async def at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at or after a time, wall clock in milliseconds; the end if there is none."""
        return await self._ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, timestamp_ms=timestamp_ms)

    async def committed(self, queue: MessageQueue, group: str) -> int | None:
        """The committed offset of a group; None if it has committed none."""
        try:
            return await self._ask(RequestCode.QUERY_CONSUMER_OFFSET, queue, group=group)
        except QueryNotFound:
            return None

    async def _ask(self, code: RequestCode, queue: MessageQueue, **fields: object) -> int:
        offset = (await self._answer(code, queue, **fields))["offset"]
        assert isinstance(offset, int), "checked by the schema of the answer"
        return offset

    async def _answer(self, code: RequestCode, queue: MessageQueue, **fields: object) -> dict[str, Any]:
        instance = self._instance
        if instance.routes.address_of(queue.broker_name) is None:
            await instance.update_routes((queue.topic,))  # a topic that this client does not read otherwise
        header: dict[str, object] = {"topic": queue.topic, "queue_id": queue.queue_id, **fields}
        return (await instance.request_master(queue.broker_name, code, header, repeats=True)).header
