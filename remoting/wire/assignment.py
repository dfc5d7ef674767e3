"""What the requests of assignment by a broker carry and answer. RocketMQ: QueryAssignmentRequestBody."""

from __future__ import annotations

from remoting.wire.field import CAUSE, CLIENT, GROUP, TOPIC, Field, RequestSchema
from remoting.wire.request_code import RequestCode

_QUEUES = "[[topic, broker name, [queue id, ...]], ...]"

ASSIGNMENT_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.QUERY_ASSIGNMENT: RequestSchema(
        sender="consumer -> broker",
        purpose="What should this member have? Asked of the first broker, by name, that serves a topic of the group; "
        "only by members whose heartbeat names the strategy BROKER.",
        fields=(
            GROUP,
            CLIENT,
            Field(
                "version",
                int,
                "of the newest assignment that it has acted on, 0 for none",
                minimum=0,
                maximum=2**62,
            ),
            CAUSE,
        ),
        body=f"msgpack array of its share of that version, as {_QUEUES}, the topics popped in it as "
        "[[topic, share], ...], and where every topic of the group is as it sees it: [[topic, [[broker name, readable "
        "queues], ...]], ...]",
        answer="header `version`; `look_again`: members see different queues of some topic; `wait` without a body: "
        "keep what you have and ask again; `unchanged` without a body: version and share are what was asked with; "
        f"body: msgpack array of its share, as {_QUEUES}, and the topics in it that are popped, as [[topic, share], "
        "...]; there queue id -1 stands for all queues of that broker. "
        "SUBSCRIPTION_GROUP_NOT_EXIST when the caller is no member",
    ),
    RequestCode.SET_MESSAGE_REQUEST_MODE: RequestSchema(
        sender="admin -> broker",
        purpose="Let members of a group that let the broker share queues out pull or pop a topic.",
        fields=(
            GROUP,
            TOPIC,
            Field("mode", str, "`PULL` or `POP`"),
            Field(
                "pop_share_queue_num",
                int,
                "for POP: each member pops its own share of the queues and those of so many others; 0 or less, or as "
                "many as there are others: all of them",
                minimum=-(2**31),
                maximum=2**31 - 1,
            ),
            CAUSE,
        ),
        answer="once it is stored",
    ),
    RequestCode.GET_GROUP_ASSIGNMENT: RequestSchema(
        sender="admin -> broker",
        purpose="The assignment of a group that this broker made last, and how the group gets messages.",
        fields=(GROUP,),
        answer="header `version`, 0 when it has made none; body: msgpack array of "
        f"[[client id, {_QUEUES}, [[popped topic, share], ...]], ...] and of what was set: [[topic, mode, share], ...]",
    ),
}
