"""Translates pulls, messages that are sent back, and requests for the offsets of a queue. Pure.

RocketMQ: PullMessageProcessor, ConsumerManageProcessor, AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from model.errors import InvalidParameter
from model.limits import MAX_PULL_BATCH
from model.message import delay_of_level
from model.record import HEADER, StoredRecord, iter_records
from model.response_code import ResponseCode
from model.subscription import make_subscription
from remoting.request_code import RequestCode
from rocketmq.edge import Caller, StockAnswer, TranslatedRequest, empty_answer
from rocketmq.fields import TAG, Fields, make_expression, parse_number
from rocketmq.frame import Frame
from rocketmq.message import (
    KEYS,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    TAGS,
    UNIQ_KEY,
    StoredMessage,
    encode_message,
    physical_offset,
    split_physical_offset,
)
from rocketmq.sending import FLAG_PROPERTY

SUBSCRIPTION_NOT_EXIST = 24
_HAS_COMMIT, _MAY_SUSPEND, _HAS_SUBSCRIPTION, _CLASS_FILTER = 0x1, 0x2, 0x4, 0x8
MAX_SUSPEND_MS = 30_000
_MAX_TIME_MS = 2**63
_OUTCOMES = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)


def pull(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest | StockAnswer:
    """Translate a pull of a queue, which the broker holds as long as its client wants."""
    group, topic, flags = fields.text("consumerGroup"), fields.text("topic"), fields.number("sysFlag", 0)
    if flags & _CLASS_FILTER:
        return StockAnswer(code=ResponseCode.SYSTEM_ERROR, remark="filters by classes are not supported here")
    if flags & _HAS_SUBSCRIPTION:
        expression = make_expression(fields.text("expressionType", TAG), fields.text("subscription", "*"))
    else:
        own_group = caller.groups.get(group)
        if own_group is None or topic not in own_group.topics:
            return StockAnswer(
                code=SUBSCRIPTION_NOT_EXIST,
                remark=f"group {group!r} has not subscribed to {topic!r} over this connection: send a heartbeat first",
            )
        expression = own_group.topics[topic][0]
    queue_id, offset = fields.number("queueId"), max(0, fields.number("queueOffset"))
    header: dict[str, Any] = {
        "group": group,
        "topic": topic,
        "queue_id": queue_id,
        "offset": offset,
        "max_n": min(max(1, fields.number("maxMsgNums")), MAX_PULL_BATCH),
        "suspend_ms": 0,
    }
    if flags & _MAY_SUSPEND:
        header["suspend_ms"] = min(max(0, fields.number("suspendTimeoutMillis", 0)), MAX_SUSPEND_MS)
    subscription = make_subscription(topic, expression, 0)
    header |= subscription.to_header()
    if caller.client_id and topic in (caller.groups[group].topics if group in caller.groups else ()):
        # Other callers only read a queue: they are not members, or assign queues to themselves.
        header["client_id"] = caller.client_id
        if flags & _HAS_COMMIT and (commit := fields.number("commitOffset", 0)) > 0:
            header["commit"] = commit

    def answer(answered: dict[str, Any], records: bytes | None, code: int) -> StockAnswer:
        fields = {
            "suggestWhichBrokerId": 0,
            "nextBeginOffset": answered["next_offset"],
            "minOffset": answered["min_offset"],
            "maxOffset": answered["max_offset"],
        }
        messages = b"" if code else stored_messages(caller, topic, queue_id, records or b"")
        return StockAnswer(fields, messages, code, answered.get("remark"))

    code = RequestCode.PULL_MESSAGE_BY_SQL if subscription.is_sql else RequestCode.PULL_MESSAGE
    return TranslatedRequest(code, header, None, answer, _OUTCOMES)


def stored_messages(caller: Caller, topic: str, queue_id: int, records: bytes) -> bytes:
    """Translate the records of a queue."""
    if not records:
        return b""
    queue_key = (topic, read_topic_id(records), queue_id)
    return b"".join(stored_message(caller, queue_key, record) for record in iter_records(records))


def read_topic_id(records: bytes) -> int:
    """The topic id of the topic that records belong to."""
    topic_id: int = HEADER.unpack_from(records)[2]
    return topic_id


def stored_message(
    caller: Caller,
    queue_key: tuple[str, int, int],
    record: StoredRecord,
    more: Mapping[str, str] | None = None,
    times_delivered: int | None = None,
) -> bytes:
    """Translate one record; a payload that is not one of our messages is delivered as a body, so nothing is skipped.

    `queue_key` is topic, topic id and queue id. `more` are properties that only this delivery has, and
    `times_delivered` the deliveries before it, where the record does not contain them.
    """
    topic, topic_id, queue_id = queue_key
    body, properties, flag, born_ms = decode_payload(record.payload, topic) or (record.payload, {}, 0, record.stored_ms)
    return encode_message(
        StoredMessage(
            topic=topic,
            queue_id=queue_id,
            offset=record.queue_offset,
            physical=physical_offset(topic_id, queue_id, record.queue_offset),
            body=body,
            properties={**more, **properties} if more else properties,
            born_ms=born_ms,
            stored_ms=record.stored_ms,
            store=caller.store,
            times_delivered=record.times_delivered if times_delivered is None else times_delivered,
            flag=flag,
        )
    )


def decode_payload(payload: bytes, topic: str) -> tuple[bytes, dict[str, str], int, int] | None:
    """Body, properties, flag and born time of a payload, which a broker stores unread; None if it is not a message."""
    try:
        fields: Any = msgpack.unpackb(payload)
        sent_to, body, tags, keys, others, born_ms, message_id = fields
        properties = {TAGS: tags, KEYS: " ".join(keys), UNIQ_KEY: message_id, **others}
        flag = parse_number(FLAG_PROPERTY, properties.pop(FLAG_PROPERTY, None), 0)
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    if sent_to != topic:
        properties |= {RETRY_TOPIC: sent_to, ORIGIN_MESSAGE_ID: message_id}
    is_whole = type(body) is bytes and type(born_ms) is int and 0 <= born_ms < _MAX_TIME_MS
    if not is_whole or not all(type(part) is str for pair in properties.items() for part in pair):
        return None
    return body, properties, flag, born_ms


def send_back(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the return of a message that could not be processed, named by its physical offset."""
    topic_id, queue_id, offset = split_physical_offset(fields.number("offset"))
    topic = caller.facts.topic_of(topic_id)
    if topic is None:
        raise InvalidParameter(
            f"no message has the offset {fields.number('offset')} here: publish a copy of it instead"
        )
    level = fields.number("delayLevel", 0)
    attempts = 0 if level < 0 else max(0, fields.number("maxReconsumeTimes", 16))
    header: dict[str, Any] = {
        "group": fields.text("group"),
        "topic": topic,
        "queue_id": queue_id,
        "offset": offset,
        "max_attempts": attempts,
    }
    if level > 0:
        header["delay_ms"] = delay_of_level(level)
    return TranslatedRequest(RequestCode.CONSUMER_SEND_MSG_BACK, header, None, empty_answer)


def _offset(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    return StockAnswer({"offset": answered["offset"]})


def max_offset(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the end of a queue."""
    return TranslatedRequest(RequestCode.GET_MAX_OFFSET, _queue(fields), None, _offset)


def min_offset(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the beginning of a queue."""
    return TranslatedRequest(RequestCode.GET_MIN_OFFSET, _queue(fields), None, _offset)


def search_offset(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the first offset that is stored at or after a time."""
    header = {**_queue(fields), "timestamp_ms": max(0, fields.number("timestamp"))}
    return TranslatedRequest(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, None, _offset)


def query_offset(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the committed offset of a group; code 22 means that it has none."""
    header = {"group": fields.text("consumerGroup"), **_queue(fields)}
    if caller.client_id:
        header["client_id"] = caller.client_id
    return TranslatedRequest(RequestCode.QUERY_CONSUMER_OFFSET, header, None, _offset)


def update_offset(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate a commit of one queue."""
    queue = _queue(fields)
    header = {"group": fields.text("consumerGroup"), "client_id": caller.id_or_peer, "soon": True}
    row = [queue["topic"], queue["queue_id"], fields.number("commitOffset"), -1]
    return TranslatedRequest(RequestCode.UPDATE_CONSUMER_OFFSET, header, msgpack.packb([row]), _refused_rows)


def _refused_rows(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    refused: Any = msgpack.unpackb(body or b"\x90")
    return StockAnswer(code=refused[0][2], remark=refused[0][3]) if refused else StockAnswer()


def _queue(fields: Fields) -> dict[str, Any]:
    return {"topic": fields.text("topic"), "queue_id": fields.number("queueId")}
