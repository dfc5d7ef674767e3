"""Schemas of the requests about topics and their routes.

RocketMQ: GetRouteInfoRequestHeader, CreateTopicRequestHeader.
"""

from __future__ import annotations

from remoting.request_code import RequestCode
from remoting.wire.field import CAUSE, TOPIC, Effect, Field, Noun, RequestSchema, Right

_MANAGED_TOPIC = TOPIC.requires(Right.MANAGE_TOPIC)
TOPIC_CONFIG = (
    Field("read_queue_nums", int, "queues that can be read", minimum=0),
    Field("write_queue_nums", int, "queues that can be written", minimum=0),
    Field("perm", int, "4 read + 2 write", minimum=0, maximum=7),
)
_TYPES = "types of messages that it takes: 0 MIXED, 1 NORMAL, 2 FIFO, 3 DELAY, 4 TRANSACTION"

TOPIC_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: RequestSchema(
        "client -> name server",
        "Route of a topic: its brokers and their queues.",
        (
            TOPIC.requires(Right.KNOW),
            Field(
                "known_version",
                int,
                "version of the route table at which the caller read all of its routes",
                False,
                minimum=0,
            ),
            Field("notify", bool, "whether the connection gets NOTIFY_ROUTE_CHANGED of the topic from now on", False),
        ),
        answer="header `version`: version of the route table, which begins a new series when the name server restarts. "
        "If `known_version` is this version, the header has `unchanged`: true, and the answer has no body. Otherwise "
        "body: msgpack map of `model/topic_route.py`: TopicRoute; TOPIC_NOT_EXIST when no broker "
        "serves it, SERVICE_NOT_AVAILABLE while the name server has just started and "
        "may not know it yet",
    ),
    RequestCode.GET_ROUTEINFO_FROM_BROKER: RequestSchema(
        "client -> broker",
        "Route of a topic, for clients that know only the address of a broker. The broker asks its name server; "
        "a broker without a name server answers with a route that has only itself.",
        (TOPIC.requires(Right.KNOW),),
        answer="body: msgpack map of TopicRoute, as a name server sends it; TOPIC_NOT_EXIST when no broker serves it",
        effect=Effect.LOCAL,
    ),
    RequestCode.NOTIFY_ROUTE_CHANGED: RequestSchema(
        "name server -> client, one-way",
        "Routes that this connection has asked for with `notify` have changed: ask again. A connection gets at most "
        "one in 0.5 s.",
        (
            Field(
                "topics", list, "their topics; absent when they are many", required=False, items=str, noun=Noun.TOPIC
            ).freely("a name server sends a client the topics that it may know"),
        ),
    ),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: RequestSchema(
        "admin -> name server",
        "All topics.",
        answer="body: msgpack array of names, sorted",
        right=Right.ADMIN,
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC: RequestSchema(
        "admin -> broker",
        "Create a topic or change its queue counts, permissions and message type.",
        (
            _MANAGED_TOPIC,
            *TOPIC_CONFIG,
            Field("message_type", int, f"{_TYPES}; absent to leave it", required=False, minimum=0, maximum=4),
            CAUSE,
        ),
        effect=Effect.CHANGES,
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: RequestSchema(
        "admin -> broker",
        "Delete a topic and its messages on one broker.",
        (_MANAGED_TOPIC, CAUSE),
        effect=Effect.CHANGES,
    ),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: RequestSchema(
        "admin -> name server", "Remove a topic from the routes of every broker.", (_MANAGED_TOPIC,)
    ),
}
