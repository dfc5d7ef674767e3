"""Schemas of the requests of sinks, which stage the messages of a batch, and publish the batch exactly once."""

from __future__ import annotations

from model.limits import MAX_SPREAD_BROKERS
from remoting.request_code import RequestCode
from remoting.wire.field import BROKER, QUEUE, TOPIC, Effect, Field, Noun, Rank, RequestSchema, Right

_BATCH = (
    Field("query_id", str, "id of the query, the same over its restarts", noun=Noun.QUERY).requires(Right.OWN),
    Field("batch_id", int, "number of the batch; grows", minimum=0),
)

SINK_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.SINK_STAGE: RequestSchema(
        "sink -> broker",
        "Stage messages, which are published when their batch is committed, and not before; a chunk that is sent "
        "twice is kept once. The answer follows once they are stored.",
        (
            *_BATCH,
            Field("partition", int, "task of the batch", minimum=0),
            Field("attempt", int, "which try of the task", minimum=0),
            Field("seq", int, "number of the chunk in its attempt, from 0", minimum=0),
        ),
        rows=(
            TOPIC.requires(Right.PRODUCE),
            QUEUE,
            Field("tag_hash", int, "hash of the message's tag", minimum=-(2**31), maximum=2**31 - 1),
            Field("payload", bytes, "see `model/message.py`"),
        ),
        body="with access control the topic of each payload has to be the topic of its row",
        answer="header `n`: messages that the attempt has staged here",
        rank=Rank.DATA,
        effect=Effect.APPENDS,
    ),
    RequestCode.SINK_COMMIT: RequestSchema(
        "sink -> broker",
        "Publish a batch: the named attempts, all of them or none. A batch that is not above the last one of its "
        "query was published before, and changes nothing. The answer follows once it is published.",
        (*_BATCH, Field("is_only", bool, "whether the query has no other batch: it is soon forgotten", required=False)),
        rows=(
            Field("partition", int, "task of the batch"),
            Field("attempt", int, "which try of the task"),
            Field("messages", int, "number of messages that it has staged here"),
        ),
        answer="header `published`: false if it was before. STAGE_LOST when an attempt is not staged as named",
        right=Right.PRODUCE_ANY,  # staging took the rights to its topics
        effect=Effect.APPENDS,
    ),
    RequestCode.SINK_ABORT: RequestSchema(
        "sink -> broker",
        "Drop the staged chunks of a batch, unless it is being published.",
        _BATCH,
        answer="header `dropped`: chunks dropped",
        right=Right.PRODUCE_ANY,
        effect=Effect.CHANGES,
    ),
    RequestCode.SINK_SPREAD: RequestSchema(
        "sink -> broker",
        "Fix the set of brokers that the rows of a batch for one topic are written to. The first request decides; "
        "the sender of a later one has to use the set in the answer. The answer follows once it is stored.",
        (*_BATCH, TOPIC.requires(Right.PRODUCE)),
        rows=BROKER.freely("it names brokers that the rows of the query's own batch go to"),
        max_rows=MAX_SPREAD_BROKERS,
        answer="header `brokers`: the set of the first request",
        effect=Effect.CHANGES,
    ),
}
