"""Translates membership: heartbeats, leaving, member lists, locks of queues, and notifications of members. Pure.

RocketMQ: ClientManageProcessor, HeartbeatData, LockBatchRequestBody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, HeartbeatData, MessageModel
from model.limits import MEMBER_EXPIRY_S
from model.response_code import ResponseCode
from model.subscription import make_subscription
from remoting.request_code import RequestCode
from rocketmq.edge import Caller, GroupSubscription, StockAnswer, TranslatedRequest, empty_answer
from rocketmq.fields import (
    TAG,
    FieldError,
    Fields,
    choice,
    json_bytes,
    json_object,
    make_expression,
    objects,
    parse_number,
)
from rocketmq.frame import Frame

_CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
_MODELS = ("BROADCASTING", "CLUSTERING")
_FROM = (
    *("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "CONSUME_FROM_MIN_OFFSET"),
    *("CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"),
)
_STARTS = {
    "CONSUME_FROM_MIN_OFFSET": ConsumeFrom.FIRST_OFFSET,
    "CONSUME_FROM_FIRST_OFFSET": ConsumeFrom.FIRST_OFFSET,
    "CONSUME_FROM_TIMESTAMP": ConsumeFrom.TIMESTAMP,
}
_STRATEGY = "AVG"
"""A heartbeat does not contain it; this is the default of every client."""
_INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
"""The producer of every Java client for messages that its consumers send back."""


def heartbeat(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate a heartbeat, with all groups of a client."""
    sent = json_object(body)
    heartbeat_fields = Fields(sent)
    client_id = heartbeat_fields.text("clientID")
    consumers = [_consumer(each) for each in objects(sent.get("consumerDataSet"), "consumerDataSet")]
    producers = [Fields(each).text("groupName") for each in objects(sent.get("producerDataSet"), "producerDataSet")]
    groups = {
        each.group: GroupSubscription(
            {subscription.topic: (subscription.given, subscription.version) for subscription in each.subscriptions},
            each.model is MessageModel.CLUSTERING,
        )
        for each in consumers
    }
    beat = HeartbeatData(
        client_id=client_id,
        consumers=tuple(consumers),
        producer_groups=tuple(producers),
        # A heartbeat does not show which producers answer checks: if one cannot, it does not answer, and the next is
        # asked.
        checkers=tuple(group for group in producers if group != _INNER_PRODUCER),
    )

    def answer(answered: dict[str, Any], body: bytes | None, code: int) -> StockAnswer:
        return StockAnswer()

    caller.client_id, caller.language = client_id, frame.language
    caller.groups.update(groups)
    return TranslatedRequest(RequestCode.HEART_BEAT, {}, msgpack.packb(beat.to_wire()), answer)


def _consumer(data: dict[str, Any]) -> ConsumerData:
    fields = Fields(data)
    group = fields.text("groupName")
    kind = choice("consumeType", data.get("consumeType"), _CONSUME_TYPES, _CONSUME_TYPES[1])
    start = choice("consumeFromWhere", data.get("consumeFromWhere"), _FROM, _FROM[-1])
    if kind == _CONSUME_TYPES[0]:
        start = _FROM[-1]  # lite pull consumers always send LAST_OFFSET, and decide themselves
    subscriptions = []
    for each in objects(data.get("subscriptionDataSet"), "subscriptionDataSet"):
        subscription = Fields(each)
        expression = make_expression(subscription.text("expressionType", TAG), subscription.text("subString", "*"))
        version = parse_number("subVersion", each.get("subVersion"), 0)
        subscriptions.append(make_subscription(subscription.text("topic"), expression, max(0, version)))
    return ConsumerData(
        group=group,
        consume_type=ConsumeType(kind.removeprefix("CONSUME_")),
        model=MessageModel(choice("messageModel", data.get("messageModel"), _MODELS, _MODELS[1])),
        consume_from=_STARTS.get(start, ConsumeFrom.LAST_OFFSET),
        strategy=_STRATEGY,
        subscriptions=tuple(sorted(subscriptions, key=lambda subscription: subscription.topic)),
        session_timeout_s=MEMBER_EXPIRY_S,
        leaseless=True,
    )


def unregister(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the leave of a client from its group."""
    group = fields.text("consumerGroup", "")
    caller.groups.pop(group, None)
    header = {"client_id": fields.text("clientID"), "groups": [group] if group else []}
    return TranslatedRequest(RequestCode.UNREGISTER_CLIENT, header, None, empty_answer)


def members(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the request for the client ids of a group."""
    group = fields.text("consumerGroup")

    def answer(answered: dict[str, Any], listed: bytes | None, code: int) -> StockAnswer:
        view: Any = msgpack.unpackb(listed or b"\x92\x00\x90")
        ids = sorted(client_id for _, ids in view[1] for client_id in ids)
        if not ids:
            return StockAnswer(code=ResponseCode.SYSTEM_ERROR, remark=f"group {group!r} has no members here")
        return StockAnswer({}, json_bytes({"consumerIdList": ids}))

    return TranslatedRequest(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": group, "known_version": -1}, None, answer
    )


def lock(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate a request for locks of queues, which are leases here."""
    group, client_id, queues, broker = _queues(body)

    def answer(answered: dict[str, Any], rows: bytes | None, code: int) -> StockAnswer:
        leases: Any = msgpack.unpackb(rows or b"\x92\x90\x90")
        locked = [{"brokerName": broker, "queueId": row[1], "topic": row[0]} for row in leases[0]]
        return StockAnswer({}, json_bytes({"lockOKMQSet": locked}))

    header = {"group": group, "client_id": client_id}
    return TranslatedRequest(RequestCode.LOCK_BATCH_MQ, header, msgpack.packb(queues), answer)


def unlock(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> TranslatedRequest:
    """Translate the release of locks of queues."""
    group, client_id, queues, _ = _queues(body)
    header = {"group": group, "client_id": client_id}
    rows = [[topic, queue_id, -1, -1] for topic, queue_id in queues]
    return TranslatedRequest(RequestCode.UNLOCK_BATCH_MQ, header, msgpack.packb(rows), empty_answer)


def _queues(body: bytes) -> tuple[str, str, list[tuple[str, int]], str]:
    """Group, client id, queues and broker name of a request about locks."""
    sent = json_object(body)
    fields, rows = Fields(sent), objects(sent.get("mqSet"), "mqSet")
    queues = sorted((Fields(row).text("topic"), Fields(row).number("queueId")) for row in rows)
    broker = Fields(rows[0]).text("brokerName", "") if rows else ""
    return fields.text("consumerGroup"), fields.text("clientId"), queues, broker


def check_config(caller: Caller, fields: Fields, body: bytes, frame: Frame) -> StockAnswer:
    """Check a filter; a client asks at its start whether it can be used, unless it filters by tags."""
    data = json_object(body).get("subscriptionData")
    if not isinstance(data, dict):
        raise FieldError("subscriptionData is missing")
    config_fields = Fields(data)
    make_expression(config_fields.text("expressionType", TAG), config_fields.text("subString", "*"))
    return StockAnswer()


def members_changed(
    caller: Caller, header: Mapping[str, Any], body: bytes | None
) -> tuple[int, Mapping[str, object], bytes | None]:
    """Translate a notification that a group has changed, or that a queue is free after its lock was refused.

    Both make a client rebalance at once. Otherwise it would ask for the lock again in 20 s, or in 0.5 s since 5.0.
    """
    return RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": header["group"]}, None
