"""A wrong value for each option of the source and of the sink."""

from __future__ import annotations

OPTIONS = {"nameServer": "names:1", "subscribe": "t"}
"""A read without a mistake; a topic called `t` is not looked for."""

WRONG_ACCESS: dict[str, str] = {"keyFile": "", "tlsCa": "", "tlsCert": "x", "tlsKey": "x"}

WRONG_READS: dict[str, str] = {
    "nameServer": "names",
    "subscribe": "a b",
    "subscribePattern": "(",
    "assign": "{",
    "tags": "||",
    "filter": "price >",
    "startingOffsets": "soon",
    "endingOffsets": "earliest",
    "startingTimestamp": "-1",
    "endingTimestamp": "now",
    "startingOffsetsByTimestamp": '{"t": {"a": {"0": -1}}}',
    "endingOffsetsByTimestamp": "soon",
    "startingOffsetsByTimestampStrategy": "guess",
    "startingGroup": "a b",
    "maxOffsetsPerTrigger": "0",
    "minOffsetsPerTrigger": "few",
    "maxTriggerDelay": "15",
    "minPartitions": "0",
    "maxPartitions": "0",
    "maxRecordsPerPartition": "0",
    "failOnDataLoss": "maybe",
    "includeProperties": "1",
    "includeBody": "yes",
    "pullBatchSize": "0",
    "pullTimeoutMs": "0",
    "fetchRetries": "-1",
    "metadataPollMs": "-1",
    "groupId": "a b",
    "filterPushdown": "x",
    "useArrow": "x",
    **WRONG_ACCESS,
}

WRONG_WRITES: dict[str, str] = {
    "nameServer": "names",
    "topic": "a b",
    "delivery": "twice",
    "partitioner": "none",
    "sendTimeoutMs": "0",
    "sendRetries": "-1",
    **WRONG_ACCESS,
}
