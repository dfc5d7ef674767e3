"""The requests about brokers, topics and routes. RocketMQ: RegisterBrokerRequestHeader, GetRouteInfoRequestHeader."""

from __future__ import annotations

from model.limits import MAX_TOPICS
from remoting.request_code import RequestCode
from remoting.wire.field import BROKER, CAUSE, TOPIC, Field, RequestSchema

_TOPIC_CONFIG = (
    Field("read_queue_nums", int, "queues that can be read", minimum=0),
    Field("write_queue_nums", int, "queues that can be written", minimum=0),
    Field("perm", int, "4 read + 2 write", minimum=0, maximum=7),
)

TOPIC_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.REGISTER_BROKER: RequestSchema(
        "broker -> name server",
        "Announce a broker and all its topics; repeated every 30 s and at every change.",
        (
            Field("cluster", str, "cluster name"),
            BROKER,
            Field("broker_id", int, "0 for the master", minimum=0),
            Field("address", str, "host:port that clients connect to"),
            Field("version", int, "data version; grows with every change of the topics", minimum=0),
            Field("expiry_ms", int, "silence after which the broker is considered dead", minimum=1),
            CAUSE,
        ),
        rows=(TOPIC, *_TOPIC_CONFIG),
        max_rows=MAX_TOPICS,
        answer="header `changed`: whether any route changed",
    ),
    RequestCode.UNREGISTER_BROKER: RequestSchema(
        "broker -> name server",
        "Leave at once.",
        (BROKER, Field("broker_id", int, "0 for the master", minimum=0), Field("address", str, "host:port")),
    ),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: RequestSchema(
        "client -> name server",
        "Route of a topic: its brokers and their queues.",
        (TOPIC,),
        answer="body: msgpack map of `model/topic_route.py`: TopicRoute; TOPIC_NOT_EXIST when no broker serves it",
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: RequestSchema(
        "admin -> name server",
        "All brokers.",
        answer="body: msgpack array of [cluster, broker name, [[broker id, address], ...]]",
    ),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: RequestSchema(
        "admin -> name server", "All topics.", answer="body: msgpack array of names, sorted"
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC: RequestSchema(
        "admin -> broker", "Create a topic or change its queue counts and permissions.", (TOPIC, *_TOPIC_CONFIG, CAUSE)
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: RequestSchema(
        "admin -> broker", "Delete a topic and its messages on one broker.", (TOPIC, CAUSE)
    ),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: RequestSchema(
        "admin -> name server", "Forget a topic of every broker.", (TOPIC,)
    ),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: RequestSchema(
        "admin -> name server",
        "Take the write permission from every topic of a broker, so that producers leave it.",
        (BROKER,),
        answer="header `n`: topics changed",
    ),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: RequestSchema(
        "admin -> name server",
        "Restore the write permission of every topic of a broker.",
        (BROKER,),
        answer="header `n`: topics changed",
    ),
    RequestCode.GET_BROKER_RUNTIME_INFO: RequestSchema(
        "admin -> broker", "Counters and topics of a broker.", answer="body: msgpack map"
    ),
    RequestCode.GET_SERVER_STATE: RequestSchema(
        "anyone -> any server",
        "Health: kind, name and uptime of a server.",
        answer="header `kind` (namesrv, broker), `name`, `uptime_s`",
    ),
}
