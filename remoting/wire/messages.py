"""Schemas of the requests about messages: send, pull, look up, send back. RocketMQ: PullMessageRequestHeader."""

from __future__ import annotations

from model.limits import MAX_LOOKUP_MESSAGES, MAX_PULL_BATCH, MAX_SEARCHED_CHARS
from model.message import MAX_DELAY_MS
from remoting.request_code import RequestCode
from remoting.wire.field import (
    DATA_ID,
    GROUP,
    OFFSET,
    QUEUE,
    SUSPEND,
    TAG_HASHES,
    TOPIC,
    TOPIC_ID,
    Effect,
    Field,
    Noun,
    Rank,
    RequestSchema,
    Right,
)

_PRODUCED = TOPIC.requires(Right.PRODUCE)
_CONSUMED = TOPIC.requires(Right.CONSUME)
_KNOWN = TOPIC.requires(Right.KNOW)
_RECALL_HANDLE = Field("handle", str, "see `model/recall.py`")

_PULL = RequestSchema(
    "consumer -> broker",
    "Read messages of one queue; held until there are some when `suspend_ms` is positive.",
    (
        # A reader that may consume the topic need not be a member.
        GROUP.requires(Right.MEMBER, when=("client_id", "token", "commit")),
        _CONSUMED,
        QUEUE,
        Field("offset", int, "first offset wanted", minimum=0),
        Field("max_n", int, "most messages", minimum=1, maximum=MAX_PULL_BATCH),
        SUSPEND,
        TAG_HASHES,
        Field(
            "client_id",
            str,
            "the member that pulls; with `token` it renews the lease of the queue. For a member that is "
            "`leaseless` in its heartbeat the broker acquires the lease, and the pull waits while another "
            "member has it",
            required=False,
            noun=Noun.CLIENT,
        ).requires(Right.OWN),
        Field("token", int, "fencing token of the lease; absent when the queue is read without one", required=False),
        Field(
            "commit",
            int,
            "offset to commit under the lease, as with `soon` of UPDATE_CONSUMER_OFFSET; ignored if it is not allowed",
            required=False,
            minimum=0,
        ),
        TOPIC_ID,
        DATA_ID,
    ),
    answer="header `next_offset`, `min_offset`, `max_offset`; body: stored records back to back "
    "(`model/record.py`). PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY and PULL_OFFSET_MOVED carry the same header. "
    "`damaged`, only where it is not 0: how many messages from `offset` to `next_offset` are damaged or missing. "
    "PULL_OFFSET_MOVED with `topic_id` and `data_id`: the topic that has this name now has another number than the "
    "request, so that the offset means nothing in it",
    rank=Rank.DATA,
    effect=Effect.CHANGES,
)

MESSAGE_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.SEND_MESSAGE: RequestSchema(
        "producer -> broker",
        "Store one message; the answer follows once it is written.",
        (
            _PRODUCED,
            QUEUE,
            Field("tag_hash", int, "hash of the message's tag, 0 for none", minimum=-(2**31), maximum=2**31 - 1),
            Field("delay_ms", int, "delay of its delivery; absent for none", False, 0, MAX_DELAY_MS),
            Field("times_delivered", int, "failed deliveries before, of a copy for a retry", False, 0, 65_535),
        ),
        body="payload (see `model/message.py`). With access control its topic has to be `topic`; for a copy for a "
        "retry, the sender has to have a right to it",
        answer="header `offset`: offset in the queue, -1 for a delayed message, which has none yet. With it, for "
        "RECALL_MESSAGE and not of a copy for a retry, `delayed_offset` and `due_ms`: its place among the delayed "
        "messages of the broker, and when it is due in wall clock ms",
        rank=Rank.DATA,
        names=(
            Field("payload", str, "topic of a copy for a retry", noun=Noun.TOPIC).requires(Right.CONSUME_OR_MANAGE),
        ),
        effect=Effect.APPENDS,
    ),
    RequestCode.RECALL_MESSAGE: RequestSchema(
        "producer -> broker",
        "Recall a delayed message, so that it is not delivered. Repeating it changes nothing.",
        (
            _PRODUCED,
            _RECALL_HANDLE,
            Field("forward", bool, "whether it is forwarded, by a name server, to another broker of the handle", False),
        ),
        answer="once it is stored; header `message_id`. QUERY_NOT_FOUND when the message was delivered, or is not "
        "known; INVALID_PARAMETER for a handle of another topic or broker",
        effect=Effect.APPENDS,
    ),
    RequestCode.FORWARD_RECALL: RequestSchema(
        "producer -> name server",
        "Recall a delayed message at the broker of its handle, for clients that do not know that broker: the name "
        "server sends RECALL_MESSAGE over the connection over which the broker has registered.",
        (_PRODUCED, _RECALL_HANDLE),
        answer="header `message_id`; the refusals of RECALL_MESSAGE, and SERVICE_NOT_AVAILABLE when the broker is not "
        "registered",
    ),
    RequestCode.SEND_BATCH_MESSAGE: RequestSchema(
        "producer -> broker",
        "Store messages of one topic in one queue, all or none.",
        (_PRODUCED, QUEUE),
        body="msgpack array of [tag hash, payload]; with access control the topic of each payload has to be `topic`",
        answer="header `offset`: offset of the first; the others follow",
        rank=Rank.DATA,
        effect=Effect.APPENDS,
    ),
    RequestCode.SEND_MESSAGES: RequestSchema(
        "producer -> broker",
        "Store messages of one topic in several queues, all or none.",
        (_PRODUCED,),
        body="msgpack array of [queue id, tag hash, payload]; payloads as of SEND_BATCH_MESSAGE",
        answer="header `offset`: list of the offset of each",
        rank=Rank.DATA,
        effect=Effect.APPENDS,
    ),
    RequestCode.PULL_MESSAGE: _PULL,
    RequestCode.PULL_MESSAGE_BY_SQL: _PULL.by_sql(
        "Read messages of one queue that match a filter; otherwise as PULL_MESSAGE. Retry topics and DLQs are not "
        "filtered."
    ),
    RequestCode.QUERY_MESSAGE: RequestSchema(
        "admin -> broker",
        "Find messages of a topic by key, copies for a retry and dead letters included.",
        (
            _CONSUMED,
            Field("key", str, "one of the keys of the message", maximum=MAX_SEARCHED_CHARS),
            Field("max_n", int, "most messages", minimum=1, maximum=MAX_LOOKUP_MESSAGES),
            Field("before", int, "only records before this log position: where to continue", False, minimum=0),
            Field("begin_ms", int, "stored then or later, wall clock in milliseconds", False, minimum=0),
            Field("end_ms", int, "stored then or earlier", False, minimum=0),
            Field("halves", bool, "whether half messages are wanted too", required=False),
        ),
        answer="header `next_before`: ask again from there for older messages, -1 when everything was searched; "
        "body: msgpack array of [topic, queue id, when it is delivered in wall clock ms or -1, stored record], the "
        "newest first; a half message has one value more: [checks, seconds to the next or -1 while it waits for a "
        "producer], or nil once it is ended",
        rank=Rank.DATA,
        effect=Effect.READS,
    ),
    RequestCode.VIEW_MESSAGE_BY_ID: RequestSchema(
        "admin -> broker",
        "Find every copy of a message: the original, copies for a retry, dead letters.",
        (
            Field("message_id", str, "id that the producer gave it", maximum=MAX_SEARCHED_CHARS),
            Field("max_n", int, "most messages", minimum=1, maximum=MAX_LOOKUP_MESSAGES),
            Field("before", int, "only records before this log position: where to continue", False, minimum=0),
            Field("halves", bool, "whether half messages are wanted too", required=False),
        ),
        answer="as of QUERY_MESSAGE",
        rank=Rank.DATA,
        right=Right.CONSUME_ALL,
        effect=Effect.READS,
    ),
    RequestCode.CONSUMER_SEND_MSG_BACK: RequestSchema(
        "consumer -> broker",
        "A message could not be processed: redeliver it later, or send it to the DLQ.",
        (
            GROUP.requires(Right.MEMBER),
            _CONSUMED,
            QUEUE,
            OFFSET,
            Field("max_attempts", int, "retries after which it goes to the DLQ", minimum=0),
            Field("delay_ms", int, "wait before the next attempt; absent for 10 s, 30 s, 1 m, ...", False, minimum=0),
        ),
        answer="header `dead`: whether it went to the DLQ",
        effect=Effect.APPENDS,
    ),
    RequestCode.MARK_DEAD_LETTERS: RequestSchema(
        "admin -> broker",
        "Mark dead-letter messages of a group as re-sent, so that they are not re-sent again; or only ask which are.",
        (GROUP.requires(Right.MANAGE_GROUP), QUEUE),
        rows=Field("offset", int, "of a message in `%DLQ%group`", minimum=0),
        max_rows=MAX_PULL_BATCH,
        body="none to only ask",
        answer="once it is stored: header `below`: all messages below this offset were re-sent, `min_offset`, "
        "`max_offset`; body: msgpack array of the re-sent offsets from there on",
        effect=Effect.CHANGES,
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: RequestSchema(
        "consumer, admin -> broker",
        "First offset stored at or after a time.",
        (_KNOWN, QUEUE, Field("timestamp_ms", int, "wall clock in milliseconds", minimum=0)),
        answer="header `offset`; the end of the queue when no message is that young",
        effect=Effect.READS,
    ),
    RequestCode.GET_MAX_OFFSET: RequestSchema(
        "consumer, admin -> broker",
        "Offset that the next message of the queue gets.",
        (_KNOWN, QUEUE),
        answer="header `offset`, `topic_id`: number of the topic in this broker, another one once it was deleted and "
        "created again, `data_id`: random number of the broker's data directory, `now_ms`: wall clock of the broker in "
        "milliseconds",
        effect=Effect.READS,
    ),
    RequestCode.GET_MIN_OFFSET: RequestSchema(
        "consumer, admin -> broker",
        "Lowest offset that the queue still holds.",
        (_KNOWN, QUEUE),
        answer="header `offset`",
        effect=Effect.READS,
    ),
}
