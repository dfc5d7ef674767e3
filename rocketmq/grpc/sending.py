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
from model.heartbeat import HeartbeatData
from model.limits import MAX_BATCH_MESSAGES, MAX_BODY_BYTES, MAX_TRANSACTION_TIMEOUT_S
from model.message import MAX_DELAY_MS, MESSAGE_GROUP, Message, check_message, encode_payload, tag_hash
from model.message_queue import MessageQueue
from model.recall import handle_in
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from rocketmq.grpc import proto
from rocketmq.grpc.edge import GrpcConnection, GrpcRequest, client_id_of
from rocketmq.grpc.handles import TransactionId
from rocketmq.grpc.http2.call import GrpcCall
from rocketmq.grpc.proto import MESSAGES, duration_ms
from rocketmq.grpc.routes import required_topic
from rocketmq.grpc.status import GrpcRefused, status
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
    MessageType.NORMAL: proto.NORMAL,
    MessageType.FIFO: proto.FIFO,
    MessageType.DELAY: proto.DELAY,
    MessageType.TRANSACTION: proto.TRANSACTION,
}
_RESERVED = frozenset(
    (
        *(TAGS, KEYS, UNIQ_KEY, RETRY_TOPIC, ORIGIN_MESSAGE_ID, DELAY, TIMER_DELAY_MS, TIMER_DELAY_SEC),
        *(TIMER_DELIVER_MS, TRANSACTION_PREPARED, PRODUCER_GROUP, CHECK_IMMUNITY_S, MESSAGE_GROUP, TRACE_CONTEXT),
    )
)
"""Names of properties that mean something to brokers and clients."""


def send(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate one message, or several of one topic, which are stored all or none."""
    messages = request.messages
    if not 1 <= len(messages) <= MAX_BATCH_MESSAGES:
        raise GrpcRefused(proto.BAD_REQUEST, f"a send has 1 to {MAX_BATCH_MESSAGES} messages, got {len(messages)}")
    topic = required_topic(messages[0].topic)
    if any(each.topic.name != topic for each in messages):
        raise GrpcRefused(
            proto.BAD_REQUEST, "the messages of one send have one topic: send those of another by themselves"
        )
    topic_type = connection.facts.message_type(topic)
    for each in messages:
        _check_type(topic, topic_type, each.system_properties)
    if messages[0].system_properties.message_type == proto.TRANSACTION:
        return _send_halves(connection, call, topic, messages)
    ids = [each.system_properties.message_id for each in messages]
    payloads = [_payload(topic, each) for each in messages]
    hashes = [tag_hash(each.system_properties.tag) for each in messages]
    queues = [_queue_id(connection, topic, each.system_properties.message_group) for each in messages]
    delays = [_delay_ms(connection, each.system_properties) for each in messages]
    if len(messages) == 1:
        header: dict[str, Any] = {"topic": topic, "queue_id": queues[0], "tag_hash": hashes[0]}
        if delays[0] > 0 or topic_type is MessageType.DELAY:  # that topic takes nothing without a delay, however short
            header["delay_ms"] = delays[0]
        queue = MessageQueue(topic, connection.facts.broker_name(), queues[0])
        return GrpcRequest(RequestCode.SEND_MESSAGE, header, payloads[0], _answer_translator(queue, ids))
    if any(delays):
        raise GrpcRefused(proto.BAD_REQUEST, "a delayed message is sent by itself, not with others")
    rows = list(zip(queues, hashes, payloads, strict=True))
    queue = MessageQueue(topic, connection.facts.broker_name(), queues[0])
    translator = _answer_translator(queue, ids)
    return GrpcRequest(RequestCode.SEND_MESSAGES, {"topic": topic}, msgpack.packb(rows), translator)


def _send_halves(connection: GrpcConnection, call: GrpcCall, topic: str, messages: Sequence[Any]) -> GrpcRequest:
    """Translate the send of half messages, each of which has a transaction of its own."""
    if any(each.system_properties.message_type != proto.TRANSACTION for each in messages):
        raise GrpcRefused(proto.BAD_REQUEST, "messages with a transaction are sent by themselves, not with others")
    client_id, broker = client_id_of(call), connection.facts.broker_name()
    rows = []
    for each in messages:
        properties = each.system_properties
        wait_ms = duration_ms(properties.orphaned_transaction_recovery_duration)
        if wait_ms > MAX_TRANSACTION_TIMEOUT_S * 1000:
            text = f"a transaction is checked within {MAX_TRANSACTION_TIMEOUT_S:.0f} s, not after {wait_ms} ms"
            raise GrpcRefused(proto.BAD_REQUEST, text)
        queue_id, hashed = _queue_id(connection, topic, ""), tag_hash(properties.tag)
        rows.append([topic, queue_id, hashed, wait_ms if wait_ms > 0 else -1, _payload(topic, each)])

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        first = answer_header["offset"]
        entries = [
            MESSAGES["SendResultEntry"](
                status=status(proto.OK),
                message_id=each.system_properties.message_id,
                transaction_id=TransactionId(broker, offset).text(),
                offset=offset,
            )
            for offset, each in enumerate(messages, first)
        ]
        announce_producer(connection, client_id, topic)
        return [MESSAGES["SendMessageResponse"](status=status(proto.OK), entries=entries)]

    header = {"group": topic, "client_id": client_id}
    return GrpcRequest(RequestCode.SEND_HALF_MESSAGE, header, msgpack.packb(rows), answer)


def producer_heartbeat(connection: GrpcConnection, client_id: str) -> bytes:
    """The heartbeat of a producer: it is in the producer group of each of its topics, whose name is that of the topic.

    It answers checks as long as it has a stream over which they are sent.
    """
    topics = tuple(connection.producers.get(client_id, ()))
    checkers = topics if connection.stream_of(client_id) is not None else ()
    heartbeat_data = HeartbeatData(client_id=client_id, consumers=(), producer_groups=topics, checkers=checkers)
    packed: bytes = msgpack.packb(heartbeat_data.to_wire())
    return packed


def announce_producer(connection: GrpcConnection, client_id: str, topic: str) -> None:
    """Make the sender of a half message a member of the producer group, if it did not name the topic before."""
    if topic not in connection.producers.get(client_id, ()):
        connection.record_topics(client_id, (topic,))
        connection.send_own_request(RequestCode.HEART_BEAT, {}, producer_heartbeat(connection, client_id))


def _answer_translator(queue: MessageQueue, ids: Sequence[str]) -> Any:
    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        answered = answer_header["offset"]
        offsets = answered if isinstance(answered, list) else [answered]
        entries = [
            MESSAGES["SendResultEntry"](
                status=status(proto.OK),
                message_id=each,
                offset=offset,
                recall_handle=handle_in(answer_header, queue, each),
            )
            for each, offset in zip(ids, offsets, strict=True)
        ]
        return [MESSAGES["SendMessageResponse"](status=status(proto.OK), entries=entries)]

    return answer


def recall(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate the recall of a delayed message. RocketMQ: RecallMessageActivity."""
    topic = required_topic(request.topic)

    def answer(answer_header: dict[str, Any], body: bytes | None, code: int) -> list[Any]:
        message_id = answer_header["message_id"]
        return [MESSAGES["RecallMessageResponse"](status=status(proto.OK), message_id=message_id)]

    header = {"topic": topic, "handle": request.recall_handle, "forward": True}
    return GrpcRequest(RequestCode.RECALL_MESSAGE, header, None, answer)


def recall_at_name_server(connection: GrpcConnection, call: GrpcCall, request: Any) -> GrpcRequest:
    """Translate a recall for a name server, which asks the broker of the message."""
    at_broker = recall(connection, call, request)
    header = {"topic": at_broker.header["topic"], "handle": at_broker.header["handle"]}
    return at_broker._replace(code=RequestCode.FORWARD_RECALL, header=header)


def _queue_id(connection: GrpcConnection, topic: str, group: str) -> int:
    n_queues = max(1, connection.facts.write_queues(topic))
    if group:
        return zlib.crc32(group.encode()) % n_queues
    connection.picked_queues += 1
    return connection.picked_queues % n_queues


def _delay_ms(connection: GrpcConnection, properties: Any) -> int:
    """How long the delivery is delayed; 0 for a time that has passed."""
    if not properties.HasField("delivery_timestamp"):
        return 0
    delay_ms = duration_ms(properties.delivery_timestamp) - connection.facts.now_ms()
    if delay_ms > MAX_DELAY_MS:
        text = f"a message is delivered within {MAX_DELAY_MS // 86_400_000} days, not after {delay_ms} ms"
        raise GrpcRefused(proto.ILLEGAL_DELIVERY_TIME, text)
    return max(0, delay_ms)


def _payload(topic: str, sent: Any) -> bytes:
    properties = sent.system_properties
    if not properties.message_id.strip():
        raise GrpcRefused(proto.ILLEGAL_MESSAGE_ID, "the message has no id: its client gives it one")
    user_properties = dict(sent.user_properties)
    for name in user_properties:
        if name in _RESERVED or not name.isprintable():
            text = f"a property must not have the name {name[:100]!r}, which RocketMQ uses itself"
            raise GrpcRefused(proto.ILLEGAL_PROPERTY_KEY, text)
    if properties.message_group:
        user_properties[MESSAGE_GROUP] = properties.message_group
    if properties.trace_context:
        user_properties[TRACE_CONTEXT] = properties.trace_context
    body = _decompress(sent.body) if properties.body_encoding == proto.GZIP else sent.body
    if not body:
        raise GrpcRefused(proto.BODY_EMPTY, "the body is empty")
    if len(body) > MAX_BODY_BYTES:
        raise GrpcRefused(
            proto.BODY_TOO_LARGE, f"the body has {len(body)} bytes; allowed are {MAX_BODY_BYTES}: split it"
        )
    message = Message(
        topic=topic, body=body, keys=tuple(properties.keys), tags=properties.tag, properties=user_properties
    )
    check_message(message, is_foreign=True)
    return encode_payload(message, max(0, duration_ms(properties.born_timestamp)), properties.message_id)


def _check_type(topic: str, topic_type: MessageType, properties: Any) -> None:
    """Refuse a message whose type does not fit its properties, or its topic."""
    kind, is_delayed = properties.message_type, properties.HasField("delivery_timestamp")
    if kind not in _TYPES.values():
        names = ", ".join(each.name for each in _TYPES)
        raise GrpcRefused(
            proto.CONFLICT_WITH_TYPE, f"the type {kind} of a message is not known here: these are: {names}"
        )
    if (kind == proto.FIFO) != bool(properties.message_group) or (kind == proto.DELAY) != is_delayed:
        text = "a FIFO message has a message group, a DELAY message a delivery time, and other messages neither"
        raise GrpcRefused(proto.CONFLICT_WITH_TYPE, text)
    if kind != _TYPES.get(topic_type, kind):
        hint = "send it to another topic, or change this one's type"
        raise GrpcRefused(proto.CONFLICT_WITH_TYPE, f"topic {topic!r} takes {topic_type.name} messages only: {hint}")


def _decompress(body: bytes) -> bytes:
    """The body as its producer gave it to a client that compresses a long one, by zlib or gzip."""
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either of the two
    try:
        decompressed = decompressor.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise MessageIllegal(f"the compressed body is damaged ({error})") from error
    if not decompressor.eof and len(decompressed) <= MAX_BODY_BYTES:
        raise MessageIllegal("the compressed body is cut off")
    return decompressed
