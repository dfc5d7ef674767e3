"""Transactions of our client at brokers of RocketMQ: half messages, their ends, and checks. Pure.

The other direction of `rocketmq/transactions.py`. RocketMQ names a half message by its offset in the half topic and its
place in the log; our client gets one number for both (`Cluster.keep`). RocketMQ: EndTransactionProcessor.
"""

from __future__ import annotations

from typing import Any

from model.names import HALF_TOPIC
from model.response_code import ResponseCode
from model.transaction import EndOutcome, TransactionState
from remoting.request_code import RequestCode
from rocketmq.fields import Fields
from rocketmq.frame import Frame
from rocketmq.message import (
    CHECK_IMMUNITY_S,
    HALF_QUEUE,
    PRODUCER_GROUP,
    TRANSACTION_PREPARED,
    decode_messages,
)
from rocketmq.outward.answers import check_answer, pack_body, unpack_body
from rocketmq.outward.edge import Server, Steps, StockCall, TranslatedAnswer
from rocketmq.outward.messages import encode_stock_message, message_parts, send_call
from rocketmq.outward.queues import queue_fields

_PREPARED = 0x4
_PLACE_DIGITS = 16
"""The last characters of a message id that a broker assigned: its place in the log."""
_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"


def half(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate half messages to one send each; the answer has the first of their numbers."""
    calls = []
    for topic, queue_id, _, check_after_ms, payload in unpack_body(body):
        content, properties, born_ms = message_parts(payload)
        properties |= {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: header["group"]}
        if check_after_ms >= 0:
            properties[CHECK_IMMUNITY_S] = str(max(1, check_after_ms // 1000))
        to = {"topic": topic, "queue_id": queue_id}
        calls.append(send_call(server, to, content, properties, born_ms, group=header["group"], sys_flag=_PREPARED))
    answers = yield calls
    places = []
    for answer in answers:
        fields = Fields(check_answer(answer).fields)
        places.append((fields.text("queueOffset"), str(int(fields.text("msgId")[-_PLACE_DIGITS:], 16))))
    numbers = [server.cluster.keep(offsets) for offsets in places]
    return TranslatedAnswer({"offset": numbers[0]})


def end(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the ends of transactions.

    A broker does not answer an end that leaves a transaction open, so a cheap request is sent instead: each call here
    needs an answer.
    """
    rows = unpack_body(body)
    calls = []
    for number, message_id, state in rows:
        offsets = server.cluster.handle(number)
        if offsets is None or state == TransactionState.UNKNOWN:
            calls.append(StockCall(RequestCode.GET_MIN_OFFSET, queue_fields(HALF_TOPIC, HALF_QUEUE)))
            continue
        fields = {
            **{"producerGroup": header["group"], "tranStateTableOffset": offsets[0], "commitLogOffset": offsets[1]},
            **{"commitOrRollback": state, "fromTransactionCheck": header.get("from_check", False)},
            **{"msgId": message_id, "transactionId": message_id},
        }
        calls.append(StockCall(RequestCode.END_TRANSACTION, fields))
    answers = yield calls
    outcomes = []
    for (number, *_), call, answer in zip(rows, calls, answers, strict=True):
        is_lost = server.cluster.handle(number) is None
        if call.code == RequestCode.END_TRANSACTION and not is_lost:
            # SYSTEM_ERROR is its answer for anything that it does not find.
            is_lost = bool(check_answer(answer, ResponseCode.SYSTEM_ERROR).code)
        outcomes.append(int(EndOutcome.NOT_FOUND if is_lost else EndOutcome.DONE))
    return TranslatedAnswer({}, pack_body(outcomes))


def check(server: Server, frame: Frame) -> tuple[int, dict[str, Any], bytes | None]:
    """Translate the check of a half message that was not ended."""
    fields = Fields(frame.fields)
    [message] = decode_messages(frame.body or b"")
    offsets = (fields.text("tranStateTableOffset"), fields.text("commitLogOffset"))
    header = {
        "group": message.properties[PRODUCER_GROUP],
        "topic": message.topic,
        "queue_id": message.queue_id,
        "offset": server.cluster.keep(offsets),
        "n": int(message.properties.get(_CHECK_TIMES, 1)),
        "cause": "",
    }
    return RequestCode.CHECK_TRANSACTION_STATE, header, encode_stock_message(message)
