"""Schemas of the requests that store, end and check transactions, and that list producer groups."""

from __future__ import annotations

from dataclasses import replace

from model.limits import MAX_BATCH_MESSAGES, MAX_TRANSACTION_TIMEOUT_S
from remoting.request_code import RequestCode
from remoting.wire.field import CAUSE, QUEUE, TOPIC, Effect, Field, Noun, RequestSchema, Right

_GROUP = Field("group", str, "producer group", noun=Noun.GROUP)
_MEMBER_GROUP = _GROUP.requires(Right.MEMBER)
_SENDER = Field(
    "client_id", str, "the sender, if several clients share its connection", required=False, noun=Noun.CLIENT
).requires(Right.OWN)
_WHY_NO_RIGHT = (
    "the broker looks only among the half messages of the producer group, and the request needs a right to that group"
)
_HALF_OFFSET = Field("offset", int, "offset of the half message, in the answer of SEND_HALF_MESSAGE", minimum=0)
# RocketMQ: MessageSysFlag.TRANSACTION_COMMIT_TYPE and TRANSACTION_ROLLBACK_TYPE.
_STATE = Field("state", int, "0 unknown, 8 commit, 12 rollback")

TRANSACTION_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.SEND_HALF_MESSAGE: RequestSchema(
        "producer -> broker",
        "Store half messages; each begins one transaction. No consumer gets one before it is committed.",
        (_MEMBER_GROUP, _SENDER),
        rows=(
            Field("topic", str, "where a commit publishes it", noun=Noun.TOPIC).requires(Right.PRODUCE),
            Field("queue_id", int, "queue of that topic on this broker", minimum=0),
            Field("tag_hash", int, "hash of the message's tag", minimum=-(2**31), maximum=2**31 - 1),
            Field(
                "check_after_ms",
                int,
                "milliseconds until the first check of the transaction; -1 for the default of the broker",
                minimum=-1,
                maximum=int(MAX_TRANSACTION_TIMEOUT_S * 1000),
            ),
            Field(
                "payload",
                bytes,
                "see `model/message.py`; with access control, its topic equals the `topic` of this row",
            ),
        ),
        max_rows=MAX_BATCH_MESSAGES,
        answer="once all are stored: header `offset` is the offset of the first half message; the next ones have the "
        "next offsets. END_TRANSACTION names a transaction by its offset",
        effect=Effect.APPENDS,
    ),
    RequestCode.END_TRANSACTION: RequestSchema(
        "producer -> broker",
        "End transactions: commit or roll back their half messages, or leave them open. Repeating it changes nothing.",
        (
            _MEMBER_GROUP,
            Field("from_check", bool, "whether this request answers checks", required=False),
            _SENDER,
        ),
        rows=(
            replace(_HALF_OFFSET, noun=Noun.TRANSACTION).freely(_WHY_NO_RIGHT),
            Field("message_id", str, "id of the message, which has to be at that offset", noun=Noun.TRANSACTION).freely(
                _WHY_NO_RIGHT
            ),
            _STATE,
        ),
        max_rows=MAX_BATCH_MESSAGES,
        answer="once all ends are stored; body: msgpack array with one outcome for each row: 0 done, 1 ended before, "
        "2 not found",
        effect=Effect.APPENDS,
    ),
    RequestCode.CHECK_TRANSACTION_STATE: RequestSchema(
        "broker -> producer, one-way",
        "This half message was not ended in time: what became of its transaction? The producer answers by "
        "END_TRANSACTION.",
        (
            _GROUP,
            TOPIC,
            QUEUE,
            _HALF_OFFSET,
            Field("n", int, "number of this check, from 1", minimum=1),
            CAUSE,
            Field("client_id", str, "the producer that is asked", required=False, noun=Noun.CLIENT),
        ),
        body="payload (see `model/message.py`)",
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: RequestSchema(
        "admin -> broker",
        "Every producer group with a member or an open transaction.",
        answer="body: msgpack array of [group, members, open transactions, age of the oldest in seconds, open "
        "transactions that no connected producer can be asked about]",
        right=Right.ADMIN,
        effect=Effect.READS,
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: RequestSchema(
        "admin -> broker",
        "The members of a producer group, and its oldest open transactions.",
        (_GROUP.requires(Right.KNOW_GROUP),),
        answer="body: msgpack [[[client id, address, whether it answers checks], ...], [[message id, topic, age in "
        "seconds, checks, next check in seconds], ...], open transactions]",
        effect=Effect.READS,
    ),
}
