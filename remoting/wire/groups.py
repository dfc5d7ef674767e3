"""The requests about groups and their members. RocketMQ: HeartbeatData, ConsumerConnection."""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.wire.field import CAUSE, CLIENT, EPOCH, GROUP, Field, RequestSchema

GROUP_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.HEART_BEAT: RequestSchema(
        "client -> broker",
        "Join, stay in, or change the subscription of groups.",
        body="msgpack map of `model/heartbeat.py`: HeartbeatData",
        answer="header `groups`: group -> [group version, time of the group's creation in wall clock ms, whether the "
        "sender was not a member before, in which case this broker has released its leases]; and `warnings`, if any: a "
        "text for each problem, repeated in each answer while the problem lasts. CLIENT_ID_CONFLICT when another live "
        "process is in one of the groups under this client id; then the sender has joined no group",
    ),
    RequestCode.UNREGISTER_CLIENT: RequestSchema(
        "client -> broker",
        "Leave groups at once.",
        (CLIENT, EPOCH, Field("groups", list, "consumer groups to leave", items=str), CAUSE),
        answer="CLIENT_ID_CONFLICT when another live process is in one of the groups under this client id; then the "
        "sender has left none",
    ),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: RequestSchema(
        "client, admin -> broker",
        "Members of a group and the topics of each.",
        (GROUP, Field("known_version", int, "group version that the caller has; -1 for none", minimum=-1)),
        answer="header `version`, and if it equals `known_version`, `unchanged` true and no body; else "
        "body: msgpack [version, [[[topic, ...], [client id, ...]], ...]], one row for all members with equal topics",
    ),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: RequestSchema(
        "broker -> member, one-way",
        "The group changed: rebalance.",
        (GROUP, Field("version", int, "group version after the change"), CAUSE),
    ),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: RequestSchema(
        "admin -> broker",
        "Members of a group with their subscriptions, strategy, model and queues.",
        (GROUP,),
        answer="body: msgpack map",
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: RequestSchema(
        "admin -> broker",
        "Delete a group with its offsets and its retry topic. ILLEGAL_OPERATION while it has members.",
        (GROUP, CAUSE),
    ),
    RequestCode.GET_GROUP_LIST: RequestSchema(
        "admin -> broker",
        "Groups that have members or committed offsets here.",
        answer="body: msgpack array of [group, members, version]",
    ),
}
