"""Asks brokers where their queues begin and end, what was stored when, and what a group has committed."""

from __future__ import annotations

from client.instance.instance import ClientInstance
from model.errors import QueryNotFound
from model.message_queue import MessageQueue
from remoting.wire.request_code import RequestCode


class QueueOffsets:
    """Questions about the offsets of one queue each. RocketMQ: MQAdminImpl.

    Every question may raise NetworkError (its broker does not answer) and TopicNotExist or InvalidParameter (there is
    no such queue); a cancellation does no harm.

    Args:
        instance: the client instance.
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
        """The first offset stored at or after a time, wall clock in milliseconds; the end if nothing is that young."""
        return await self._ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, timestamp_ms=timestamp_ms)

    async def committed(self, queue: MessageQueue, group: str) -> int | None:
        """Where the group has got to; None, which is no offset, if it has committed nothing."""
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
