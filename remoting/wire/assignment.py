"""Schemas of the requests about assignment by a broker. RocketMQ: QueryAssignmentRequestBody.

A member of this project requests the assignment of all topics of its group; a member with RocketMQ's client requests it
topic by topic. Operators choose whether a group pulls or pops a topic, and read the last assignment.
"""

from __future__ import annotations

from dataclasses import replace

from remoting.request_code import RequestCode
from remoting.wire.field import CAUSE, CLIENT, GROUP, TOPIC, Effect, Field, RequestSchema, Right

_MEMBER = (GROUP.requires(Right.MEMBER), CLIENT.requires(Right.OWN))
_QUEUES = "[[topic, broker name, [queue id, ...]], ...]"

ASSIGNMENT_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.QUERY_ASSIGNMENT: RequestSchema(
        "consumer -> broker",
        "The target of a member. Sent to the first broker, by name, that serves a topic of the group; only by "
        "members whose heartbeat names the strategy BROKER.",
        (
            *_MEMBER,
            Field("version", int, "of the newest assignment that it has applied, 0 for none", minimum=0, maximum=2**62),
            CAUSE,
        ),
        body=f"msgpack array of its target in that version, as {_QUEUES}, the topics popped in it as [[topic, share], "
        "...], and the routes of all topics of the group as it sees them: [[topic, [[broker name, readable queues], "
        "...]], ...]",
        answer="header `version`; `look_again`: the members have different routes of some topic, so request its route "
        "again; `wait` without a body: keep your queues and ask again; `unchanged` without a body: version and target "
        f"are those of the request; body: msgpack array of its target, as {_QUEUES}, and the popped topics in it, as "
        "[[topic, share], ...]; there queue id -1 stands for all queues of that broker. "
        "SUBSCRIPTION_GROUP_NOT_EXIST when the caller is not a member",
        names=(
            replace(TOPIC, name="routes").freely(
                "only topics to which members of the group subscribe are used; their heartbeats took the right"
            ),
        ),
        effect=Effect.CHANGES,
    ),
    RequestCode.QUERY_TOPIC_ASSIGNMENT: RequestSchema(
        "consumer -> broker",
        "The queues of one topic for one member, computed for this request alone, from the route that a name server "
        "has. For clients of RocketMQ that leave the assignment to the broker.",
        (
            *_MEMBER,
            TOPIC.requires(Right.KNOW),
            Field("strategy", str, "`AVG` or `AVG_BY_CIRCLE`; not used where the group pops"),
        ),
        answer="header `mode`: PULL or POP; body: msgpack array of [broker name, queue id]; queue id -1 stands for "
        "all queues of that broker. TOPIC_NOT_EXIST when there is no route, SUBSCRIPTION_GROUP_NOT_EXIST when the "
        "caller is not a member that wants the topic",
        effect=Effect.READS,
    ),
    RequestCode.SET_MESSAGE_REQUEST_MODE: RequestSchema(
        "admin -> broker",
        "Let the members of a group whose queues the broker assigns pull or pop a topic.",
        (
            GROUP.requires(Right.MANAGE_GROUP),
            TOPIC.requires(Right.CONSUME_OR_MANAGE),
            Field("mode", str, "`PULL` or `POP`"),
            Field(
                "pop_share_queue_num",
                int,
                "for POP: each member pops the queues of its own target and of this many other members; all queues if "
                "it is 0 or less, or at least the number of other members",
                minimum=-(2**31),
                maximum=2**31 - 1,
            ),
            CAUSE,
        ),
        answer="empty; sent once the mode is stored",
        effect=Effect.CHANGES,
    ),
    RequestCode.GET_GROUP_ASSIGNMENT: RequestSchema(
        "admin -> broker",
        "The last assignment of a group that this broker made, and how the group consumes.",
        (GROUP.requires(Right.KNOW_GROUP),),
        answer="header `version`, 0 when it has made none; body: msgpack array of "
        f"[[client id, {_QUEUES}, [[popped topic, share], ...]], ...] and of the modes that were set: "
        "[[topic, mode, share], ...]",
        effect=Effect.READS,
    ),
}
