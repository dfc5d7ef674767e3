"""Schemas of the requests of POP. RocketMQ: PopMessageRequestHeader, AckMessageRequestHeader.

A receipt handle is (broker, topic, queue id, offset, token): the broker draws the delivery token at random, and sends
it with the batch. The handle is dead as soon as the message is acknowledged or redelivered, or its invisible time is
changed.
"""

from __future__ import annotations

from dataclasses import replace

from model.limits import MAX_ACKED_OFFSETS, MAX_INVISIBLE_MS, MAX_POP_BATCH, MAX_RENEWAL_S, MIN_INVISIBLE_MS
from remoting.request_code import RequestCode
from remoting.wire.field import (
    CLIENT,
    GROUP,
    OFFSET,
    QUEUE,
    SUSPEND,
    TAG_HASHES,
    TOPIC,
    Effect,
    Field,
    Noun,
    Rank,
    RequestSchema,
    Right,
)

ANY_QUEUE = -1
"""Queue id of a pop that takes messages from any queue of the topic."""
MAX_TOKEN = 2**64 - 1
"""Largest delivery token; files store it as an unsigned number, and SQLite never does."""

_MEMBER = (GROUP.requires(Right.MEMBER), CLIENT.requires(Right.OWN))
_DELIVERED = TOPIC.freely(
    "the token was drawn at random for a delivery to the group, which took the right to the topic"
)

_ACK = RequestSchema(
    "consumer -> broker",
    "Messages were consumed.",
    _MEMBER,
    rows=(
        _DELIVERED,
        Field("queue_id", int, "queue of the topic on this broker"),
        Field("token", int, "delivery token of the handle", maximum=MAX_TOKEN),
        Field("offset", list, "of the messages", items=int),
    ),
    max_rows=MAX_ACKED_OFFSETS,
    answer="once it is stored: body: msgpack array of [topic, queue id, offset] of the messages whose handles were "
    "dead: acknowledged or redelivered before, or their invisible time was changed. The others are acknowledged",
    rank=Rank.KEEPALIVE,
    effect=Effect.CHANGES,
)

_POP = RequestSchema(
    "consumer -> broker",
    "Deliver messages of a topic, which are invisible to the group for a time; held until there are some when "
    "`suspend_ms` is positive. A message that is not acknowledged in that time is redelivered. A message that "
    "`tag_hashes` excludes counts as acknowledged for the group.",
    (
        _MEMBER[0],
        TOPIC.requires(Right.CONSUME),
        Field("queue_id", int, f"queue of the topic on this broker; {ANY_QUEUE} for any", minimum=ANY_QUEUE),
        _MEMBER[1],
        Field("max_n", int, "most messages", minimum=1, maximum=MAX_POP_BATCH),
        Field("invisible_ms", int, "how long they are invisible", minimum=MIN_INVISIBLE_MS, maximum=MAX_INVISIBLE_MS),
        SUSPEND,
        TAG_HASHES,
        Field("order", bool, "only from queues of which no message is invisible, in their order", False),
        Field("max_attempts", int, "deliveries after which a message goes to the DLQ; absent for 16", False, 1),
        Field(
            "consume_from",
            str,
            "start of a group without a committed offset: `LAST_OFFSET`, `FIRST_OFFSET` or `TIMESTAMP`; absent "
            "for the setting in the member's heartbeat, or the last",
            required=False,
        ),
        Field("consume_timestamp_ms", int, "for `TIMESTAMP`, wall clock in milliseconds", False, minimum=0),
        Field(
            "retry",
            bool,
            f"also messages of the group's retry topic; absent for yes with queue {ANY_QUEUE} and no `order`",
            required=False,
        ),
    ),
    answer="once it is stored: body: msgpack array of batches [topic, queue id, token, end of the invisible time "
    "in wall clock ms, [deliveries of each message, this one included, ...], stored records back to back]. "
    "PULL_NOT_FOUND when nothing came, or, before `suspend_ms` has passed, when the filter excluded so much that "
    "other requests should be served; POLLING_FULL when too many pops are held",
    rank=Rank.DATA,
    effect=Effect.CHANGES,
)

POP_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.POP_MESSAGE: _POP,
    RequestCode.POP_MESSAGE_BY_SQL: _POP.by_sql(
        "Deliver messages of a topic that match a filter; otherwise as POP_MESSAGE. A message that does not match "
        "counts as acknowledged for the group. Retry topics and DLQs are not filtered."
    ),
    RequestCode.ACK_MESSAGE: _ACK,
    RequestCode.BATCH_ACK_MESSAGE: replace(_ACK, purpose="The same as ACK_MESSAGE."),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: RequestSchema(
        "consumer -> broker",
        "Change the invisible time of a message, counted from now on; 0 makes it visible at once.",
        (
            *_MEMBER,
            _DELIVERED,
            QUEUE,
            OFFSET,
            Field("token", int, "delivery token of its handle", minimum=1, maximum=MAX_TOKEN),
            Field(
                "invisible_ms", int, "how long it is invisible, up to 10 ms longer", minimum=0, maximum=MAX_INVISIBLE_MS
            ),
            Field(
                "failed_attempts",
                int,
                "how often it was consumed in vain: the retry delay of the group after this number of attempts, if it "
                "has delays, counts in the place of `invisible_ms`",
                required=False,
                minimum=1,
            ),
        ),
        answer="once it is stored: header `token`: of the new handle, because the old one is dead; `visible_ms`: "
        "end of the invisible time, wall clock in milliseconds. NO_MESSAGE when the handle is dead",
        rank=Rank.KEEPALIVE,
        effect=Effect.CHANGES,
    ),
    RequestCode.CANCEL_POP: RequestSchema(
        "consumer -> broker",
        "End a pop whose client waits no longer: it is answered with PULL_NOT_FOUND, and messages that it was about "
        "to get are visible at once.",
        (*_MEMBER, Field("pop", int, "its opaque on this connection; absent for all of this member", False, 0)),
        answer="`is_cancelled`: false if there is no such pop, or it was answered already",
        rank=Rank.KEEPALIVE,
        effect=Effect.CHANGES,
    ),
    RequestCode.KEEP_MESSAGES: RequestSchema(
        "consumer -> broker",
        "The answer of a pop has arrived: extend the invisible time of its messages again and again, under their "
        f"handles, while the client is connected, {MAX_RENEWAL_S / 3600:.0f} h at most. Batches that no longer have "
        "an invisible message, or that another client has, are left out.",
        _MEMBER,
        rows=(
            _DELIVERED,
            Field("queue_id", int, "queue of the topic on this broker"),
            Field("token", int, "delivery token of the batch", maximum=MAX_TOKEN),
        ),
        max_rows=MAX_ACKED_OFFSETS,
        answer="once it is stored",
        rank=Rank.KEEPALIVE,
        effect=Effect.CHANGES,
    ),
    RequestCode.RETURN_MESSAGES: replace(
        _ACK,
        purpose="Make messages visible at once that no consumer has seen; their delivery is not counted.",
        answer="once it is stored: body: msgpack array of [topic, queue id, offset] of the messages whose handles were "
        "dead, or which were visible already",
    ),
    RequestCode.POP_DEAD_LETTER: RequestSchema(
        "consumer -> broker",
        "Move a message to the DLQ of the group: it is copied there, and acknowledged.",
        (
            *_MEMBER,
            _DELIVERED,
            QUEUE,
            OFFSET,
            Field("token", int, "delivery token of its handle", minimum=1, maximum=MAX_TOKEN),
        ),
        answer="once the copy and the acknowledgement are stored. NO_MESSAGE when the handle is dead",
        rank=Rank.KEEPALIVE,
        effect=Effect.CHANGES,
    ),
    RequestCode.GET_POP_STATS: RequestSchema(
        "admin -> broker",
        "Messages of a group that are not acknowledged yet, for each queue that it pops.",
        (
            GROUP.requires(Right.KNOW_GROUP),
            Field("topic", str, "only this topic", required=False, noun=Noun.TOPIC).freely(
                "it leaves out what the right to the group shows"
            ),
        ),
        answer="body: msgpack array of [topic, queue id, first offset not acknowledged, first offset never delivered, "
        "invisible messages, messages that wait for their redelivery, age in ms of the oldest invisible one, ms until "
        "the next one is visible (both -1 without any), most deliveries of one message, whether the queue is being "
        "drained for PULL, [[client id, invisible messages], ...]]",
        effect=Effect.READS,
    ),
}
