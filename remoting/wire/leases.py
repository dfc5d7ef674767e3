"""Schemas of the requests about leases of queues and committed offsets, and about the progress of groups.

RocketMQ: LockBatchRequestBody, ResetOffsetBody.
"""

from __future__ import annotations

from model.limits import MAX_LEASE_ROWS
from model.offset_reset import MAX_VALUE as MAX_RESET_VALUE
from remoting.request_code import RequestCode
from remoting.wire.field import (
    BROKER,
    CAUSE,
    CLIENT,
    DATA_ID,
    EPOCH,
    GROUP,
    QUEUE,
    TIMES,
    TOPIC,
    Effect,
    Field,
    Noun,
    Rank,
    RequestSchema,
    Right,
)

_MEMBER = (GROUP.requires(Right.MEMBER), CLIENT.requires(Right.OWN))
_KNOWN = GROUP.requires(Right.KNOW_GROUP)
_CONSUMED = TOPIC.requires(Right.CONSUME)

LEASE_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.LOCK_BATCH_MQ: RequestSchema(
        "consumer -> broker",
        "Ask for leases of queues; a member that is refused is notified when the queue is released.",
        (*_MEMBER, CAUSE),
        rows=(_CONSUMED, QUEUE),
        max_rows=MAX_LEASE_ROWS,
        answer="body: msgpack [granted, refused]; granted: [topic, queue id, token, offset to start from]; "
        "refused: [topic, queue id, owner]. SUBSCRIPTION_GROUP_NOT_EXIST when the caller is not a member: it has to "
        "send a heartbeat first",
        effect=Effect.CHANGES,
    ),
    RequestCode.UNLOCK_BATCH_MQ: RequestSchema(
        "consumer -> broker",
        "Commit offsets of queues and release their leases, in one step.",
        (*_MEMBER, EPOCH, CAUSE),
        rows=(
            _CONSUMED,
            QUEUE,
            Field("offset", int, "to commit, or -1 for none"),
            Field("token", int, "fencing token of the lease, or -1 of a member without leases"),
        ),
        max_rows=MAX_LEASE_ROWS,
        answer="body as of UPDATE_CONSUMER_OFFSET, and CLIENT_ID_CONFLICT as there",
        rank=Rank.KEEPALIVE,
        effect=Effect.CHANGES,
    ),
    RequestCode.NOTIFY_QUEUES_RELEASED: RequestSchema(
        "broker -> refused member, one-way",
        "A queue that this member asked for is free now.",
        (GROUP, Field("n", int, "queues released"), CAUSE),
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: RequestSchema(
        "consumer, admin -> broker",
        "Committed offset of a group for one queue.",
        (
            _KNOWN,
            TOPIC.requires(Right.KNOW),
            QUEUE,
            Field(
                "client_id",
                str,
                "a member that asks for its start offset even without a commit",
                required=False,
                noun=Noun.CLIENT,
            ).requires(Right.OWN),
        ),
        answer="header `offset`; QUERY_NOT_FOUND when none is stored, unless the caller is a member that starts at the "
        "group's creation or at the first message",
        effect=Effect.READS,
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: RequestSchema(
        "consumer, admin -> broker",
        "Commit offsets of a group, any number of queues in one request.",
        (
            *_MEMBER,
            EPOCH,
            Field(
                "reset",
                bool,
                "offsets may go backwards: the owner moved back, or the messages there were deleted",
                required=False,
            ),
            Field(
                "soon",
                bool,
                "they count at once, and are stored within a second, with the commits of pulls; a reset is stored at "
                "once",
                required=False,
            ),
            CAUSE,
            Field(
                "topic_ids",
                list,
                "the number of the topic of each row, 0 if it is not known: a row for an earlier topic of that name is "
                "ignored, like a row for a deleted topic",
                required=False,
                minimum=0,
                items=int,
            ),
            DATA_ID,
        ),
        rows=(
            _CONSUMED,
            QUEUE,
            Field("offset", int, "to commit"),
            Field("token", int, "fencing token of the lease, or -1 without one, as members without leases have none"),
        ),
        max_rows=MAX_LEASE_ROWS,
        answer="body: msgpack array of [topic, queue id, response code, remark], the refused ones only. "
        "CLIENT_ID_CONFLICT when the client id is that of a live member over another connection, with another run id",
        rank=Rank.KEEPALIVE,
        effect=Effect.CHANGES,
    ),
    RequestCode.GET_CONSUME_STATS: RequestSchema(
        "admin -> broker",
        "Progress of a group on every queue of its topics.",
        (
            _KNOWN,
            Field("topic", str, "only this topic", required=False, noun=Noun.TOPIC).freely(
                "it leaves out what the right to the group shows"
            ),
            TIMES,
        ),
        answer="body: msgpack array of [topic, queue id, min offset, max offset, committed offset or -1, "
        "owner or empty, -1]. The last one is kept for old clients: the fencing token is shown to the owner only. "
        "Header, only if there are some: `damaged`, [topic, queue id, messages that are damaged or missing]; `starts`, "
        "[topic, queue id, offset at which the group begins] of queues without a committed offset; `sent`, [topic, "
        "queue id, messages beyond the committed offset that the owner was sent, less than 0 if it is known to be "
        "further] of owned queues; with `times` `times`, [topic, queue id, when the last committed message was stored]",
        effect=Effect.READS,
    ),
    RequestCode.GET_BROKER_CONSUME_STATS: RequestSchema(
        "admin -> broker",
        "Progress of every group on this broker.",
        (TIMES,),
        answer="body: msgpack array of [group, rows, more], body and header as in the answer of GET_CONSUME_STATS. "
        f"ILLEGAL_OPERATION beyond {MAX_LEASE_ROWS} rows",
        right=Right.ADMIN,
        effect=Effect.READS,
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: RequestSchema(
        "admin -> broker",
        "Reset the offsets of a group on the queues of a topic, while it consumes: all of them or none. The owner of "
        "such a queue loses its lease, and starts at the new offset with the next lease.",
        (
            GROUP.requires(Right.MANAGE_GROUP),
            TOPIC.requires(Right.CONSUME_OR_MANAGE),
            Field("to", str, "`earliest`, `latest`, `time`, `offset` or `shift`"),
            Field(
                "value",
                int,
                "wall clock in milliseconds, offset, or distance from the committed offset",
                False,
                -MAX_RESET_VALUE,
                MAX_RESET_VALUE,
            ),
            Field("queue_ids", list, "only these queues; absent for all of this broker", False, minimum=0, items=int),
            Field("dry_run", bool, "only answer, change nothing", required=False),
            CAUSE,
        ),
        answer="once it is stored: header `known`, whether the group has members or offsets here; body: msgpack array "
        "of [queue id, offset before or -1, offset after, whether that is an end of the queue instead of the "
        "requested offset, owner or empty]",
        effect=Effect.CHANGES,
    ),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: RequestSchema(
        "broker -> member, one-way",
        "Queues of this member were reset: drop their fetched messages and ask for them again.",
        (
            GROUP,
            BROKER,
            TOPIC,
            Field("queue_ids", list, "queues of this member", items=int),
            Field("offsets", list, "current offset of each of them", required=False, items=int),
            Field("token", int, "leases up to this fencing token are no longer valid"),
            CAUSE,
        ),
    ),
}
