"""Translates POP and assignment by the broker, as clients of RocketMQ 5 use them. Pure.

RocketMQ: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor, QueryAssignmentProcessor.

A receipt handle is a text of eight words, which clients split and join:

    check point, pop time, invisible time, revive queue, retry flag, broker, queue, offset

The delivery token is in the place of the check point. After a change of the invisible time the client itself builds the
new handle, with the offset in that place: then the token is in the place of the pop time, and the revive queue is 1.

    -8612 1700000000000 60000 0 0 broker-a 3 101     as delivered
    101 -5410 30000 1 0 broker-a 3 101               after a change

Messages that failed are delivered through the retry topic of their group, which a client of RocketMQ pulls.
"""

from __future__ import annotations

from typing import Any

import msgpack

from model.heartbeat import ConsumeFrom
from model.limits import MAX_INVISIBLE_MS, MAX_POP_BATCH, MIN_INVISIBLE_MS
from model.record import iter_records
from model.response_code import ResponseCode
from model.subscription import make_subscription
from remoting.request_code import RequestCode
from rocketmq.edge import Caller, StockAnswer, TranslatedRequest, empty_answer
from rocketmq.fields import TAG, FieldError, Fields, json_bytes, json_object, make_expression
from rocketmq.frame import Frame
from rocketmq.pulling import MAX_SUSPEND_MS, read_topic_id, stored_message

POP_CK = "POP_CK"
"""The property of a message that contains its handle."""
POLLING_TIMEOUT = 210
"""The response code of a pop that found nothing."""
_IN_CHECK_POINT, _IN_POP_TIME = 0, 1
"""The revive queue of a handle: it shows the place of the token."""
_HANDLE_WORDS = 8
_FROM_NEWEST = 1
_NOTHING = {"popTime": 0, "invisibleTime": 0, "reviveQid": _IN_CHECK_POINT, "restNum": 0}


def pop(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate a pop of one queue or of all queues; the broker holds it as long as its client wants."""
    topic = fields.text("topic")
    subscription = make_subscription(topic, make_expression(fields.text("expType", TAG), fields.text("exp", "*")), 0)
    invisible_ms = min(max(MIN_INVISIBLE_MS, fields.number("invisibleTime")), MAX_INVISIBLE_MS)
    is_newest = fields.number("initMode", _FROM_NEWEST) == _FROM_NEWEST
    header: dict[str, Any] = {
        "group": fields.text("consumerGroup"),
        "topic": topic,
        "queue_id": fields.number("queueId"),
        "client_id": caller.id_or_peer,
        "max_n": min(max(1, fields.number("maxMsgNums")), MAX_POP_BATCH),
        "invisible_ms": invisible_ms,
        "suspend_ms": min(max(0, fields.number("pollTime", 0)), MAX_SUSPEND_MS),
        "order": fields.flag("order"),
        "consume_from": (ConsumeFrom.LAST_OFFSET if is_newest else ConsumeFrom.FIRST_OFFSET).value,
        "retry": False,
    }
    header |= subscription.to_header()

    def answer(answered: dict[str, Any], batches: bytes | None, code: int) -> StockAnswer:
        if code:
            return StockAnswer(_NOTHING, None, POLLING_TIMEOUT, "no message has arrived")
        rows: Any = msgpack.unpackb(batches or b"\x90")
        return _delivered(caller, invisible_ms, rows)

    code = RequestCode.POP_MESSAGE_BY_SQL if subscription.is_sql else RequestCode.POP_MESSAGE
    return TranslatedRequest(code, header, None, answer, (ResponseCode.PULL_NOT_FOUND,))


def _delivered(caller: Caller, invisible_ms: int, batches: list[Any]) -> StockAnswer:
    """The messages of the batches, each with its handle; the fields name the offsets of each queue, in their order."""
    messages: list[bytes] = []
    firsts: list[str] = []
    offsets: list[str] = []
    broker, pop_ms = caller.facts.broker_name(), 0
    for topic, queue_id, token, visible_ms, attempts, records in batches:
        pop_ms = visible_ms - invisible_ms
        handle = f"{_signed(token)} {pop_ms} {invisible_ms} {_IN_CHECK_POINT} 0 {broker} {queue_id}"
        delivered = list(iter_records(records))
        topic_id = read_topic_id(records)
        for record, times in zip(delivered, attempts, strict=True):
            queue_key = (topic, topic_id, queue_id)
            properties = {POP_CK: f"{handle} {record.queue_offset}"}
            messages.append(stored_message(caller, queue_key, record, properties, times_delivered=times - 1))
        firsts.append(f"0 {queue_id} {delivered[0].queue_offset}")
        offsets.append(f"0 {queue_id} {','.join(str(record.queue_offset) for record in delivered)}")
    answer_fields = {"popTime": pop_ms, "invisibleTime": invisible_ms, "reviveQid": _IN_CHECK_POINT, "restNum": 0}
    return StockAnswer(
        {**answer_fields, "startOffsetInfo": ";".join(firsts), "msgOffsetInfo": ";".join(offsets)}, b"".join(messages)
    )


def acknowledge(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the acknowledgement of a message."""
    topic, offset = fields.text("topic"), fields.number("offset")
    header = {"group": fields.text("consumerGroup"), "client_id": caller.id_or_peer}
    rows = [[topic, fields.number("queueId"), parse_token(fields.text("extraInfo")), [offset]]]

    def answer(answered: dict[str, Any], dead: bytes | None, code: int) -> StockAnswer:
        if msgpack.unpackb(dead or b"\x90"):
            remark = f"the handle of message {offset} of {topic!r} is dead: it was acknowledged or delivered again"
            return StockAnswer(code=ResponseCode.NO_MESSAGE, remark=remark)
        return StockAnswer()

    return TranslatedRequest(RequestCode.ACK_MESSAGE, header, msgpack.packb(rows), answer)


def change_invisible_time(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate a change of the invisible time of a message; the new time begins now."""
    invisible_ms = min(max(0, fields.number("invisibleTime")), MAX_INVISIBLE_MS)
    header = {
        "group": fields.text("consumerGroup"),
        "topic": fields.text("topic"),
        "queue_id": fields.number("queueId"),
        "client_id": caller.id_or_peer,
        "offset": fields.number("offset"),
        "token": parse_token(fields.text("extraInfo")),
        "invisible_ms": invisible_ms,
    }

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        token = _signed(answered["token"])
        return StockAnswer({"popTime": token, "invisibleTime": invisible_ms, "reviveQid": _IN_POP_TIME})

    return TranslatedRequest(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, None, answer)


def parse_token(handle: str) -> int:
    """The token in a handle.

    Raises:
        FieldError: the text is not a handle from an answer of `pop` or `change_invisible_time`.
    """
    words = handle.split(" ")
    try:
        if len(words) != _HANDLE_WORDS:
            raise ValueError
        token = int(words[1 if int(words[3]) == _IN_POP_TIME else 0])
    except ValueError:
        raise FieldError(f"the field extraInfo is not a receipt handle: {handle[:100]!r}") from None
    return token % 2**64 or 1


def _signed(token: int) -> int:
    """The token as a signed number, as Java reads it."""
    return token - 2**64 if token >= 2**63 else token


# --- assignment ------------------------------------------------------------------------------------------------------


def query_assignment(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate a question of a member for its queues of a topic."""
    query = Fields(json_object(body))
    topic = query.text("topic")
    header = {
        "group": query.text("consumerGroup"),
        "client_id": query.text("clientId"),
        "topic": topic,
        "strategy": query.text("strategyName", "AVG"),
    }

    def answer(answered: dict[str, Any], queues: bytes | None, code: int) -> StockAnswer:
        if code:
            return StockAnswer({}, b"{}")  # the client keeps its queues
        mode = answered["mode"]
        rows: Any = msgpack.unpackb(queues or b"\x90")
        listed = [
            {"messageQueue": {"brokerName": name, "queueId": queue_id, "topic": topic}, "mode": mode}
            for name, queue_id in rows
        ]
        return StockAnswer({}, json_bytes({"messageQueueAssignments": listed}))

    outcomes = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    return TranslatedRequest(RequestCode.QUERY_TOPIC_ASSIGNMENT, header, None, answer, outcomes)


def set_mode(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the choice whether a group pulls or pops a topic."""
    mode_fields = Fields(json_object(body))
    header = {
        "group": mode_fields.text("consumerGroup"),
        "topic": mode_fields.text("topic"),
        "mode": mode_fields.text("mode"),
        "pop_share_queue_num": mode_fields.number("popShareQueueNum", 0),
    }
    return TranslatedRequest(RequestCode.SET_MESSAGE_REQUEST_MODE, header, None, empty_answer)
