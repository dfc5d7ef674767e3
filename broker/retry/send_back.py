"""CONSUMER_SEND_MSG_BACK: a consumer could not process a message; it comes again later, or ends as a dead letter.

RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack. The message goes through the retry topic of its group with
a growing delay; its payload is taken over as it is, so topic, keys and id stay those of the producer. After the last
attempt it goes to `%DLQ%group`, where an operator finds it.
"""

from __future__ import annotations

from typing import Any

from broker.broker import Broker
from model.errors import InvalidParameter, QueryNotFound, RlabError
from model.events import EventKind
from model.limits import MAX_PULL_BYTES
from model.message import MAX_DELAY_MS, retry_delay_ms
from model.names import check_group, dlq_topic, retry_topic
from model.record import MAX_TIMES_DELIVERED, StoredRecord, iter_records
from remoting.command import Command
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode


class RetryHandlers:
    """Takes back what consumers could not process."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    def send_back(self, connection: Connection, request: Command) -> None:
        """Park a failed message for its next attempt, or make it a dead letter; answered once that is written."""
        broker, header = self._broker, request.header
        group = check_group(header["group"])
        record = self._record(header["topic"], header["queue_id"], header["offset"])
        times_delivered = min(record.times_delivered + 1, MAX_TIMES_DELIVERED)
        delay_ms = header.get("delay_ms")
        dead = times_delivered > header["max_attempts"]
        if dead:
            entry = broker.topic_service.ensure_dlq(group)
            broker.store.append(
                entry.topic_id, 0, record.payload, record.tag_hash, times_delivered=record.times_delivered
            )
        else:
            broker.topic_service.ensure_retry(group)
            wait_ms = retry_delay_ms(record.times_delivered) if delay_ms is None else delay_ms
            if not 0 <= wait_ms <= MAX_DELAY_MS:
                raise InvalidParameter(f"delay_ms must be 0 to {MAX_DELAY_MS}, got {wait_ms}")
            broker.delays.park(
                record.payload,
                topic=retry_topic(group),
                queue_id=0,
                tag_hash=record.tag_hash,
                times_delivered=times_delivered,
                due_ms=int(broker.config.clock_ms()) + wait_ms,
            )

        def answer(failure: RlabError | None) -> None:
            if failure is None:
                if dead:
                    self._emit_dead_letter(group, header)
                connection.respond(request, {"dead": dead})
            else:
                connection.respond_error(request, failure)

        broker.barrier.after_append(answer, dlq_topic(group) if dead else retry_topic(group), 0)

    def _emit_dead_letter(self, group: str, header: dict[str, Any]) -> None:
        broker = self._broker
        broker.events.emit(
            EventKind.DEAD_LETTER,
            group=group,
            topic=header["topic"],
            broker=broker.config.name,
            queue_id=header["queue_id"],
            offset=header["offset"],
            n=1,
        )

    def _record(self, topic: str, queue_id: int, offset: int) -> StoredRecord:
        entry = self._broker.topics.existing(topic)
        result = self._broker.store.read(
            entry.topic_id, queue_id, offset, max_n=1, max_bytes=MAX_PULL_BYTES, tag_hashes=None
        )
        for record in iter_records(result.body):
            if record.queue_offset == offset:
                return record
        raise QueryNotFound(f"{topic}:{queue_id} has no message {offset} any more: publish a copy of it instead")
