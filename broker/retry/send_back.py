"""CONSUMER_SEND_MSG_BACK: a consumer could not process a message; it is redelivered later, or sent to the DLQ.

RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack. The message goes through the retry topic of its group with
a growing delay; its payload is copied unchanged, with the producer's topic, keys and id. After the last attempt it goes
to `%DLQ%group`, where an operator finds it.
"""

from __future__ import annotations

from broker.durability.answers import answer
from broker.feature import Core, Feature
from broker.groups.settings import StoredGroupSettings
from broker.retry.delays import Delays
from broker.topics.service import Topics
from model.errors import InvalidParameter, QueryNotFound, RlabError
from model.events import EventKind
from model.message import MAX_DELAY_MS, retry_delay_ms
from model.names import check_group, dlq_topic, retry_topic
from model.record import MAX_TIMES_DELIVERED, StoredRecord
from remoting.command import Command
from remoting.connection import Connection
from remoting.overload.shares import find_sharer
from remoting.request_code import RequestCode
from remoting.server import Handler


class SendBack(Feature):
    """Stores failed messages for another attempt, or sends them to the DLQ."""

    def __init__(self, core: Core, topics: Topics, delays: Delays, settings: StoredGroupSettings) -> None:
        self._core = core
        self._topics = topics
        self._delays = delays
        self._settings = settings

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    def send_back(self, connection: Connection, request: Command) -> None:
        """Delay a failed message until its next attempt, or send it to the DLQ; responds once the copy is written."""
        core, header, sharer = self._core, request.header, find_sharer(connection.owner)
        group = check_group(header["group"])
        record = self._record(header["topic"], header["queue_id"], header["offset"])
        times_delivered = min(record.times_delivered + 1, MAX_TIMES_DELIVERED)
        delay_ms = header.get("delay_ms")
        # If a member asks for no retry, the message goes to the DLQ, whatever the setting of its group is.
        own_attempts = header["max_attempts"]
        is_dead = times_delivered > (own_attempts and self._settings.max_attempts.get(group, own_attempts))
        queue_id = 0
        if is_dead:
            entry = self._topics.ensure_dlq(group, sharer)
            core.store.append(
                entry.topic_id, 0, record.payload, record.tag_hash, times_delivered=record.times_delivered
            )
        else:
            # One after the other, so that the members that own them share the retries.
            queue_id = (header["queue_id"] + header["offset"]) % self._topics.retry_queues(group, sharer)
            if delay_ms is None:
                delay_ms = self._settings.retry_delay_ms(group, times_delivered)
            wait_ms = retry_delay_ms(record.times_delivered) if delay_ms is None else delay_ms
            if not 0 <= wait_ms <= MAX_DELAY_MS:
                raise InvalidParameter(f"delay_ms must be 0 to {MAX_DELAY_MS}, got {wait_ms}")
            self._delays.delay(
                record.payload,
                topic=retry_topic(group),
                queue_id=queue_id,
                tag_hash=record.tag_hash,
                times_delivered=times_delivered,
                due_ms=int(core.clock_ms()) + wait_ms,
                sharer=sharer,
                is_retry=True,
            )

        def written(failure: RlabError | None) -> None:
            if failure is None and is_dead:
                queue = (header["topic"], header["queue_id"])
                core.emit_queue(EventKind.DEAD_LETTER, group, queue, offset=header["offset"], n=1)
            answer(connection, request, failure, {"dead": is_dead})

        core.barrier.after_append(written, dlq_topic(group) if is_dead else retry_topic(group), queue_id)

    def _record(self, topic: str, queue_id: int, offset: int) -> StoredRecord:
        entry = self._topics.table.existing(topic)
        record = self._core.store.read_one(entry.topic_id, queue_id, offset)
        if record is not None:
            return record
        raise QueryNotFound(f"{topic}:{queue_id} no longer has message {offset}: publish a copy of it instead")
