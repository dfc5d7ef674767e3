"""Asks brokers for offsets of their queues: the first, the end, that of a time, and the committed one of a group."""

from __future__ import annotations

from client.instance.instance import ClientInstance
from model.errors import QueryNotFound
from model.message_queue import MessageQueue
from remoting.request_code import RequestCode


class QueueOffsets:
    """Questions about the offsets of one queue each. RocketMQ: MQAdminImpl.

    Every question may raise NetworkError (its broker does not answer) and TopicNotExist or InvalidParameter (there is
    no such queue). Cancellation: harmless.
    """

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

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
        instance = self._instance
        if instance.routes.address_of(queue.broker_name, master_only=True) is None:
            await instance.update_routes((queue.topic,))  # a topic that this client does not read otherwise
        header: dict[str, object] = {"topic": queue.topic, "queue_id": queue.queue_id, **fields}
        offset = (await instance.request_master(queue.broker_name, code, header)).header["offset"]
        assert isinstance(offset, int), "checked by the schema of the answer"
        return offset
