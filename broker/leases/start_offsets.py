"""Start offset of a group on a queue without a committed offset; used by consumers and by retention.

LAST_OFFSET means the moment at which the group was created, on any broker: messages of a queue that was created later,
or that arrived before the first pull, are not skipped.

RocketMQ: computePullFromWhere, which decides when a member first sees the queue, and skips them.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.groups.group import Member
from broker.store.message_store import MessageStore
from broker.topics.table import TopicEntry
from model.heartbeat import ConsumeFrom, ConsumerData
from model.names import is_retry_topic


def policies_by_topic(members: Iterable[Member]) -> dict[str, list[ConsumerData]]:
    """Return a member of each distinct policy for each topic; mostly one, because the members of a group agree."""
    policies: dict[str, dict[tuple[str, int], ConsumerData]] = {}
    for member in members:
        policy = (str(member.data.consume_from), member.data.consume_timestamp_ms)
        for topic in member.subscriptions:
            policies.setdefault(topic, {})[policy] = member.data
    return {topic: list(of_topic.values()) for topic, of_topic in policies.items()}


def policy_offset(
    store: MessageStore, entry: TopicEntry, queue_id: int, data: ConsumerData, group_created_ms: int
) -> int:
    """Return the offset that a member's policy starts a queue from; see `start_offset`."""
    return start_offset(store, entry, queue_id, data.consume_from, data.consume_timestamp_ms, group_created_ms)


def start_offset(
    store: MessageStore,
    entry: TopicEntry,
    queue_id: int,
    consume_from: ConsumeFrom,
    timestamp_ms: int,
    group_created_ms: int,
) -> int:
    """Return the offset at which a group starts on a queue under a policy.

    Raises:
        StoreReadFailed: an I/O error.
    """
    if consume_from is ConsumeFrom.FIRST_OFFSET or is_retry_topic(entry.config.topic):
        return store.min_offset(entry.topic_id, queue_id)
    from_ms = timestamp_ms if consume_from is ConsumeFrom.TIMESTAMP else group_created_ms
    return store.offset_at(entry.topic_id, queue_id, from_ms)
