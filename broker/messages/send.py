"""Stores messages that producers send: SEND_MESSAGE, SEND_BATCH_MESSAGE, SEND_MESSAGES. RocketMQ: SendMessageProcessor.

With access control the topic inside a payload has to equal the topic of the request, for which the sender has a right:
a consumer chooses the listener by the topic inside the payload. A copy for a retry keeps the topic to which the message
was first sent, and `remoting/security/right_fields.py` requires a right to that topic.
"""

from __future__ import annotations

from typing import Any

import msgpack

from broker.feature import Core, Feature
from broker.retry.delays import Delays
from broker.topics.service import Topics
from broker.topics.table import TopicEntry
from broker.topics.types import check_type, check_types
from model.errors import InvalidParameter, MessageIllegal, RlabError
from model.limits import MAX_BATCH_MESSAGES, MAX_PAYLOAD_BYTES
from model.message import check_sent_to
from model.names import is_group_topic, is_retry_topic
from remoting.command import Command
from remoting.connection import Connection
from remoting.overload.shares import find_sharer
from remoting.request_code import RequestCode
from remoting.server import Handler

_unpack = msgpack.unpackb
_PLAIN_FIELDS = 3
"""Fields of a send without a delay: topic, queue and tag hash."""


class Sends(Feature):
    """Stores messages; answers once they are written."""

    def __init__(self, core: Core, topics: Topics, delays: Delays) -> None:
        self._delays = delays
        self._compares_topics = core.has_access_control
        self._clock_ms = core.clock_ms
        self._append_batch = core.store.append_batch
        self._append = core.store.append
        self._writable = topics.writable
        self._answer_send = core.barrier.answer_send
        self._after_append = core.barrier.after_append

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send_batch,
            RequestCode.SEND_MESSAGES: self.send_messages,
        }

    def send(self, connection: Connection, request: Command) -> None:
        """Store one message. The hot path of a broker: a few dictionary look-ups, then the store."""
        header = request.header
        topic, queue_id = header["topic"], header["queue_id"]
        payload = request.body
        if payload is None or len(payload) > MAX_PAYLOAD_BYTES:
            raise _illegal_size(payload)
        entry = self._writable(topic, queue_id, connection)
        if self._compares_topics and not payload.startswith(entry.payload_start) and not is_group_topic(topic):
            check_sent_to(topic, (payload,))
        if entry.is_typed:
            is_delayed = header.get("delay_ms") is not None
            check_type(topic, entry.config.message_type, payload, is_delayed=is_delayed)
        if len(header) > _PLAIN_FIELDS and ("delay_ms" in header or "times_delivered" in header):
            self._send_later(connection, request)
            return
        offset = self._append(entry.topic_id, queue_id, payload, header["tag_hash"])
        self._answer_send(connection, request, topic, queue_id, offset)

    def _send_later(self, connection: Connection, request: Command) -> None:
        """Store a delayed message, or a copy of a failed message. It gets its offset when it is due."""
        header = request.header
        times_delivered = header.get("times_delivered") or 0
        due_ms = int(self._clock_ms()) + (header.get("delay_ms") or 0)
        offset = self._delays.delay(
            request.body or b"",
            topic=header["topic"],
            queue_id=header["queue_id"],
            tag_hash=header["tag_hash"],
            times_delivered=times_delivered,
            due_ms=due_ms,
            sharer=find_sharer(connection.owner),
            is_retry=times_delivered > 0 and is_retry_topic(header["topic"]),
        )
        delayed_fields = {} if times_delivered else {"delayed_offset": offset, "due_ms": due_ms}

        def written(failure: RlabError | None) -> None:
            if failure is None:
                connection.respond(request, {"offset": -1, **delayed_fields})
            else:
                connection.respond_error(request, failure, None if failure.definite else -1)

        self._after_append(written, header["topic"], header["queue_id"])

    def send_batch(self, connection: Connection, request: Command) -> None:
        """Store several messages of one queue, all or none."""
        topic, queue_id = request.header["topic"], request.header["queue_id"]
        batch = _decode_batch(request.body)
        entry = self._writable(topic, queue_id, connection)
        if self._compares_topics:
            _check_topics(topic, entry, [payload for payload, _ in batch])
        check_types(entry, [payload for payload, _ in batch])
        offset = self._append_batch(entry.topic_id, queue_id, batch)
        self._answer_send(connection, request, topic, queue_id, offset)

    def send_messages(self, connection: Connection, request: Command) -> None:
        """Store messages of several queues of a topic, all or none."""
        topic, rows = request.header["topic"], _decode_rows(request.body)
        queue_ids = dict.fromkeys([queue_id for queue_id, _, _ in rows])
        entry = self._writable(topic, max(queue_ids), connection)
        if self._compares_topics:
            _check_topics(topic, entry, [payload for _, _, payload in rows])
        if entry.is_typed:
            check_types(entry, [payload for _, _, payload in rows])
        append, topic_id = self._append, entry.topic_id
        offsets = [append(topic_id, queue_id, payload, tag_hash) for queue_id, tag_hash, payload in rows]
        self._answer_send(connection, request, topic, rows[0][0], offsets)
        for queue_id in queue_ids:
            self._after_append(_do_nothing, topic, queue_id)


def _do_nothing(failure: RlabError | None) -> None:
    """Do nothing: the request is answered once, but `after_append` is called for each of its queues."""


def _check_topics(topic: str, entry: TopicEntry, payloads: list[bytes]) -> None:
    start = entry.payload_start
    if others := [payload for payload in payloads if not payload.startswith(start)]:
        check_sent_to(topic, others)


def _illegal_size(payload: bytes | None) -> RlabError:
    if payload is None:
        return InvalidParameter("SEND_MESSAGE: the body must be the message's payload, got nothing")
    return MessageIllegal(
        f"the message has {len(payload)} bytes, more than {MAX_PAYLOAD_BYTES}: split it, or send a reference"
    )


def _decode_batch(body: bytes | None) -> list[tuple[bytes, int]]:
    try:
        batch: Any = _unpack(body or b"")
        pairs = [
            (payload, tag_hash)
            for tag_hash, payload in batch
            if type(payload) is bytes
            and len(payload) <= MAX_PAYLOAD_BYTES
            and type(tag_hash) is int
            and -(2**31) <= tag_hash < 2**31
        ]
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise InvalidParameter(f"the body of a batch must be an array of [tag hash, payload]: {error}") from error
    _check_number(len(batch))
    if len(pairs) != len(batch):
        _check_sizes([payload for _, payload in batch])
        raise InvalidParameter("a batch must be an array of [tag hash, payload], a number of 32 bits and bytes")
    return pairs


def _decode_rows(body: bytes | None) -> list[tuple[int, int, bytes]]:
    form = "an array of [queue id, tag hash, payload], a number from 0, a number of 32 bits and bytes"
    try:
        rows: Any = _unpack(body or b"", use_list=False)
        # One expression for the good case, which nearly all requests are.
        good = all(
            [
                type(queue_id) is type(tag_hash) is int
                and queue_id >= 0
                and -(2**31) <= tag_hash < 2**31
                and type(payload) is bytes
                and len(payload) <= MAX_PAYLOAD_BYTES
                for queue_id, tag_hash, payload in rows
            ]
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise InvalidParameter(f"SEND_MESSAGES: the body must be {form}: {error}") from error
    _check_number(len(rows))
    if not good:
        _check_sizes([payload for _, _, payload in rows])
        raise InvalidParameter(f"SEND_MESSAGES: the body must be {form}")
    checked: list[tuple[int, int, bytes]] = rows
    return checked


def _check_number(n: int) -> None:
    if not 1 <= n <= MAX_BATCH_MESSAGES:
        raise MessageIllegal(f"a batch has 1 to {MAX_BATCH_MESSAGES} messages, got {n}: split it")


def _check_sizes(payloads: list[object]) -> None:
    for payload in payloads:
        if type(payload) is bytes and len(payload) > MAX_PAYLOAD_BYTES:
            raise _illegal_size(payload)
