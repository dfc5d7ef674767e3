"""Messages of our client at servers of RocketMQ: sends, pulls, and failed messages sent back. Pure.

The other direction of `sending` and `pulling`. Our payload becomes a body with properties, and a stored message becomes
the record that a broker here would have.
"""

from __future__ import annotations

from typing import Any

from model.errors import MessageIllegal
from model.message import DELAY_LEVELS_MS, tag_hash
from model.names import TEMPLATE_TOPIC
from model.record import encode_record
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.fields import SQL92, TAG, Fields
from rocketmq.frame import Frame
from rocketmq.message import (
    DELAY,
    KEYS,
    RETRY_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    UNIQ_KEY,
    StoredMessage,
    batch_entry,
    decode_messages,
    offset_message_id,
    properties_text,
)
from rocketmq.outward.answers import check_answer, pack_body, unpack_body
from rocketmq.outward.edge import Server, Steps, StockCall, TranslatedAnswer

_SEND = 310
_TIMERS_SINCE = 413
"""First version of a server that delays by any time: RocketMQ 5.0."""
_PULL_OUTCOMES = (
    *(ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY),
    ResponseCode.PULL_OFFSET_MOVED,
)
_COMMITS, _MAY_SUSPEND, _HAS_SUBSCRIPTION = 0x1, 0x2, 0x4


# --- sends -----------------------------------------------------------------------------------------------------------


def message_parts(payload: bytes) -> tuple[bytes, dict[str, str], int]:
    """Body, properties and born time of our payload."""
    _, body, tags, keys, others, born_ms, message_id = unpack_body(payload)
    own_properties = {TAGS: tags, KEYS: " ".join(keys), UNIQ_KEY: message_id, "WAIT": "true"}
    return body, {**others, **{name: value for name, value in own_properties.items() if value}}, born_ms


def send_call(
    server: Server,
    header: dict[str, Any],
    content: bytes,
    properties: dict[str, str],
    born_ms: int,
    *,
    group: str = "",
    sys_flag: int = 0,
    is_batch: bool = False,
) -> StockCall:
    """A send; the names of its fields are single letters. RocketMQ: SendMessageRequestHeaderV2."""
    fields: dict[str, object] = {
        **{"a": group or server.producer_group, "b": header["topic"], "c": TEMPLATE_TOPIC, "d": 4},
        **{"e": header["queue_id"], "f": sys_flag, "g": born_ms, "h": 0, "i": properties_text(properties)},
        **{"j": header.get("times_delivered", 0), "k": False, "m": is_batch},
    }
    return StockCall(RequestCode.SEND_BATCH_MESSAGE if is_batch else _SEND, fields, content)


def _stored(answer: Frame) -> TranslatedAnswer:
    """The answer of a send; a message whose copy on a disk or slave is late counts as stored."""
    late = (ResponseCode.FLUSH_DISK_TIMEOUT, 11, 12)
    return TranslatedAnswer({"offset": Fields(check_answer(answer, *late).fields).number("queueOffset")})


def send(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the send of one message."""
    content, properties, born_ms = message_parts(body)
    if delay_ms := header.get("delay_ms"):
        if delay_ms in DELAY_LEVELS_MS:
            properties[DELAY] = str(DELAY_LEVELS_MS.index(delay_ms) + 1)
        elif 0 < server.version < _TIMERS_SINCE:
            levels = ", ".join(f"{level_ms // 1000}" for level_ms in DELAY_LEVELS_MS)
            raise MessageIllegal(f"RocketMQ before 5.0 delays by {levels} seconds only, not by {delay_ms} ms")
        else:
            properties[TIMER_DELAY_MS] = str(delay_ms)
    [answer] = yield [send_call(server, header, content, properties, born_ms)]
    if not delay_ms or check_answer(answer).code:
        return _stored(answer)
    handle = Fields(answer.fields).text("recallHandle", "")
    return TranslatedAnswer({"offset": -1, **({"recall_handle": handle} if handle else {})})


def recall(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the recall of a delayed message, which RocketMQ has since 5.3.2."""
    fields = {"producerGroup": server.producer_group, "topic": header["topic"], "recallHandle": header["handle"]}
    [answer] = yield [StockCall(RequestCode.RECALL_MESSAGE, fields)]
    return TranslatedAnswer({"message_id": Fields(check_answer(answer).fields).text("msgId")})


def send_batch(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the send of several messages to one queue; the answer has their first offset."""
    parts = [message_parts(payload) for _, payload in unpack_body(body)]
    entries = b"".join(batch_entry(content, properties) for content, properties, _ in parts)
    [answer] = yield [send_call(server, header, entries, {"WAIT": "true"}, parts[0][2], is_batch=True)]
    return _stored(answer)


# --- pulls -----------------------------------------------------------------------------------------------------------


def _pull(group: str, queue: tuple[str, int], offset: int, max_n: int, **more: object) -> StockCall:
    topic, queue_id = queue
    fields = {
        **{"consumerGroup": group, "topic": topic, "queueId": queue_id, "queueOffset": offset, "maxMsgNums": max_n},
        **{"sysFlag": _HAS_SUBSCRIPTION, "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0},
        **{"subscription": "*", "expressionType": TAG},
    }
    return StockCall(RequestCode.PULL_MESSAGE, {**fields, **more})


def pull_filter(server: Server, header: dict[str, Any]) -> tuple[str, str]:
    """Text and type of the filter of a pull or pop. Tags are those of the heartbeat: a pull has only their hashes."""
    if "sql" in header:
        return header["sql"], SQL92
    subscription = server.subscribed.get(header["group"], {}).get(header["topic"])
    return ("*" if subscription is None or subscription.is_sql else subscription.expression), TAG


def pull(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate a pull of a queue; the answer has the messages as records of our brokers."""
    queue, flags = (header["topic"], header["queue_id"]), _HAS_SUBSCRIPTION
    if header["suspend_ms"]:
        flags |= _MAY_SUSPEND
    if "commit" in header:
        flags |= _COMMITS
        server.cluster.record_commit(server.address, (header["group"], *queue), header["commit"])
    more: dict[str, object]
    more = {"sysFlag": flags, "commitOffset": header.get("commit", 0), "suspendTimeoutMillis": header["suspend_ms"]}
    more["subscription"], more["expressionType"] = pull_filter(server, header)
    [answer] = yield [_pull(header["group"], queue, header["offset"], header["max_n"], **more)]
    fields = Fields(check_answer(answer, *_PULL_OUTCOMES).fields)
    answer_fields = {
        "next_offset": fields.number("nextBeginOffset"),
        "min_offset": fields.number("minOffset"),
        "max_offset": fields.number("maxOffset"),
    }
    if answer.code:
        return TranslatedAnswer({**answer_fields, "remark": answer.remark or ""}, None, answer.code)
    return TranslatedAnswer(
        answer_fields, b"".join(encode_stock_record(each) for each in decode_messages(answer.body or b""))
    )


def encode_stock_message(message: StoredMessage) -> bytes:
    """The payload that a message of RocketMQ has here."""
    properties = dict(message.properties)
    tags, keys = properties.pop(TAGS, ""), properties.pop(KEYS, "").split()
    message_id = properties.pop(UNIQ_KEY, "") or offset_message_id(message.store, message.physical)
    topic = properties.pop(RETRY_TOPIC, message.topic)
    return pack_body([topic, message.body, tags, keys, properties, message.born_ms, message_id])


def encode_stock_record(message: StoredMessage) -> bytes:
    """The record of a stored message of RocketMQ."""
    tag = tag_hash(message.properties.get(TAGS, ""))
    numbers = (1, message.queue_id, message.offset, message.stored_ms, tag, 0, message.times_delivered)
    return encode_record(*numbers, encode_stock_message(message))


def send_back(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the return of a failed message. RocketMQ names it by a place in its log, which a pull returns."""
    queue, offset = (header["topic"], header["queue_id"]), header["offset"]
    [pulled] = yield [_pull(header["group"], queue, offset, 1)]
    messages = [each for each in decode_messages(check_answer(pulled).body or b"") if each.offset == offset]
    if not messages:
        raise LookupError(f"message {offset} of {queue[0]}:{queue[1]} is gone")
    level = 0
    if delay_ms := header.get("delay_ms", 0):
        level = next((n for n, each in enumerate(DELAY_LEVELS_MS, 1) if each >= delay_ms), len(DELAY_LEVELS_MS))
    fields = {
        "group": header["group"],
        "offset": messages[0].physical,
        "delayLevel": level if header["max_attempts"] else -1,
        "originMsgId": messages[0].properties.get(UNIQ_KEY, ""),
        "originTopic": queue[0],
        "unitMode": False,
        "maxReconsumeTimes": header["max_attempts"],
    }
    [answer] = yield [StockCall(RequestCode.CONSUMER_SEND_MSG_BACK, fields)]
    check_answer(answer)
    return TranslatedAnswer({"dead": messages[0].times_delivered >= header["max_attempts"]})
