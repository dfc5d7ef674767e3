"""Translates sends: SEND_MESSAGE, its short form, batches, and half messages. Pure. RocketMQ: SendMessageProcessor.

A message gets the form of all messages here, so that clients of both kinds can read it: its body decompressed, its tag,
keys and id in their fields, and the other properties unchanged. The user's flag, which only RocketMQ's clients know,
becomes a property.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from model.errors import MessageIllegal
from model.message import Message, check_message, delay_of_level, encode_payload, tag_hash
from model.message_queue import MessageQueue
from model.names import HALF_TOPIC, dlq_topic, is_group_topic, is_retry_topic
from model.recall import handle_in
from model.response_code import ResponseCode
from model.topic_route import MessageType
from remoting.request_code import RequestCode
from rocketmq.edge import AnswerTranslator, Caller, StockAnswer, TranslatedRequest
from rocketmq.fields import Fields, parse_number
from rocketmq.frame import Frame
from rocketmq.message import (
    CHECK_IMMUNITY_S,
    DELAY,
    HALF_QUEUE,
    KEYS,
    RETRY_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_BITS,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    batch_entries,
    decompressed_body,
    offset_message_id,
    parse_properties,
    physical_offset,
)

FLAG_PROPERTY = "RMQ_FLAG"
_DELAYS = frozenset((DELAY, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS))
_IN_DOUBT = (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.REPLICATION_TIMEOUT)
"""Error codes that clients return as results, with the place of the message; without a place they would be failures."""
_SHORT = {
    **{"producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e"},
    **{"sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j"},
    **{"unitMode": "k", "maxReconsumeTimes": "l", "batch": "m"},
}


def send(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the send of one message, or of a batch that its header marks as such."""
    if frame.code != RequestCode.SEND_MESSAGE:
        fields = Fields({name: frame.fields.get(short) for name, short in _SHORT.items()})
    if frame.code == RequestCode.SEND_BATCH_MESSAGE or fields.flag("batch"):
        return _send_batch(caller, fields, body)
    sys_flag = fields.number("sysFlag", 0)
    properties = parse_properties(fields.text("properties", ""))
    if sys_flag & TRANSACTION_BITS or properties.get(TRANSACTION_PREPARED) == "true":
        return _send_half(caller, fields, body, properties)
    topic, times = fields.text("topic"), fields.number("reconsumeTimes", 0)
    header: dict[str, Any] = {}
    is_delayed = not _DELAYS.isdisjoint(properties)
    delay_ms = _delay_ms(properties, caller.facts.now_ms())
    if is_retry_topic(topic) and times:
        # A consumer could not send back this failed message, so it publishes a copy.
        header["times_delivered"] = times
        if times > fields.number("maxReconsumeTimes", times):
            topic, delay_ms = dlq_topic(topic.partition("%RETRY%")[2]), 0
    if delay_ms > 0 or (is_delayed and caller.facts.message_type(topic) is MessageType.DELAY):
        header["delay_ms"] = max(0, delay_ms)  # a topic of that type takes nothing without a delay, however short
    payload, message_id, tag = _payload(caller, fields, body, topic, properties)
    header |= {"topic": topic, "queue_id": _queue_id(caller, fields, topic), "tag_hash": tag}
    return TranslatedRequest(
        RequestCode.SEND_MESSAGE, header, payload, _answerer(caller, header, [message_id]), _IN_DOUBT
    )


def _send_half(caller: Caller, fields: Fields, body: bytes, properties: dict[str, str]) -> TranslatedRequest:
    """Translate the send of a half message, whose transaction its producer ends."""
    topic, group = fields.text("topic"), fields.text("producerGroup")
    if is_retry_topic(topic) or _delay_ms(properties, caller.facts.now_ms()):
        raise MessageIllegal(
            "a retry or a delayed message has no transaction: it is delivered whatever the local branch does; "
            "send it without one"
        )
    properties.pop(TRANSACTION_PREPARED, None)
    wait_s = parse_number(CHECK_IMMUNITY_S, properties.get(CHECK_IMMUNITY_S), -1)
    payload, message_id, tag = _payload(caller, fields, body, topic, properties)
    queue_id = _queue_id(caller, fields, topic)
    rows = [[topic, queue_id, tag, wait_s * 1000 if wait_s > 0 else -1, payload]]
    header = {"topic": topic, "queue_id": queue_id}
    answer = _answerer(caller, header, [message_id], stored_in=(HALF_TOPIC, HALF_QUEUE))
    return TranslatedRequest(RequestCode.SEND_HALF_MESSAGE, {"group": group}, msgpack.packb(rows), answer)


def _payload(
    caller: Caller, fields: Fields, body: bytes, topic: str, properties: dict[str, str]
) -> tuple[bytes, str, int]:
    """The payload of a single message, its id and the hash of its tag."""
    message = _message(
        topic, decompressed_body(body, fields.number("sysFlag", 0)), properties, fields.number("flag", 0)
    )
    message_id = properties.get(UNIQ_KEY) or _new_id(caller, fields)
    return encode_payload(message, fields.number("bornTimestamp", 0), message_id), message_id, tag_hash(message.tags)


def _send_batch(caller: Caller, fields: Fields, body: bytes) -> TranslatedRequest:
    topic, born_ms = fields.text("topic"), fields.number("bornTimestamp", 0)
    if is_retry_topic(topic):
        raise MessageIllegal(f"a batch cannot go to the retry topic {topic!r}")
    common = parse_properties(fields.text("properties", ""))
    rows: list[tuple[int, bytes]] = []
    ids: list[str] = []
    for entry in batch_entries(decompressed_body(body, fields.number("sysFlag", 0))):
        properties = {**common, **entry.properties}
        message = _message(topic, entry.body, properties, entry.flag)
        ids.append(properties.get(UNIQ_KEY) or _new_id(caller, fields))
        rows.append((tag_hash(message.tags), encode_payload(message, born_ms, ids[-1])))
    header = {"topic": topic, "queue_id": _queue_id(caller, fields, topic)}
    return TranslatedRequest(
        RequestCode.SEND_BATCH_MESSAGE, header, msgpack.packb(rows), _answerer(caller, header, ids), _IN_DOUBT
    )


def _message(topic: str, body: bytes, properties: dict[str, str], flag: int) -> Message:
    """The message; a copy of a failed message keeps its original topic.

    If a consumer sends such a copy to another topic, it still has the property with the original topic.
    """
    others = {name: value for name, value in properties.items() if name not in (TAGS, KEYS, UNIQ_KEY, RETRY_TOPIC)}
    if flag:
        others[FLAG_PROPERTY] = str(flag)
    message = Message(
        topic=(is_group_topic(topic) and properties.get(RETRY_TOPIC)) or topic,
        body=body,
        keys=tuple(properties.get(KEYS, "").split()),
        tags=properties.get(TAGS, ""),
        properties=others,
    )
    check_message(message, is_foreign=True)
    return message


def _delay_ms(properties: dict[str, str], now_ms: int) -> int:
    """The delay that properties ask for; the property of a delay level is removed, as RocketMQ's brokers do."""
    level = parse_number(DELAY, properties.pop(DELAY, None), 0)
    if level:
        return delay_of_level(level)
    for name, factor in ((TIMER_DELAY_SEC, 1000), (TIMER_DELAY_MS, 1)):
        if name in properties:
            return parse_number(name, properties[name]) * factor
    if TIMER_DELIVER_MS in properties:
        return max(0, parse_number(TIMER_DELIVER_MS, properties[TIMER_DELIVER_MS]) - now_ms)
    return 0


def recall(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the recall of a delayed message. RocketMQ: RecallMessageProcessor."""

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        return StockAnswer({"msgId": answered["message_id"]})

    header = {"topic": fields.text("topic"), "handle": fields.text("recallHandle")}
    return TranslatedRequest(RequestCode.RECALL_MESSAGE, header, None, answer)


def _queue_id(caller: Caller, fields: Fields, topic: str) -> int:
    queue_id = fields.number("queueId")
    if queue_id >= 0:
        return queue_id
    caller.picked_queues += 1
    return caller.picked_queues % max(1, caller.facts.write_queues(topic))


def _new_id(caller: Caller, fields: Fields) -> str:
    """An id for a message without one: server, connection, time and a number, as 32 hex digits."""
    caller.generated_ids += 1
    low = (caller.peer.number, fields.number("bornTimestamp", 0), caller.generated_ids)
    return (caller.store.address.hex() + "".join(f"{number & 0xFFFFFFFF:08x}" for number in low)).upper()


def _answerer(
    caller: Caller, header: Mapping[str, Any], ids: list[str], stored_in: tuple[str, int] | None = None
) -> AnswerTranslator:
    """Translate the answer of a send; `stored_in` is the place that ids name, if it is not the message's own queue."""

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        topic, queue_id = stored_in or (header["topic"], header["queue_id"])
        topic_id, first = caller.facts.topic_id(topic), answered.get("offset", -1)
        places = range(first, first + len(ids)) if first >= 0 else [-1]
        store = caller.store
        queue = MessageQueue(header["topic"], caller.facts.broker_name(), header["queue_id"])
        recall_handle = handle_in(answered, queue, ids[0])
        return StockAnswer(
            {
                **({"recallHandle": recall_handle} if recall_handle else {}),
                "msgId": ",".join(
                    offset_message_id(store, physical_offset(topic_id, queue_id, offset)) for offset in places
                ),
                "queueId": header["queue_id"],
                "queueOffset": max(first, 0),
                "transactionId": ids[0] if len(ids) == 1 else "",
                "MSG_REGION": "DefaultRegion",
                "TRACE_ON": True,
            },
            code=code,
            remark=answered.get("remark"),
        )

    return answer
