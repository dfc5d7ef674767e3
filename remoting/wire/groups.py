"""Schemas of the requests about consumer groups: heartbeats and member lists of consumers, settings by operators.

RocketMQ: HeartbeatData, ConsumerConnection.
"""

from __future__ import annotations

from dataclasses import replace

from model.group_settings import OWN_ATTEMPTS
from model.limits import MAX_CONFIGURED_ATTEMPTS, MAX_INVISIBLE_MS, MAX_RETRY_DELAYS, MAX_RETRY_QUEUES
from remoting.request_code import RequestCode
from remoting.wire.field import (
    CAUSE,
    CLIENT,
    EPOCH,
    GROUP,
    QUEUE,
    TOPIC,
    Effect,
    Field,
    Noun,
    Rank,
    RequestSchema,
    Right,
)

_KNOWN = GROUP.requires(Right.KNOW_GROUP)
_MANAGED = GROUP.requires(Right.MANAGE_GROUP)
_ASKED = CLIENT.freely("it names the member to ask, which may be another user's: the right to its group covers that")
_JOINED = (
    CLIENT.requires(Right.OWN),
    replace(GROUP, name="consumers").requires(Right.MEMBER),
    replace(TOPIC, name="subscriptions").requires(Right.CONSUME),
    replace(GROUP, name="checkers").requires(Right.MEMBER),
    replace(GROUP, name="producers").freely(
        "a producer that answers no checks gets none, and every Java client claims to be in the group "
        "CLIENT_INNER_PRODUCER"
    ),
)
_SETTINGS = "`fifo`; `retry_delays_ms`; body: msgpack array of [consume, broadcast, retry queues, max attempts]"


def _attempts(doc: str, required: bool) -> Field:
    return Field("max_attempts", int, doc, required, OWN_ATTEMPTS, MAX_CONFIGURED_ATTEMPTS)


GROUP_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.HEART_BEAT: RequestSchema(
        "client -> broker",
        "Join, stay in, or change the subscription of groups.",
        (
            Field(
                "fingerprint",
                int,
                "number for the body; if it is the same as last time, there is no body",
                False,
                0,
                2**64 - 1,
            ),
        ),
        body="msgpack map of `model/heartbeat.py`: HeartbeatData; none if the last one over this connection had this "
        "fingerprint",
        answer="header `groups`: group -> [group version, time of the group's creation in wall clock ms, whether the "
        "sender was not a member before, in which case this broker has released its leases]; and `warnings`, if any: a "
        "text for each problem, repeated in each answer while the problem lasts; and `max_attempts`, if any: group -> "
        "the setting of that name, where operators have set it; and `takes_fingerprints` true. With `unknown` true "
        "the fingerprint is not known, and the body has to be sent. CLIENT_ID_CONFLICT when another live "
        "process is in one of the groups under this client id; then the sender has joined no group",
        rank=Rank.KEEPALIVE,
        names=_JOINED,
        effect=Effect.CHANGES,
    ),
    RequestCode.UNREGISTER_CLIENT: RequestSchema(
        "client -> broker",
        "Leave groups at once.",
        (
            CLIENT.requires(Right.OWN),
            EPOCH,
            Field("groups", list, "consumer groups to leave", items=str, noun=Noun.GROUP).requires(Right.MEMBER),
            CAUSE,
            Field("rejoin", bool, "keep the assignment for `rejoin_within_s` of its heartbeats", required=False),
        ),
        answer="CLIENT_ID_CONFLICT when another live process is in one of the groups under this client id; then the "
        "sender has left no group",
        rank=Rank.KEEPALIVE,
        effect=Effect.CHANGES,
    ),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: RequestSchema(
        "client, admin -> broker",
        "Members of a group and the topics of each.",
        (
            _KNOWN,
            Field("known_version", int, "group version that the caller has; -1 for none", minimum=-1),
            Field("difference", bool, "the caller takes the difference from that version", required=False),
        ),
        answer="header `version`; `notify_in_ms` if members will be notified of it. If `known_version` is this one, "
        "`unchanged` true and no body; else body: msgpack [version, [[[topic, ...], [client id, ...]], ...]], one row "
        "for all members with equal topics. With `difference` true in the answer: msgpack [version, number of members, "
        "rows of members that are new or changed, [client id that left, ...]]",
        effect=Effect.READS,
    ),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: RequestSchema(
        "broker -> member, one-way",
        "The group changed: rebalance.",
        (
            GROUP,
            Field("version", int, "group version after the change"),
            CAUSE,
            Field("since", int, "version of the last notification, if there is a body", required=False, minimum=-1),
        ),
        body="none, or the difference from version `since`, as in the answer of GET_CONSUMER_LIST_BY_GROUP",
    ),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: RequestSchema(
        "admin -> broker",
        "Members of a group with their subscriptions, strategy, model and queues.",
        (_KNOWN,),
        answer="body: msgpack map",
        effect=Effect.READS,
    ),
    RequestCode.GET_CONSUMER_RUNNING_INFO: RequestSchema(
        "admin -> broker",
        "The state of a member that is a client of RocketMQ: its fetched messages, rates and options. The broker asks "
        "the member with the same request.",
        (_KNOWN, _ASKED, Field("stacks", bool, "with the stacks of its threads", required=False)),
        answer="body: ConsumerRunningInfo in JSON, as the member wrote it. CONSUMER_NOT_ONLINE when it is not "
        "connected, ILLEGAL_OPERATION when it is not a client of RocketMQ, SYSTEM_BUSY when it does not answer",
        effect=Effect.READS,
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: RequestSchema(
        "admin -> broker",
        "Have a member that is a client of RocketMQ consume one message now, whatever its offsets are. The broker asks "
        "the member with the same request.",
        (_MANAGED, _ASKED, TOPIC.requires(Right.CONSUME), QUEUE, Field("offset", int, "of the message", minimum=0)),
        body="none; to the member the record of the message",
        answer="body: ConsumeMessageDirectlyResult in JSON, as the member wrote it. Refusals as those of "
        "GET_CONSUMER_RUNNING_INFO, and QUERY_NOT_FOUND without such a message",
        effect=Effect.READS,
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: RequestSchema(
        "admin -> broker",
        "Change settings of a group on this broker, also of one that has no members yet; those that are absent stay.",
        (
            _MANAGED,
            Field("consume", bool, "whether its members get messages", required=False),
            Field("broadcast", bool, "whether its broadcasting members get messages", required=False),
            Field("retry_queues", int, "queues of its retry topic that are written", False, 1, MAX_RETRY_QUEUES),
            _attempts("retries of a failed message before it goes to the DLQ; -1 for the option of each member", False),
            Field("fifo", bool, "whether its pops are in order", required=False),
            Field(
                "retry_delays_ms",
                list,
                f"delays before the first, second, ... retry of a failed message, at most {MAX_RETRY_DELAYS}; the last "
                "one is repeated, and without any RocketMQ's delays count",
                False,
                0,
                MAX_INVISIBLE_MS,
                items=int,
            ),
            CAUSE,
        ),
        answer=f"once they are stored: header `cause`: the cause of the event, empty if nothing changed; {_SETTINGS}",
        effect=Effect.CHANGES,
    ),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: RequestSchema(
        "admin -> broker",
        "The settings of a group on this broker; the defaults for one that is not known.",
        (_KNOWN,),
        answer=f"header `is_set`, whether operators have set any; {_SETTINGS}",
        effect=Effect.READS,
    ),
    RequestCode.NOTIFY_GROUP_SETTINGS: RequestSchema(
        "broker -> member, one-way",
        "The settings of the group that a member acts on have changed at this broker.",
        (GROUP, _attempts("as in UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", True), CAUSE),
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: RequestSchema(
        "admin -> broker",
        "Delete a group with its offsets and its retry topic. ILLEGAL_OPERATION while it has members.",
        (_MANAGED, CAUSE),
        effect=Effect.CHANGES,
    ),
    RequestCode.GET_GROUP_LIST: RequestSchema(
        "admin -> broker",
        "Groups that have members, committed offsets or settings here.",
        (
            Field(
                "topic", str, "only groups that read this topic, or have read it", required=False, noun=Noun.TOPIC
            ).requires(Right.KNOW, absent=Right.ADMIN),
        ),
        answer="body: msgpack array of [group, members, version]",
        effect=Effect.READS,
    ),
}
