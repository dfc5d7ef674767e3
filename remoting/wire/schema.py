"""What every request carries and answers: one table that the server checks headers with and the docs are made from.

A field is named in the header's map. `check_header` runs before every handler, so handlers index the header without
looking again. Bodies are checked by whoever reads them (`from_wire` of the records in `model/`).
"""

from __future__ import annotations

from model.delay import MAX_DELAY_MS
from model.errors import InvalidParameter
from model.limits import MAX_LOOKUP_MESSAGES, MAX_PULL_BATCH
from model.offset_reset import MAX_VALUE as MAX_RESET_VALUE
from remoting.command import Command, shown
from remoting.wire.assignment import ASSIGNMENT_SCHEMA
from remoting.wire.field import BROKER, CAUSE, CLIENT, GROUP, QUEUE, TOPIC, Field, RequestSchema
from remoting.wire.pop import POP_SCHEMA
from remoting.wire.request_code import RequestCode
from remoting.wire.sink import SINK_SCHEMA

SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.SEND_MESSAGE: RequestSchema(
        sender="producer -> broker",
        purpose="Store one message; answered once it is written.",
        fields=(
            TOPIC,
            QUEUE,
            Field("tag_hash", int, "hash of the message's tag, 0 for none", minimum=-(2**31), maximum=2**31 - 1),
            Field("delay_ms", int, "deliver it so much later; absent for at once", False, 0, MAX_DELAY_MS),
            Field("times_delivered", int, "failed deliveries before, of a copy for a retry", False, 0, 65_535),
        ),
        body="payload (see `model/message.py`)",
        answer="header `offset`: offset in the queue, -1 for a delayed message, which has none yet",
    ),
    RequestCode.SEND_BATCH_MESSAGE: RequestSchema(
        sender="producer -> broker",
        purpose="Store messages of one topic in one queue, all or none.",
        fields=(TOPIC, QUEUE),
        body="msgpack array of [tag hash, payload]",
        answer="header `offset`: offset of the first; the others follow",
    ),
    RequestCode.PULL_MESSAGE: RequestSchema(
        sender="consumer -> broker",
        purpose="Read messages of one queue; held until there are some when `suspend_ms` is positive.",
        fields=(
            GROUP,
            TOPIC,
            QUEUE,
            Field("offset", int, "first offset wanted", minimum=0),
            Field("max_n", int, "messages at the most", minimum=1, maximum=MAX_PULL_BATCH),
            Field("suspend_ms", int, "how long the broker may hold the request", minimum=0, maximum=60_000),
            Field("tag_hashes", list, "hashes of the wanted tags; absent for all", required=False),
            Field("client_id", str, "who pulls; with `token` it renews the lease of the queue", required=False),
            Field(
                "token", int, "fencing token of the lease; absent when the queue is read without one", required=False
            ),
        ),
        answer="header `next_offset`, `min_offset`, `max_offset`; body: stored records back to back "
        "(`model/record.py`). PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY and PULL_OFFSET_MOVED carry the same header",
    ),
    RequestCode.QUERY_MESSAGE: RequestSchema(
        sender="admin -> broker",
        purpose="Find messages of a topic by key, copies for a retry and dead letters included.",
        fields=(
            TOPIC,
            Field("key", str, "one of the keys of the message"),
            Field("max_n", int, "messages at the most", minimum=1, maximum=MAX_LOOKUP_MESSAGES),
            Field("before", int, "only what lies before this log position: where to go on", False, minimum=0),
            Field("begin_ms", int, "stored then or later, wall clock in milliseconds", False, minimum=0),
            Field("end_ms", int, "stored then or earlier", False, minimum=0),
        ),
        answer="header `next_before`: ask again from there for what is older, -1 when everything was searched; "
        "body: msgpack array of [topic, queue id, when it is delivered in wall clock ms or -1, stored record], the "
        "newest first",
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: RequestSchema(
        sender="consumer, admin -> broker",
        purpose="Committed offset of a group for one queue.",
        fields=(GROUP, TOPIC, QUEUE),
        answer="header `offset`; QUERY_NOT_FOUND when none is stored",
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: RequestSchema(
        sender="consumer, admin -> broker",
        purpose="Commit offsets of a group, any number of queues in one request.",
        fields=(
            GROUP,
            CLIENT,
            Field(
                "reset",
                bool,
                "offsets may go backwards, because the member that has the lease wants to, or lost what was there",
                required=False,
            ),
            CAUSE,
        ),
        body="msgpack array of [topic, queue id, offset, token or -1]",
        answer="body: msgpack array of [topic, queue id, response code, remark], the refused ones only",
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC: RequestSchema(
        sender="admin -> broker",
        purpose="Create a topic or change its queue counts and permissions.",
        fields=(
            TOPIC,
            Field("read_queue_nums", int, "queues that can be read", minimum=0),
            Field("write_queue_nums", int, "queues that can be written", minimum=0),
            Field("perm", int, "4 read + 2 write", minimum=0, maximum=7),
            CAUSE,
        ),
    ),
    RequestCode.GET_BROKER_RUNTIME_INFO: RequestSchema(
        sender="admin -> broker",
        purpose="Counters and topics of a broker.",
        answer="body: msgpack map",
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: RequestSchema(
        sender="consumer, admin -> broker",
        purpose="First offset stored at or after a time.",
        fields=(TOPIC, QUEUE, Field("timestamp_ms", int, "wall clock in milliseconds", minimum=0)),
        answer="header `offset`; the end of the queue when nothing is that young",
    ),
    RequestCode.GET_MAX_OFFSET: RequestSchema(
        sender="consumer, admin -> broker",
        purpose="Offset that the next message of the queue gets.",
        fields=(TOPIC, QUEUE),
        answer="header `offset`",
    ),
    RequestCode.GET_MIN_OFFSET: RequestSchema(
        sender="consumer, admin -> broker",
        purpose="Lowest offset that the queue still holds.",
        fields=(TOPIC, QUEUE),
        answer="header `offset`",
    ),
    RequestCode.VIEW_MESSAGE_BY_ID: RequestSchema(
        sender="admin -> broker",
        purpose="Find every place in which a message is: where it was sent to, retries, dead letters.",
        fields=(
            Field("message_id", str, "id that the producer gave it"),
            Field("max_n", int, "messages at the most", minimum=1, maximum=MAX_LOOKUP_MESSAGES),
            Field("before", int, "only what lies before this log position: where to go on", False, minimum=0),
        ),
        answer="as of QUERY_MESSAGE",
    ),
    RequestCode.HEART_BEAT: RequestSchema(
        sender="client -> broker",
        purpose="Join, stay in, or change the subscription of groups.",
        body="msgpack map of `model/heartbeat.py`: HeartbeatData",
        answer="header `groups`: group -> [version of the group now, when it was created in wall clock ms, "
        "whether the sender was no member before: what it held here was freed]; and `warnings`, if any: texts that "
        "tell what is wrong, the same in each answer until it changes. CLIENT_ID_CONFLICT when another live process is "
        "in one of the groups under this client id; then it has joined none",
    ),
    RequestCode.UNREGISTER_CLIENT: RequestSchema(
        sender="client -> broker",
        purpose="Leave groups at once.",
        fields=(CLIENT, Field("groups", list, "consumer groups to leave"), CAUSE),
    ),
    RequestCode.CONSUMER_SEND_MSG_BACK: RequestSchema(
        sender="consumer -> broker",
        purpose="A message could not be processed: deliver it again later, or keep it as a dead letter.",
        fields=(
            GROUP,
            TOPIC,
            QUEUE,
            Field("offset", int, "its offset", minimum=0),
            Field("max_attempts", int, "retries after which it is a dead letter", minimum=0),
            Field("delay_ms", int, "wait before the next attempt; absent for 10 s, 30 s, 1 m, ...", False, minimum=0),
        ),
        answer="header `dead`: whether it is a dead letter now",
    ),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: RequestSchema(
        sender="client, admin -> broker",
        purpose="Members of a group and the topics of each.",
        fields=(GROUP, Field("known_version", int, "version that the caller has; -1 for none", minimum=-1)),
        answer="header `version`, and `unchanged` true without a body when it is the known one; "
        "body: msgpack [version, [[[topic, ...], [client id, ...]], ...]], one row for all members with equal topics",
    ),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: RequestSchema(
        sender="broker -> member, one-way",
        purpose="The group changed: rebalance.",
        fields=(GROUP, Field("version", int, "version of the group now"), CAUSE),
    ),
    RequestCode.LOCK_BATCH_MQ: RequestSchema(
        sender="consumer -> broker",
        purpose="Ask for leases of queues; whoever is refused is told when the queue is released.",
        fields=(GROUP, CLIENT, CAUSE),
        body="msgpack array of [topic, queue id]",
        answer="body: msgpack [granted, refused]; granted: [topic, queue id, token, offset to start from]; "
        "refused: [topic, queue id, owner]. SUBSCRIPTION_GROUP_NOT_EXIST when the caller is no member: it has to "
        "send a heartbeat first",
    ),
    RequestCode.UNLOCK_BATCH_MQ: RequestSchema(
        sender="consumer -> broker",
        purpose="Commit and give back leases of queues, in one step.",
        fields=(GROUP, CLIENT, CAUSE),
        body="msgpack array of [topic, queue id, offset to commit or -1, token]",
        answer="body as of UPDATE_CONSUMER_OFFSET",
    ),
    RequestCode.REGISTER_BROKER: RequestSchema(
        sender="broker -> name server",
        purpose="Announce a broker and all its topics; repeated every 30 s and at every change.",
        fields=(
            Field("cluster", str, "cluster name"),
            BROKER,
            Field("broker_id", int, "0 for the master", minimum=0),
            Field("address", str, "host:port that clients connect to"),
            Field("version", int, "data version; grows with every change of the topics", minimum=0),
            Field("expiry_ms", int, "silence after which the broker is taken for dead", minimum=1),
            CAUSE,
        ),
        body="msgpack array of [topic, read queues, write queues, perm]",
        answer="header `changed`: whether any route changed",
    ),
    RequestCode.UNREGISTER_BROKER: RequestSchema(
        sender="broker -> name server",
        purpose="Leave at once.",
        fields=(BROKER, Field("broker_id", int, "0 for the master", minimum=0), Field("address", str, "host:port")),
    ),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: RequestSchema(
        sender="client -> name server",
        purpose="Where a topic lives.",
        fields=(TOPIC,),
        answer="body: msgpack map of `model/topic_route.py`: TopicRoute; TOPIC_NOT_EXIST when nobody serves it",
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: RequestSchema(
        sender="admin -> name server",
        purpose="All brokers.",
        answer="body: msgpack array of [cluster, broker name, [[broker id, address], ...]]",
    ),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: RequestSchema(
        sender="admin -> broker",
        purpose="Members of a group with their subscriptions, strategy, model and queues.",
        fields=(GROUP,),
        answer="body: msgpack map",
    ),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: RequestSchema(
        sender="admin -> name server",
        purpose="Take the write permission from every topic of a broker, so that producers leave it.",
        fields=(BROKER,),
        answer="header `n`: topics changed",
    ),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: RequestSchema(
        sender="admin -> name server",
        purpose="Give every topic of a broker its write permission back.",
        fields=(BROKER,),
        answer="header `n`: topics changed",
    ),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: RequestSchema(
        sender="admin -> name server",
        purpose="All topics.",
        answer="body: msgpack array of names, sorted",
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: RequestSchema(
        sender="admin -> broker",
        purpose="Forget a group: its offsets and its retry topic. ILLEGAL_OPERATION while it has members.",
        fields=(GROUP, CAUSE),
    ),
    RequestCode.GET_CONSUME_STATS: RequestSchema(
        sender="admin -> broker",
        purpose="Progress of a group on every queue of its topics.",
        fields=(GROUP, Field("topic", str, "only this topic", required=False)),
        answer="body: msgpack array of [topic, queue id, min offset, max offset, committed offset or -1, "
        "owner or empty, token or -1]",
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: RequestSchema(
        sender="admin -> broker", purpose="Delete a topic and its messages on one broker.", fields=(TOPIC, CAUSE)
    ),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: RequestSchema(
        sender="admin -> name server", purpose="Forget a topic of every broker.", fields=(TOPIC,)
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: RequestSchema(
        sender="admin -> broker",
        purpose="Put a group somewhere else on the queues of a topic, while it consumes: all of them or none. Whoever "
        "has such a queue loses its lease, and begins at the new place with the next one.",
        fields=(
            GROUP,
            TOPIC,
            Field("to", str, "`earliest`, `latest`, `time`, `offset` or `shift`"),
            Field(
                "value",
                int,
                "wall clock in milliseconds, offset, or distance from the commit",
                False,
                -MAX_RESET_VALUE,
                MAX_RESET_VALUE,
            ),
            Field("queue_ids", list, "only these queues; absent for all of this broker", required=False),
            Field("dry_run", bool, "only tell what would become of it", required=False),
            CAUSE,
        ),
        answer="once it is stored: header `known`, whether the group has members or offsets here; body: msgpack array "
        "of [queue id, offset before or -1, offset after, whether that is an end of the queue instead of what was "
        "asked for, owner or empty]",
    ),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: RequestSchema(
        sender="broker -> member, one-way",
        purpose="Queues of this member were reset: drop what was fetched of them and ask for them again.",
        fields=(
            GROUP,
            BROKER,
            TOPIC,
            Field("queue_ids", list, "queues of this member"),
            Field("token", int, "leases up to this token are no good any more"),
            CAUSE,
        ),
    ),
    RequestCode.GET_GROUP_LIST: RequestSchema(
        sender="admin -> broker",
        purpose="Groups that have members or committed offsets here.",
        answer="body: msgpack array of [group, members, version]",
    ),
    RequestCode.NOTIFY_QUEUES_RELEASED: RequestSchema(
        sender="broker -> refused member, one-way",
        purpose="A queue that this member asked for is free now.",
        fields=(GROUP, Field("n", int, "queues released"), CAUSE),
    ),
    RequestCode.GET_SERVER_STATE: RequestSchema(
        sender="anyone -> any server",
        purpose="Health: who this is and since when.",
        answer="header `kind` (namesrv, broker), `name`, `uptime_s`",
    ),
    RequestCode.MARK_DEAD_LETTERS: RequestSchema(
        sender="admin -> broker",
        purpose="Note that dead letters of a group were re-sent, so that they are not re-sent again; or only ask.",
        fields=(GROUP, QUEUE),
        body="msgpack array of offsets in `%DLQ%group`; none to ask",
        answer="once it is stored: header `below`: all letters below this offset were re-sent, `min_offset`, "
        "`max_offset`; body: msgpack array of those from there on that were re-sent, too",
    ),
    **POP_SCHEMA,
    **ASSIGNMENT_SCHEMA,
    **SINK_SCHEMA,
}

_CHECKS: dict[int, tuple[tuple[str, type, bool, int | None, int | None], ...]] = {
    int(code): tuple((f.name, f.type, f.required, f.minimum, f.maximum) for f in schema.fields)
    for code, schema in SCHEMA.items()
}


def check_header(request: Command) -> None:
    """Check the header of a request against the table.

    Raises:
        InvalidParameter: a field is missing, of the wrong type or out of range; the text names it.
    """
    header = request.header
    for name, kind, required, minimum, maximum in _CHECKS[request.code]:
        value = header.get(name)
        if type(value) is kind:
            if (minimum is not None and header[name] < minimum) or (maximum is not None and header[name] > maximum):
                raise InvalidParameter(
                    f"{RequestCode(request.code).name}: field {name!r} must be {_range(minimum, maximum)}, got {value}"
                )
        elif value is not None or required:
            raise InvalidParameter(
                f"{RequestCode(request.code).name}: field {name!r} must be of type {kind.__name__}, got {shown(value)}"
            )


def _range(minimum: int | None, maximum: int | None) -> str:
    if maximum is None:
        return f"at least {minimum}"
    return f"{minimum} to {maximum}" if minimum is not None else f"at most {maximum}"
