"""The membership of our client in groups of RocketMQ's brokers: heartbeats, leaving, and the other members. Pure.

The other direction of `rocketmq/joining.py`. A server of RocketMQ reports only the ids of members, so all members count
as subscribers of this member's topics.
"""

from __future__ import annotations

import zlib
from typing import Any

from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, HeartbeatData
from model.message import tag_hash
from model.subscription import SubscriptionData
from remoting.request_code import RequestCode
from rocketmq.fields import Fields, expression_type, json_bytes, table_by_queue
from rocketmq.frame import Frame
from rocketmq.outward.answers import check_answer, pack_body, parse_json_body, unpack_body
from rocketmq.outward.edge import Server, Steps, StockCall, TranslatedAnswer
from rocketmq.outward.queues import broker_queues, lock_call, locked_queues

_FROM = {
    ConsumeFrom.LAST_OFFSET: "CONSUME_FROM_LAST_OFFSET",
    ConsumeFrom.FIRST_OFFSET: "CONSUME_FROM_FIRST_OFFSET",
    ConsumeFrom.TIMESTAMP: "CONSUME_FROM_TIMESTAMP",
}
_TYPES = {
    ConsumeType.ACTIVELY: "CONSUME_ACTIVELY",
    ConsumeType.PASSIVELY: "CONSUME_PASSIVELY",
    ConsumeType.POP: "CONSUME_PASSIVELY",  # as Java's: its name for POP breaks tools of 4.9
}
_MAX_VERSION = 2**31
_CHECK_CLIENT_CONFIG = 46


def heartbeat(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the heartbeat of a client, with all its groups, and renew its locks.

    A lost lock ends the session of its group, as on our brokers: the client asks for its queues again.
    """
    beat = HeartbeatData.from_wire(unpack_body(body))
    server.client_id = beat.client_id
    server.producer_group = next(iter(beat.producer_groups), server.producer_group)
    old_subscribed = server.subscribed
    subscribed = {
        each.group: {subscription.topic: subscription for subscription in each.subscriptions} for each in beat.consumers
    }
    if checks := [
        _check_call(server, group, subscription)
        for group, topics in subscribed.items()
        for topic, subscription in topics.items()
        if subscription.is_sql and subscription != old_subscribed.get(group, {}).get(topic)
    ]:
        # Before the heartbeat, which a server takes with any filter: who subscribes gets the refusal.
        answers = yield checks
        for answer in answers:
            check_answer(answer)
    server.subscribed = subscribed
    server.starts = {each.group: (each.consume_from.value, each.consume_timestamp_ms) for each in beat.consumers}
    server.held = {each.group: server.held.get(each.group, {}) for each in beat.consumers}
    server.locked = {each.group: server.locked.get(each.group, {}) for each in beat.consumers if each.ordered}
    heartbeat_body = {
        "clientID": beat.client_id,
        "consumerDataSet": [_consumer(each) for each in beat.consumers],
        "producerDataSet": [{"groupName": group} for group in beat.producer_groups],
    }
    locked = {group: list(queues) for group, queues in server.locked.items() if queues}
    answer, *renewed = yield [
        StockCall(RequestCode.HEART_BEAT, {}, json_bytes(heartbeat_body)),
        *(lock_call(server, group, queues) for group, queues in locked.items()),
    ]
    check_answer(answer)
    lost_groups: list[str] = []
    for (group, queues), frame in zip(locked.items(), renewed, strict=True):
        lost_queues = set(queues) - locked_queues(frame)
        for queue in lost_queues:
            server.locked.get(group, {}).pop(queue, None)
        lost_groups += [group] if lost_queues else []
    new = {each.group: each.group not in old_subscribed or each.group in lost_groups for each in beat.consumers}
    return TranslatedAnswer({"groups": {group: [0, 0, is_new] for group, is_new in new.items()}})


def _check_call(server: Server, group: str, subscription: SubscriptionData) -> StockCall:
    """The question whether a server can use a filter. RocketMQ: CheckClientRequestBody."""
    body = {"clientId": server.client_id, "group": group, "subscriptionData": _subscription(subscription)}
    return StockCall(_CHECK_CLIENT_CONFIG, {}, json_bytes(body))


def _subscription(subscription: SubscriptionData) -> dict[str, object]:
    return {
        **{"topic": subscription.topic, "subString": subscription.expression, "subVersion": subscription.version},
        **{"expressionType": expression_type(subscription), "classFilterMode": False},
        "tagsSet": sorted(subscription.tags or ()),
        "codeSet": sorted(map(tag_hash, subscription.tags or ())),
    }


def _consumer(data: ConsumerData) -> dict[str, object]:
    return {
        "groupName": data.group,
        "consumeType": _TYPES[data.consume_type],
        "messageModel": data.model.value,
        "consumeFromWhere": _FROM[data.consume_from],
        "unitMode": False,
        "subscriptionDataSet": [_subscription(subscription) for subscription in data.subscriptions],
    }


def leave(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """Translate the leave of a client from its groups."""
    answers = yield [
        StockCall(RequestCode.UNREGISTER_CLIENT, {"clientID": header["client_id"], "consumerGroup": group})
        for group in header["groups"] or [""]
    ]
    for answer in answers:
        check_answer(answer)
    return TranslatedAnswer({})


def members(server: Server, header: dict[str, Any], body: bytes) -> Steps:
    """The members of a group. The version is a hash of their ids and topics, so equal lists have equal versions."""
    group = header["group"]
    [answer] = yield [StockCall(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})]
    ids = sorted(parse_json_body(answer)["consumerIdList"])
    topics = sorted(server.subscribed.get(group, {}))
    version = zlib.crc32("\n".join((*topics, "", *ids)).encode()) % _MAX_VERSION
    return TranslatedAnswer({"version": version}, pack_body([version, [[topics, ids]]]))


def members_changed(server: Server, frame: Frame) -> tuple[int, dict[str, Any], None]:
    """A notification that a group has changed; it does not contain the new state."""
    header = {"group": Fields(frame.fields).text("consumerGroup"), "version": -1, "cause": ""}
    return RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, None


def running_info(server: Server, frame: Frame) -> bytes:
    """The queues and subscriptions of this client in a group at this broker, as the tools show them."""
    group = Fields(frame.fields).text("consumerGroup")
    locks = server.locked.get(group, {})
    queues = sorted(server.held.get(group, {}))
    rows = [
        (
            queue_fields,
            {"commitOffset": server.cluster.committed(server.address, group, *queue), "locked": queue in locks},
        )
        for queue_fields, queue in zip(broker_queues(server, queues), queues, strict=True)
    ]
    fields = {
        "properties": {"PROP_CONSUMEORDERLY": str(bool(locks)).lower(), "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
        "subscriptionSet": [
            {
                "topic": topic,
                "subString": subscription.expression,
                "subVersion": 0,
                "expressionType": expression_type(subscription),
            }
            for topic, subscription in sorted(server.subscribed.get(group, {}).items())
        ],
        **{"mqTable": table_by_queue(rows), "mqPopTable": {}, "statusTable": {}},
    }
    return json_bytes(fields)
