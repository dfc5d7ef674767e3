"""Translates the requests of `mqadmin` to brokers: groups, progress, members, resets, messages. Pure.

RocketMQ: AdminBrokerProcessor, QueryMessageProcessor. Java writes a table by queue as an object whose keys are queues
    as JSON text, and so do the answers here. Values that a broker does not know here are left out, for instance rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from model.errors import InvalidParameter
from model.group_settings import OWN_ATTEMPTS
from model.limits import MAX_LOOKUP_MESSAGES
from model.offset_reset import ResetKind
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.edge import Caller, StockAnswer, TranslatedRequest, empty_answer
from rocketmq.fields import (
    SQL92,
    TAG,
    Fields,
    json_bytes,
    json_object,
    parse_retry_delays,
    queue_object,
    table_by_queue,
)
from rocketmq.frame import OUR_VERSION, Frame
from rocketmq.message import parse_physical_offset, split_physical_offset
from rocketmq.pulling import stored_messages

TOOLS = "TOOLS_CONSUMER"
"""The group in whose name a single message is viewed; it has no members."""
_TIMES = {"begin_ms": "beginTimestamp", "end_ms": "endTimestamp"}
_LATEST = -1
"""The time that means the end of the queues in a reset."""
_NO_POOLS = (
    *("sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "pageCacheLockTimeMills"),
    *("sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills"),
)
"""The thread pool queues of a RocketMQ broker; here they are always empty."""
_NOT_THERE = "no message has the offset {} here"


# --- brokers ----------------------------------------------------------------------------------------------------------


def runtime_info(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """The counters of a broker under the names that the tool reads, and under the names that they have here."""

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        info: Any = msgpack.unpackb(body or b"\x80")
        table = {name: str(value) for name, value in info.items() if isinstance(value, int | float | str)}
        started_ms = int(info["now_ms"] - info["uptime_s"] * 1000)
        table |= {"brokerVersionDesc": "rebalance-lab", "brokerVersion": str(OUR_VERSION), "brokerActive": "true"}
        table |= dict.fromkeys(_NO_POOLS, "0")
        table |= {"bootTimestamp": str(started_ms), "runtime": f"{info['uptime_s']:.0f} s"}
        if total := info.get("disk_total_bytes"):
            table["commitLogDiskRatio"] = f"{1 - info['disk_free_bytes'] / total:.4f}"
        return StockAnswer({}, json_bytes({"table": table}))

    return TranslatedRequest(RequestCode.GET_BROKER_RUNTIME_INFO, {}, None, answer)


# --- groups ----------------------------------------------------------------------------------------------------------


def update_group(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate a change of the settings of a group."""
    sent = Fields(json_object(body))
    header = {
        "group": sent.text("groupName"),
        "consume": sent.flag("consumeEnable"),
        "broadcast": sent.flag("consumeBroadcastEnable"),
        "retry_queues": sent.number("retryQueueNums", 1),
        "max_attempts": sent.number("retryMaxTimes", OWN_ATTEMPTS),
        "fifo": sent.flag("consumeMessageOrderly"),
        "retry_delays_ms": parse_retry_delays(sent.nested("groupRetryPolicy")),
    }
    return TranslatedRequest(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, header, None, empty_answer)


def delete_group(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the deletion of a group with its offsets."""
    return TranslatedRequest(
        RequestCode.DELETE_SUBSCRIPTIONGROUP, {"group": fields.text("groupName")}, None, empty_answer
    )


def groups_of_topic(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the groups that read a topic."""

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        rows: Any = msgpack.unpackb(body or b"\x90")
        return StockAnswer({}, json_bytes({"groupList": [name for name, *_ in rows]}))

    return TranslatedRequest(RequestCode.GET_GROUP_LIST, {"topic": fields.text("topic")}, None, answer)


def consume_stats(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the progress of a group on each queue."""
    header: dict[str, Any] = {"group": fields.text("consumerGroup"), "times": True}
    if topic := fields.text("topic", ""):
        header["topic"] = topic

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        rows: Any = msgpack.unpackb(body or b"\x90")
        return StockAnswer({}, json_bytes(_stats(caller.facts.broker_name(), rows, answered)[0]))

    return TranslatedRequest(RequestCode.GET_CONSUME_STATS, header, None, answer)


def _stats(broker: str, rows: list[Any], more: Mapping[str, Any]) -> tuple[dict[str, object], int]:
    """The progress of one group, and its lag in messages."""
    starts = {(topic, queue_id): offset for topic, queue_id, offset in more.get("starts", ())}
    times = {(topic, queue_id): committed_or_start for topic, queue_id, committed_or_start in more.get("times", ())}
    table, behind = [], 0
    for topic, queue_id, low, high, committed, *_ in rows:
        committed_or_start = committed if committed >= 0 else starts.get((topic, queue_id), low)
        behind += high - committed_or_start
        progress = {"brokerOffset": high, "consumerOffset": committed_or_start, "pullOffset": committed_or_start}
        progress["lastTimestamp"] = times.get((topic, queue_id), 0)
        table.append((queue_object(broker, topic, queue_id), progress))
    return {"consumeTps": 0.0, "offsetTable": table_by_queue(table)}, behind


def all_consume_stats(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest | StockAnswer:
    """The progress of every group on each queue of this broker. The tool may ask for ordered topics only: none."""
    if fields.flag("isOrder"):
        return StockAnswer({}, json_bytes({"consumeStatsList": [], "totalDiff": 0}))

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        groups: Any = msgpack.unpackb(body or b"\x90")
        stats = [(group, *_stats(caller.facts.broker_name(), rows, more)) for group, rows, more in groups if rows]
        listed = [{group: [table]} for group, table, _ in stats]
        fields = {"consumeStatsList": listed, "brokerAddr": caller.address, "totalDiff": sum(n for *_, n in stats)}
        return StockAnswer({}, json_bytes(fields))

    return TranslatedRequest(RequestCode.GET_BROKER_CONSUME_STATS, {"times": True}, None, answer)


def _language(is_stock: bool) -> dict[str, object]:
    # A broker does not keep the language of a stock client.
    return {"language": "OTHER" if is_stock else "PYTHON", "version": OUR_VERSION}


def _not_online(group: str) -> StockAnswer:
    return StockAnswer(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=f"group {group!r} has no member on this broker")


def consumers(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the members of a group."""
    group = fields.text("consumerGroup")

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        info: Any = {"members": []} if code else msgpack.unpackb(body or b"\x80")
        members: list[Any] = info["members"]
        if not members:
            return _not_online(group)
        _, consume_type, model, consume_from, *_, topics = members[0]["consumer"]
        by_sql = members[0]["sql"]
        fields = {
            "connectionSet": [
                {
                    "clientAddr": each["address"] or "",
                    "clientId": each["client_id"],
                    **_language(each["leaseless"]),
                }
                for each in members
            ],
            "consumeFromWhere": f"CONSUME_FROM_{consume_from}",
            "consumeType": f"CONSUME_{consume_type}",
            "messageModel": model,
            "subscriptionTable": {
                topic: _subscription(topic, *more, is_sql=topic in by_sql) for topic, *more in topics
            },
        }
        return StockAnswer({}, json_bytes(fields))

    outcomes = (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,)
    return TranslatedRequest(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"group": group}, None, answer, outcomes)


def _subscription(topic: str, expression: str, version: int, *, is_sql: bool) -> dict[str, object]:
    tags = [tag.strip() for tag in expression.split("||")] if expression != "*" and not is_sql else []
    fields = {"topic": topic, "subString": expression, "tagsSet": tags, "subVersion": version}
    return {**fields, "expressionType": SQL92 if is_sql else TAG}


def producers(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the members of a producer group."""
    group = fields.text("producerGroup")

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        info: Any = [[]] if code else msgpack.unpackb(body or b"\x93\x90\x90\x00")
        members: list[Any] = info[0]
        if not members:
            return StockAnswer(code=ResponseCode.SYSTEM_ERROR, remark=f"producer group {group!r} has no member here")
        listed = [
            {"clientAddr": address, "clientId": client_id, **_language(True)} for client_id, address, _ in members
        ]
        return StockAnswer({}, json_bytes({"connectionSet": listed}))

    outcomes = (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,)
    return TranslatedRequest(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"group": group}, None, answer, outcomes)


def running_info(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the running info of a member."""
    header: dict[str, Any] = {"group": fields.text("consumerGroup"), "client_id": fields.text("clientId")}
    header["stacks"] = fields.flag("jstackEnable")
    return TranslatedRequest(RequestCode.GET_CONSUMER_RUNNING_INFO, header, None, _as_it_is)


def _as_it_is(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
    """The answer of a member, which already has RocketMQ's form."""
    return StockAnswer({}, body)


def ask_running_info(
    caller: Caller, header: Mapping[str, Any], body: bytes | None
) -> tuple[int, Mapping[str, object], bytes | None]:
    """Translate the request for the running info that a broker relays to the member."""
    fields = {"consumerGroup": header["group"], "clientId": header["client_id"], "jstackEnable": header["stacks"]}
    return RequestCode.GET_CONSUMER_RUNNING_INFO, fields, None


def consume_directly(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """A message that a member has to consume now, named by the id that its broker assigned."""
    group, client_id, message_id = fields.text("consumerGroup"), fields.text("clientId"), fields.text("msgId")
    topic, queue_id, offset = _place(caller, parse_physical_offset(message_id))
    header = {"group": group, "client_id": client_id, "topic": topic, "queue_id": queue_id, "offset": offset}
    return TranslatedRequest(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, None, _as_it_is)


def ask_to_consume(
    caller: Caller, header: Mapping[str, Any], body: bytes | None
) -> tuple[int, Mapping[str, object], bytes | None]:
    """Translate the request to consume a message that a broker relays to the member, with the message."""
    fields = {"consumerGroup": header["group"], "clientId": header["client_id"], "topic": header["topic"]}
    fields["brokerName"] = caller.facts.broker_name()
    message = stored_messages(caller, header["topic"], header["queue_id"], body or b"")
    return RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, message


def view_broker_stats(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> StockAnswer:
    """Rates of a topic or group: brokers here keep none, and the tool shows 0. `/metrics` has the broker's counters."""
    remark = f"The stats <{fields.text('statsName', '')}> not exist"
    return StockAnswer(code=ResponseCode.SYSTEM_ERROR, remark=remark)


# --- resets ----------------------------------------------------------------------------------------------------------


def reset_offsets(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Reset the offsets of a group on a topic."""
    topic, timestamp = fields.text("topic"), fields.number("timestamp")
    if not fields.flag("isForce"):
        raise InvalidParameter("a reset of only the queues that would go back is not supported: use force (-f true)")
    header: dict[str, Any] = {"group": fields.text("group"), "topic": topic}
    offset = fields.number("offset", -1)
    if offset >= 0:
        header |= {"to": ResetKind.OFFSET.value, "value": offset}
    elif timestamp == _LATEST:
        header["to"] = ResetKind.LATEST.value
    else:
        header |= {"to": ResetKind.TIME.value, "value": max(0, timestamp)}
    if (queue_id := fields.number("queueId", -1)) >= 0:
        header["queue_ids"] = [queue_id]

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        rows: Any = msgpack.unpackb(body or b"\x90")
        broker = caller.facts.broker_name()
        table = table_by_queue((queue_object(broker, topic, queue_id), after) for queue_id, _, after, *_ in rows)
        return StockAnswer({}, json_bytes({"offsetTable": table}))

    return TranslatedRequest(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, None, answer)


def offsets_reset(
    caller: Caller, header: Mapping[str, Any], body: bytes | None
) -> tuple[int, Mapping[str, object], bytes | None]:
    """A notification of reset queues: a client drops their messages, and continues at the new offset after 10 s."""
    rows = [
        (queue_object(header["broker_name"], header["topic"], queue_id), offset)
        for queue_id, offset in zip(header["queue_ids"], header["offsets"], strict=True)
    ]
    table: object = table_by_queue(rows)
    if caller.language == "CPP":
        table = [{**queue, "offset": offset} for queue, offset in rows]
    elif caller.language == "GO":
        table = rows  # it does not accept keys in quotation marks
    fields = {"topic": header["topic"], "group": header["group"], "timestamp": 0, "isForce": True}
    return RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, json_bytes({"offsetTable": table})


# --- messages --------------------------------------------------------------------------------------------------------


def view_message(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """The message with an id that a broker assigned; the id has the place of the message."""
    physical = fields.number("offset")
    topic, queue_id, offset = _place(caller, physical)

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        not_found = StockAnswer(code=ResponseCode.SYSTEM_ERROR, remark=_NOT_THERE.format(physical))
        return not_found if code else StockAnswer({}, stored_messages(caller, topic, queue_id, body or b""))

    header = {"group": TOOLS, "topic": topic, "queue_id": queue_id, "offset": offset, "max_n": 1, "suspend_ms": 0}
    outcomes = (
        *(ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED),
        *(ResponseCode.NO_PERMISSION, ResponseCode.INVALID_PARAMETER),
    )
    return TranslatedRequest(RequestCode.PULL_MESSAGE, header, None, answer, outcomes)


def _place(caller: Caller, physical: int) -> tuple[str, int, int]:
    """Topic, queue id and offset of a physical offset."""
    topic_id, queue_id, offset = split_physical_offset(max(0, physical))
    topic = caller.facts.topic_of(topic_id)
    if topic is None:
        raise InvalidParameter(_NOT_THERE.format(physical))
    return topic, queue_id, offset


def query_message(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Messages of a topic by key, or by the id that their client assigned."""
    topic, key = fields.text("topic"), fields.text("key")
    n = min(max(1, fields.number("maxNum")), MAX_LOOKUP_MESSAGES)
    begin_ms, end_ms = fields.number("beginTimestamp", 0), fields.number("endTimestamp", 2**62)

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        rows: Any = msgpack.unpackb(body or b"\x90")
        fields = [
            stored_messages(caller, topic, queue_id, record)
            for topic_of, queue_id, _, record, *_ in rows
            if topic_of == topic
        ]
        if not fields:
            return StockAnswer(code=ResponseCode.QUERY_NOT_FOUND, remark=f"no message of {topic!r} has {key!r}")
        return StockAnswer({"indexLastUpdateTimestamp": 0, "indexLastUpdatePhyoffset": 0}, b"".join(fields))

    if fields.flag("_UNIQUE_KEY_QUERY"):
        return TranslatedRequest(RequestCode.VIEW_MESSAGE_BY_ID, {"message_id": key, "max_n": n}, None, answer)
    header = {"topic": topic, "key": key, "max_n": n, "begin_ms": max(0, begin_ms), "end_ms": max(0, end_ms)}
    return TranslatedRequest(RequestCode.QUERY_MESSAGE, header, None, answer)
