"""Translates the ends of transactions, and the checks of transactions that were not ended. Pure.

RocketMQ: EndTransactionProcessor, AbstractTransactionalMessageCheckListener. A half message arrives as a send
    (`sending.py`), whose answer has its place: queue 0 of the half topic. The end of its transaction names that place.
    An end is one-way; only the Go client leaves that bit out, and drops the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from model.names import HALF_TOPIC
from model.response_code import ResponseCode
from model.transaction import EndOutcome
from remoting.request_code import RequestCode
from rocketmq.edge import Caller, StockAnswer, TranslatedRequest
from rocketmq.fields import Fields
from rocketmq.frame import Frame
from rocketmq.message import (
    HALF_QUEUE,
    PRODUCER_GROUP,
    UNIQ_KEY,
    StoredMessage,
    encode_message,
    offset_message_id,
    physical_offset,
)
from rocketmq.pulling import decode_payload


def end(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the end of one transaction, from a producer that ends it or answers a check."""
    offset = fields.number("tranStateTableOffset")
    message_id = fields.text("msgId", "") or fields.text("transactionId")
    header = {"group": fields.text("producerGroup"), "from_check": fields.flag("fromTransactionCheck")}
    rows = [[offset, message_id, fields.number("commitOrRollback")]]

    def answer(answered: dict[str, Any], outcomes: bytes | None, code: int) -> StockAnswer:
        outcomes_read: Any = msgpack.unpackb(outcomes or b"\x90")
        if EndOutcome.NOT_FOUND in outcomes_read:
            remark = f"producer group {header['group']!r} has no half message {message_id} at {offset} here"
            return StockAnswer(code=ResponseCode.SYSTEM_ERROR, remark=remark)
        return StockAnswer()

    return TranslatedRequest(RequestCode.END_TRANSACTION, header, msgpack.packb(rows), answer)


def check(
    caller: Caller, header: Mapping[str, Any], body: bytes | None
) -> tuple[int, Mapping[str, object], bytes | None] | None:
    """Translate a check of a transaction of the group, with its message as a consumer would get it.

    The producer group is a property of the message, where clients look for it. A payload that is not a message is not
    checked, because a client could not read it.
    """
    topic, offset, store = header["topic"], header["offset"], caller.store
    message = decode_payload(body or b"", topic)
    if message is None:
        return None
    content, properties, flag, born_ms = message
    physical = physical_offset(caller.facts.topic_id(HALF_TOPIC), HALF_QUEUE, offset)
    message_id = properties[UNIQ_KEY]
    stored = StoredMessage(
        topic=topic,
        queue_id=header["queue_id"],
        offset=offset,
        physical=physical,
        body=content,
        properties={**properties, PRODUCER_GROUP: header["group"]},
        born_ms=born_ms,
        stored_ms=born_ms,
        store=store,
        flag=flag,
    )
    fields = {
        "tranStateTableOffset": offset,
        "commitLogOffset": physical,
        "msgId": message_id,
        "transactionId": message_id,
        "offsetMsgId": offset_message_id(store, physical),
        "topic": HALF_TOPIC,
    }
    return RequestCode.CHECK_TRANSACTION_STATE, fields, encode_message(stored)
