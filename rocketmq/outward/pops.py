"""POP of our client at RocketMQ's brokers: pops, acknowledgements, and changes of the invisible time. Pure.

The opposite of `rocketmq/popping.py`, whose header has the form of a receipt handle. Our client names a delivery by a
number, the token. `Cluster` maps the token to the words of RocketMQ's handle. It is shared by all connections of the
client, because a message may be acknowledged over another connection than the one that delivered it. RocketMQ:
DefaultMQPushConsumerImpl.popMessage, ExtraInfoUtil.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from model.errors import ReceiptHandleDead
from model.heartbeat import ConsumeFrom
from model.limits import MAX_POP_BATCH
from model.names import RETRY_PREFIX
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.fields import FieldError, Fields
from rocketmq.message import StoredMessage, decode_messages
from rocketmq.outward.answers import check_answer, pack_body, unpack_body
from rocketmq.outward.edge import Server, Steps, StockCall, TranslatedAnswer
from rocketmq.outward.messages import encode_stock_record, pull_filter
from rocketmq.popping import POLLING_TIMEOUT, POP_CK

_INIT_MODE_MIN, _INIT_MODE_MAX = 0, 1  # RocketMQ: ConsumeInitMode
_HANDLE_WORDS = 8
_RETRY_SEPARATORS = {"1": "_", "2": "+"}
"""Retry flag -> separator of group and topic in the name of a POP retry topic."""


class DeliveredMessage(NamedTuple):
    """A delivered message, with the queue and offset of its acknowledgement, and the first five words of its handle."""

    topic: str
    queue_id: int
    offset: int
    handle_words: tuple[str, ...]
    message: StoredMessage


def pop(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate a pop of one queue, or of all queues of a topic."""
    group, topic = header["group"], header["topic"]
    first = header.get("consume_from") == ConsumeFrom.FIRST_OFFSET.value
    fields = {
        **{"consumerGroup": group, "topic": topic, "queueId": header["queue_id"]},
        **{"maxMsgNums": min(header["max_n"], MAX_POP_BATCH), "invisibleTime": header["invisible_ms"]},
        **{"pollTime": header["suspend_ms"], "bornTime": 0, "initMode": _INIT_MODE_MIN if first else _INIT_MODE_MAX},
        **dict(zip(("exp", "expType"), pull_filter(server, header), strict=True)),
        "order": bool(header.get("order")),
    }
    [answer] = yield [StockCall(RequestCode.POP_MESSAGE, fields)]
    if answer.code in (ResponseCode.PULL_NOT_FOUND, POLLING_TIMEOUT):
        return TranslatedAnswer({}, None, ResponseCode.PULL_NOT_FOUND)
    answer_fields = Fields(check_answer(answer).fields)
    pop_terms = (
        answer_fields.number("popTime"),
        answer_fields.number("invisibleTime"),
        answer_fields.number("reviveQid"),
    )
    delivered = _delivered(group, topic, pop_terms, answer_fields, decode_messages(answer.body or b""))
    counts = {
        f"{flag} {location}": int(n)
        for flag, location, n in _parse_queue_info(answer_fields.text("orderCountInfo", ""))
    }
    return TranslatedAnswer({}, pack_body(_batches(server, delivered, counts)))


def _parse_queue_info(text: str) -> list[list[str]]:
    """Rows of flag, queue and number in an answer: `0 3 100;0 4 7`."""
    rows = [each.split(" ") for each in text.split(";") if each]
    if any(len(row) != 3 for row in rows):
        raise FieldError(f"{text!r} has not three words in each row")
    return rows


def _delivered(
    group: str, topic: str, pop_terms: tuple[int, int, int], answer_fields: Fields, messages: Iterable[StoredMessage]
) -> list[DeliveredMessage]:
    """The messages with their handles.

    The handle is a property of the message, or, if the broker has not set it, is made of the fields of the answer, as
    by RocketMQ's client for Java.
    """
    start_offsets = {
        (flag, int(queue_id)): begin
        for flag, queue_id, begin in _parse_queue_info(answer_fields.text("startOffsetInfo", ""))
    }
    first_offsets: dict[tuple[str, int], str] = {}
    pop_ms, invisible_ms, revive = map(str, pop_terms)
    delivered: list[DeliveredMessage] = []
    for message in messages:
        queue_id, offset = message.queue_id, message.offset
        if receipt_handle := message.properties.get(POP_CK):
            words = receipt_handle.split(" ")
            if len(words) != _HANDLE_WORDS:
                raise FieldError(f"the receipt handle {receipt_handle!r} has not {_HANDLE_WORDS} words")
            handle, queue_id, offset = tuple(words[:5]), int(words[6]), int(words[7])
        else:
            flag = _flag_of(message.topic, group)
            # Without startOffsetInfo, the first message of the queue in this answer has the start offset.
            begin = first_offsets.setdefault((message.topic, queue_id), str(offset))
            handle = start_offsets.get((flag, queue_id), begin), pop_ms, invisible_ms, revive, flag
        separator = _RETRY_SEPARATORS.get(handle[4])
        pop_topic = topic if separator is None else f"{RETRY_PREFIX}{group}{separator}{topic}"
        delivered.append(DeliveredMessage(pop_topic, queue_id, offset, handle, message))
    return delivered


def _flag_of(topic: str, group: str) -> str:
    is_of = (
        flag for flag, separator in _RETRY_SEPARATORS.items() if topic.startswith(f"{RETRY_PREFIX}{group}{separator}")
    )
    return next(is_of, "0")


def _batches(server: Server, delivered: list[DeliveredMessage], counts: Mapping[str, int]) -> list[list[Any]]:
    """The batches of our answer: each has the messages of one queue with one handle."""
    batches: dict[tuple[str, int, tuple[str, ...]], tuple[list[int], list[bytes]]] = {}
    for topic, queue_id, offset, handle, message in delivered:
        attempts, records = batches.setdefault((topic, queue_id, handle), ([], []))
        flag = handle[4]
        # RocketMQ counts attempts by queue, or by offset as `qo<queue id>%<offset>`: the deliveries before this one.
        counted = counts.get(f"{flag} qo{queue_id}%{offset}", counts.get(f"{flag} {queue_id}", 0))
        attempts.append(max(counted, message.times_delivered) + 1)
        records.append(encode_stock_record(message._replace(queue_id=queue_id, offset=offset)))
    return [
        [topic, queue_id, server.cluster.keep(handle), int(handle[1]) + int(handle[2]), attempts, b"".join(records)]
        for (topic, queue_id, handle), (attempts, records) in batches.items()
    ]


def _handle_fields(
    server: Server, group: str, handle: tuple[str, ...], message_at: tuple[str, int, int]
) -> dict[str, object]:
    """The fields that name a message by its handle."""
    topic, queue_id, offset = message_at
    words = (*handle, server.cluster.name_of(server.address), str(queue_id), str(offset))
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "offset": offset}
    return {**fields, "extraInfo": " ".join(words)}


def acknowledge(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate acknowledgements; the answer names the messages whose handles are dead."""
    dead: list[list[Any]] = []
    places: list[tuple[str, int, int]] = []
    calls: list[StockCall] = []
    for topic, queue_id, token, offsets in unpack_body(body):
        handle = server.cluster.handle(token)
        for offset in offsets:
            if handle is None:
                dead.append([topic, queue_id, offset])
                continue
            message_at = topic, queue_id, offset
            places.append(message_at)
            calls.append(
                StockCall(RequestCode.ACK_MESSAGE, _handle_fields(server, header["group"], handle, message_at))
            )
    if calls:
        answers = yield calls
        for message_at, answer in zip(places, answers, strict=True):
            if check_answer(answer, ResponseCode.NO_MESSAGE).code:
                dead.append(list(message_at))
    else:  # all handles are dead, and `Steps` must make a request: a cheap one
        yield [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": header["group"]})]
    return TranslatedAnswer({}, pack_body(dead))


def change_invisible_time(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate a change of the invisible time. The server answers with a new handle."""
    handle = server.cluster.handle(header["token"])
    if handle is None:
        raise ReceiptHandleDead(
            "this client does not have the receipt handle of this message any longer: it is from an earlier run of the "
            "client, or too many messages were delivered after it"
        )
    message_at = header["topic"], header["queue_id"], header["offset"]
    fields = {**_handle_fields(server, header["group"], handle, message_at), "invisibleTime": header["invisible_ms"]}
    [answer] = yield [StockCall(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)]
    answer_fields = Fields(check_answer(answer).fields)
    pop_ms, invisible_ms = answer_fields.number("popTime"), answer_fields.number("invisibleTime")
    words = (str(message_at[2]), str(pop_ms), str(invisible_ms), str(answer_fields.number("reviveQid")), handle[4])
    return TranslatedAnswer({"token": server.cluster.keep(words), "visible_ms": pop_ms + invisible_ms})
