"""Translates SendMessage. Pure. RocketMQ: SendMessageActivity.

The broker chooses the queue: round robin, or by the hash of the message group, so that messages of a group stay in
their order. Clients name a queue too, but the client for Python always names the first one. A message gets the form
of all messages here, so that clients of every kind read it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgpack

from model.errors import MessageIllegal
from model.limits import MAX_BATCH_MESSAGES, MAX_BODY_BYTES
from model.message import MAX_DELAY_MS, MESSAGE_GROUP, Message, check_message, encode_payload, tag_hash
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from rocketmq.grpc import words
from rocketmq.grpc.edge import Asked, GrpcCaller
from rocketmq.grpc.http2 import GrpcCall
from rocketmq.grpc.routes import topic_of
from rocketmq.grpc.status import GrpcRefused, status
from rocketmq.grpc.words import WORDS, duration_ms
from rocketmq.message import (
    CHECK_IMMUNITY_S,
    DELAY,
    KEYS,
    ORIGIN_MESSAGE_ID,
    PRODUCER_GROUP,
    RETRY_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
)

TRACE_CONTEXT = "TRACE_CONTEXT"
"""The property that holds the context of a trace. RocketMQ: MessageConst."""
_TYPES = {
    MessageType.NORMAL: words.NORMAL,
    MessageType.FIFO: words.FIFO,
    MessageType.DELAY: words.DELAY,
    MessageType.TRANSACTION: words.TRANSACTION,
}
_RESERVED = frozenset(
    (
        *(TAGS, KEYS, UNIQ_KEY, RETRY_TOPIC, ORIGIN_MESSAGE_ID, DELAY, TIMER_DELAY_MS, TIMER_DELAY_SEC),
        *(TIMER_DELIVER_MS, TRANSACTION_PREPARED, PRODUCER_GROUP, CHECK_IMMUNITY_S, MESSAGE_GROUP, TRACE_CONTEXT),
    )
)
"""Names of properties that mean something to brokers and clients."""


def send(caller: GrpcCaller, call: GrpcCall, request: Any) -> Asked:
    """Translate one message, or several of one topic, which are stored all or none."""
    messages = request.messages
    if not 1 <= len(messages) <= MAX_BATCH_MESSAGES:
        raise GrpcRefused(words.BAD_REQUEST, f"a send has 1 to {MAX_BATCH_MESSAGES} messages, got {len(messages)}")
    topic = topic_of(messages[0].topic)
    if any(each.topic.name != topic for each in messages):
        raise GrpcRefused(
            words.BAD_REQUEST, "the messages of one send have one topic: send those of another by themselves"
        )
    taken = caller.facts.message_type(topic)
    for each in messages:
        _check_type(topic, taken, each.system_properties)
    ids = [each.system_properties.message_id for each in messages]
    payloads = [_payload(topic, each) for each in messages]
    hashes = [tag_hash(each.system_properties.tag) for each in messages]
    queues = [_queue_id(caller, topic, each.system_properties.message_group) for each in messages]
    delays = [_delay_ms(caller, each.system_properties) for each in messages]
    if len(messages) == 1:
        header: dict[str, Any] = {"topic": topic, "queue_id": queues[0], "tag_hash": hashes[0]}
        if delays[0] > 0 or taken is MessageType.DELAY:  # that topic takes nothing without a delay, however short
            header["delay_ms"] = delays[0]
        return Asked(RequestCode.SEND_MESSAGE, header, payloads[0], _answerer(ids))
    if any(delays):
        raise GrpcRefused(words.BAD_REQUEST, "a delayed message is sent by itself, not with others")
    rows = list(zip(queues, hashes, payloads, strict=True))
    return Asked(RequestCode.SEND_MESSAGES, {"topic": topic}, msgpack.packb(rows), _answerer(ids))


def _answerer(ids: Sequence[str]) -> Any:
    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        found = answered["offset"]
        offsets = found if isinstance(found, list) else [found]
        entries = [
            WORDS["SendResultEntry"](status=status(words.OK), message_id=each, offset=offset)
            for each, offset in zip(ids, offsets, strict=True)
        ]
        return [WORDS["SendMessageResponse"](status=status(words.OK), entries=entries)]

    return answer


def _queue_id(caller: GrpcCaller, topic: str, group: str) -> int:
    n_queues = max(1, caller.facts.write_queues(topic))
    if group:
        return zlib.crc32(group.encode()) % n_queues
    caller.picked_queues += 1
    return caller.picked_queues % n_queues


def _delay_ms(caller: GrpcCaller, properties: Any) -> int:
    """How long the delivery is delayed; 0 for a time that has passed."""
    if not properties.HasField("delivery_timestamp"):
        return 0
    delay_ms = duration_ms(properties.delivery_timestamp) - caller.facts.now_ms()
    if delay_ms > MAX_DELAY_MS:
        text = f"a message is delivered within {MAX_DELAY_MS // 86_400_000} days, not after {delay_ms} ms"
        raise GrpcRefused(words.ILLEGAL_DELIVERY_TIME, text)
    return max(0, delay_ms)


def _payload(topic: str, sent: Any) -> bytes:
    properties = sent.system_properties
    if not properties.message_id.strip():
        raise GrpcRefused(words.ILLEGAL_MESSAGE_ID, "the message has no id: its client gives it one")
    others = dict(sent.user_properties)
    for name in others:
        if name in _RESERVED or not name.isprintable():
            text = f"a property must not have the name {name[:100]!r}, which RocketMQ uses itself"
            raise GrpcRefused(words.ILLEGAL_PROPERTY_KEY, text)
    if properties.message_group:
        others[MESSAGE_GROUP] = properties.message_group
    if properties.trace_context:
        others[TRACE_CONTEXT] = properties.trace_context
    body = _plain(sent.body) if properties.body_encoding == words.GZIP else sent.body
    if not body:
        raise GrpcRefused(words.BODY_EMPTY, "the body is empty")
    if len(body) > MAX_BODY_BYTES:
        raise GrpcRefused(
            words.BODY_TOO_LARGE, f"the body has {len(body)} bytes; allowed are {MAX_BODY_BYTES}: split it"
        )
    message = Message(topic=topic, body=body, keys=tuple(properties.keys), tags=properties.tag, properties=others)
    check_message(message, is_foreign=True)
    return encode_payload(message, max(0, duration_ms(properties.born_timestamp)), properties.message_id)


def _check_type(topic: str, taken: MessageType, properties: Any) -> None:
    """Refuse a message whose type does not fit its properties, or its topic."""
    kind, is_delayed = properties.message_type, properties.HasField("delivery_timestamp")
    if kind == words.TRANSACTION:
        raise GrpcRefused(words.NOT_IMPLEMENTED, "transactions of gRPC clients are not served here")
    if kind not in (words.NORMAL, words.FIFO, words.DELAY):
        raise GrpcRefused(
            words.CONFLICT_WITH_TYPE, f"the type {kind} of a message is not known here: NORMAL, FIFO and DELAY are"
        )
    if (kind == words.FIFO) != bool(properties.message_group) or (kind == words.DELAY) != is_delayed:
        text = "a FIFO message has a message group, a DELAY message a delivery time, and a NORMAL message neither"
        raise GrpcRefused(words.CONFLICT_WITH_TYPE, text)
    if kind != _TYPES.get(taken, kind):
        text = f"topic {topic!r} takes {taken.name} messages only: send it to another topic, or change this one's type"
        raise GrpcRefused(words.CONFLICT_WITH_TYPE, text)


def _plain(body: bytes) -> bytes:
    """The body as its producer gave it to a client that compresses a long one, by zlib or gzip."""
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either of the two
    try:
        plain = unpacking.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise MessageIllegal(f"the compressed body is damaged ({error})") from error
    if not unpacking.eof and len(plain) <= MAX_BODY_BYTES:
        raise MessageIllegal("the compressed body is cut off")
    return plain
