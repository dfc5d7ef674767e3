"""What the requests of sinks carry and answer: messages that are published once, a batch at a time."""

from __future__ import annotations

from remoting.wire.field import TOPIC, Field, RequestSchema
from remoting.wire.request_code import RequestCode

_BATCH = (
    Field("query_id", str, "id of the query, the same over its restarts"),
    Field("batch_id", int, "number of the batch; grows", minimum=0),
)

SINK_SCHEMA: dict[RequestCode, RequestSchema] = {
    RequestCode.SINK_STAGE: RequestSchema(
        sender="sink -> broker",
        purpose="Hand messages over that are published when their batch is committed, and not before; a chunk that is "
        "sent again is kept once. Answered once they are stored.",
        fields=(
            *_BATCH,
            Field("partition", int, "task of the batch", minimum=0),
            Field("attempt", int, "which try of the task", minimum=0),
            Field("seq", int, "number of the chunk in its attempt, from 0", minimum=0),
        ),
        body="msgpack array of [topic, queue id, tag hash, payload]",
        answer="header `n`: messages that the attempt has staged here",
    ),
    RequestCode.SINK_COMMIT: RequestSchema(
        sender="sink -> broker",
        purpose="Publish a batch: the attempts named, all of them or none. A batch that is not above the last one of "
        "its query was published before: nothing is done. Answered once it is published.",
        fields=(
            *_BATCH,
            Field("is_only", bool, "whether the query has no other batch: it is soon forgotten", required=False),
        ),
        body="msgpack array of [partition, attempt, messages that it staged here]",
        answer="header `published`: false if it was before. STAGE_LOST when an attempt is not there as named",
    ),
    RequestCode.SINK_ABORT: RequestSchema(
        sender="sink -> broker",
        purpose="Drop what is staged of a batch, unless it is being published.",
        fields=_BATCH,
        answer="header `dropped`: chunks dropped",
    ),
    RequestCode.SINK_SPREAD: RequestSchema(
        sender="sink -> broker",
        purpose="Say among which brokers the rows of a batch for one topic are spread; what was said first counts, and "
        "whoever is answered otherwise has to do so. Answered once it is stored.",
        fields=(*_BATCH, TOPIC),
        body="msgpack array of broker names",
        answer="header `brokers`: those of whoever said it first",
    ),
}
