"""Schemas of the requests about servers as a whole: health, counters, the list of brokers and their permissions.

RocketMQ: RegisterBrokerRequestHeader.
"""

from __future__ import annotations

from model.limits import MAX_BROKER_EXPIRY_S, MAX_TOPICS
from remoting.request_code import RequestCode
from remoting.wire.field import BROKER, CAUSE, TIMES, TOPIC, Effect, Field, Noun, Rank, RequestSchema, Right
from remoting.wire.topics import TOPIC_CONFIG

_MAX_EXPIRY_MS = int(MAX_BROKER_EXPIRY_S * 1000)

SERVER_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.REGISTER_BROKER: RequestSchema(
        "broker -> name server",
        "Announce a broker and all its topics; repeated every 30 s and at every change.",
        (
            Field("cluster", str, "cluster name"),
            BROKER.requires(Right.REGISTER),
            Field("broker_id", int, "0 for the master", minimum=0),
            Field("address", str, "host:port that clients connect to"),
            Field("version", int, "data version; grows with every change of the topics", minimum=0),
            Field("expiry_ms", int, "silence after which the broker is considered dead", True, 1, _MAX_EXPIRY_MS),
            Field("newcomer", bool, "whether no name server has known this broker before", required=False),
            Field("data_id", int, "random number of the broker's data directory", required=False, minimum=0),
            Field("set_id", int, "number of the set of replicas that it belongs to", required=False, minimum=1),
            Field("epoch", int, "number of the mastership that it knows; of a master, its own", False, minimum=1),
            Field("replica_id", int, "its number in the set, also while it is the master", False, minimum=1),
            Field("role", str, "its role in the set, for display", required=False),
            Field("lag_bytes", int, "bytes of the master's log that it does not have", required=False, minimum=0),
            Field(
                "message_types",
                str,
                "one digit for each topic of the body, as in UPDATE_AND_CREATE_TOPIC; absent if all are MIXED",
                required=False,
                maximum=MAX_TOPICS,
            ),
            CAUSE,
        ),
        rows=(TOPIC.freely("a broker announces whatever topics it serves"), *TOPIC_CONFIG),
        max_rows=MAX_TOPICS,
        rank=Rank.KEEPALIVE,
        answer="header `changed`: whether any route changed. BROKER_NAME_TAKEN while another broker or another set "
        "has the name; NOT_MASTER if a later mastership of the set has registered",
    ),
    RequestCode.UNREGISTER_BROKER: RequestSchema(
        "broker -> name server",
        "Leave at once.",
        (
            BROKER.requires(Right.REGISTER),
            Field("broker_id", int, "0 for the master", minimum=0),
            Field("address", str, "host:port"),
        ),
        rank=Rank.KEEPALIVE,
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: RequestSchema(
        "admin -> name server",
        "All brokers.",
        answer="body: msgpack array of [cluster, broker name, [[broker id, address], ...]]; header `sets` if there are "
        "sets of replicas: [broker name, set id, epoch, [[broker id, replica id, role, bytes behind the master], ...]] "
        "of each",
        right=Right.ANYONE,  # every client gets the addresses of brokers with its first route
    ),
    RequestCode.GET_ABSENT_BROKERS: RequestSchema(
        "admin -> name server",
        "The brokers that left this name server without unregistering since it started, and have not returned.",
        (
            Field(
                "topic", str, "only the brokers that have this topic, and only its queues", False, noun=Noun.TOPIC
            ).requires(Right.KNOW, absent=Right.ADMIN),
        ),
        answer="header `uptime_s`; body: msgpack array of [cluster, broker name, broker id, address, seconds since it "
        "left, how that was noticed, [[topic, read queues, write queues, permissions], ...]]",
    ),
    RequestCode.FORGET_BROKER: RequestSchema(
        "admin -> name server",
        "Forget an absent broker that will not return.",
        (BROKER,),
        answer="header `n`: brokers of this name that were absent",
        right=Right.ADMIN,
    ),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: RequestSchema(
        "admin -> name server",
        "Take the write permission from every topic of a broker, so that producers leave it.",
        (BROKER,),
        answer="header `n`: topics changed",
        right=Right.ADMIN,
    ),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: RequestSchema(
        "admin -> name server",
        "Restore the write permission of every topic of a broker.",
        (BROKER,),
        answer="header `n`: topics changed",
        right=Right.ADMIN,
    ),
    RequestCode.GET_BROKER_RUNTIME_INFO: RequestSchema(
        "admin -> broker",
        "Counters and topics of a broker.",
        (
            Field("topic", str, "only this topic", required=False, noun=Noun.TOPIC).requires(
                Right.KNOW, absent=Right.ADMIN
            ),
            TIMES,
        ),
        answer="body: msgpack map, in it `topics`: [..., [min offset, max offset, with `times` when the last message "
        "was stored or 0] of each queue]",
        effect=Effect.READS,
    ),
    RequestCode.GET_CHALLENGE: RequestSchema(
        "client -> any server's gate",
        "Begin to prove a key: the first request to a server with access control, which accepts no other before "
        "AUTHENTICATE. `remoting/security/handshake.py` has the proofs. Brokers are clients of name servers.",
        (
            Field("user", str, "name of the user whose key it is"),
            Field("nonce", str, "32 random characters"),
        ),
        answer="header `nonce`: 32 random characters of the server",
    ),
    RequestCode.AUTHENTICATE: RequestSchema(
        "client -> any server's gate",
        "Prove a key over both nonces. After the answer everything on the connection is signed "
        "(`remoting/security/records.py`).",
        (Field("proof", str, "64 hex digits"),),
        answer="header `proof`: 64 hex digits, with which the server proves that it knows the user. NOT_AUTHENTICATED "
        "for a wrong key",
    ),
    RequestCode.GET_SERVER_STATE: RequestSchema(
        "anyone -> any server",
        "Health: kind, name and uptime of a server.",
        answer="header `kind` (namesrv, broker), `name`, `uptime_s`",
        right=Right.ANYONE,
        effect=Effect.LOCAL,
    ),
}
