"""Sends a failed message back to a broker, which redelivers it to the group later or puts it into the DLQ.

RocketMQ: DefaultMQPushConsumerImpl.sendMessageBack. First choice is the broker that has the message: it copies the
stored message. If that fails, a copy is published to the retry topic on any broker that serves it; if that fails too,
the message stays with this consumer, which retries it itself.
"""

from __future__ import annotations

import logging

from client.instance.instance import ClientInstance
from client.listeners.failed import FAILED, Failed
from model.errors import MessageIllegal, RlabError
from model.message import Message, MessageExt, encode_payload, retry_delay_ms, tag_hash
from model.names import dlq_topic, retry_topic
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)


class SendBackRequests:
    """The failed messages of one consumer; `delay_ms` None means the levels of RocketMQ: 10 s, 30 s, 1 m, ..."""

    def __init__(self, instance: ClientInstance, group: str, max_attempts: int, delay_ms: int | None) -> None:
        self._instance = instance
        self._group = group
        self._max_attempts = max_attempts
        self._delay_ms = delay_ms

    async def __call__(self, message: MessageExt, failure: Failed = FAILED) -> bool:
        """Send a message back; returns whether some broker has it now, or this consumer still has to process it.

        Cancellation: a broker may have it, so there may be a duplicate.
        """
        if failure.dead_letter:
            return await self.send_to_dlq(message)
        own_s = failure.retry_after_s
        delay_ms = self._delay_ms if own_s is None else round(own_s * 1000)
        max_attempts = self._instance.max_attempts(self._group, message.queue.broker_name, self._max_attempts)
        return await self._send_to(message, max_attempts, delay_ms)

    async def send_to_dlq(self, message: MessageExt) -> bool:
        """Send a message to the DLQ at once, whatever its attempts; returns as `__call__` does.

        Cancellation: a broker may have it, so the DLQ may have it twice.
        """
        sent = await self._send_to(message, 0, None)
        if sent:
            logger.error("%r failed %d times and is a dead letter now", message, message.times_delivered + 1)
        return sent

    async def _send_to(self, message: MessageExt, max_attempts: int, delay_ms: int | None) -> bool:
        try:
            await self._to_its_broker(message, max_attempts, delay_ms)
        except RlabError as error:
            logger.warning("%s: %r could not be sent back: %s", self._instance.client_id, message, error)
            return await self._publish_copy(message, max_attempts, delay_ms)
        return True

    async def _to_its_broker(self, message: MessageExt, max_attempts: int, delay_ms: int | None) -> None:
        header: dict[str, object] = {
            "group": self._group,
            "topic": message.queue.topic,
            "queue_id": message.queue.queue_id,
            "offset": message.offset,
            "max_attempts": max_attempts,
        }
        if delay_ms is not None:
            header["delay_ms"] = delay_ms
        code, broker_name = RequestCode.CONSUMER_SEND_MSG_BACK, message.queue.broker_name
        await self._instance.request_master(broker_name, code, header, repeats=True)

    async def _publish_copy(self, message: MessageExt, max_attempts: int, delay_ms: int | None) -> bool:
        times_delivered = message.times_delivered + 1
        is_dead = times_delivered > max_attempts
        topic = dlq_topic(self._group) if is_dead else retry_topic(self._group)
        copy = Message(message.topic, message.body, message.keys, message.tags, message.properties)
        try:
            payload = encode_payload(copy, message.born_ms, message.message_id)
        except MessageIllegal as error:  # RocketMQ's brokers may allow larger ones than ours
            logger.warning("%s: no copy of %r: %s", self._instance.client_id, message, error)
            return False
        for queue in self._instance.routes.publish_queues(topic):
            header: dict[str, object] = {
                "topic": topic,
                "queue_id": queue.queue_id,
                "tag_hash": tag_hash(message.tags),
                "times_delivered": times_delivered,
                "delay_ms": 0 if is_dead else retry_delay_ms(message.times_delivered) if delay_ms is None else delay_ms,
            }
            try:
                code, broker_name = RequestCode.SEND_MESSAGE, queue.broker_name
                await self._instance.request_master(broker_name, code, header, payload, repeats=True)
            except RlabError as error:
                logger.warning("%s: no copy of %r on %s: %s", self._instance.client_id, message, queue, error)
            else:
                return True
        return False
