"""Where a group starts on a queue that it has committed nothing of: for its consumers, and for what is kept for them.

«Last» means the moment the group first came to life, on whatever broker: messages of a queue that was born later, or
that arrived before the first pull, are not skipped. RocketMQ decides when a member first sees the queue
(RebalancePushImpl.computePullFromWhere), and loses them.
"""

from __future__ import annotations

from broker.groups.group import ConsumerGroupInfo
from broker.pop.request import PopRequest
from broker.store.message_store import MessageStore
from broker.topics.table import TopicEntry
from model.heartbeat import ConsumeFrom, ConsumerData
from model.names import is_retry_topic


def policy_offset(
    store: MessageStore, entry: TopicEntry, queue_id: int, data: ConsumerData, group_created_ms: int
) -> int:
    """Return the offset that a member's policy starts a queue from.

    Args:
        store: where its messages are.
        entry: its topic.
        queue_id: the queue.
        data: what the member says.
        group_created_ms: when its group first came to life, wall clock in milliseconds.

    Raises:
        StoreReadFailed: an I/O error.
    """
    return _offset(store, entry, queue_id, data.consume_from, data.consume_timestamp_ms, group_created_ms)


def pop_start_offset(
    store: MessageStore,
    entry: TopicEntry,
    queue_id: int,
    pop: PopRequest,
    info: ConsumerGroupInfo | None,
    now_ms: int,
) -> int:
    """Return the offset that a pop starts a queue from, of which its group has committed nothing.

    Args:
        store: where its messages are.
        entry: its topic.
        queue_id: the queue.
        pop: may say so itself; otherwise the heartbeat of its member does.
        info: its group, or None if that never had a member here: then it comes to life now.
        now_ms: wall clock in milliseconds.

    Raises:
        StoreReadFailed: an I/O error.
    """
    consume_from, timestamp_ms = pop.consume_from, pop.consume_timestamp_ms
    if consume_from is None:
        member = None if info is None else info.members.get(pop.client_id)
        consume_from = ConsumeFrom.LAST_OFFSET if member is None else member.data.consume_from
        timestamp_ms = 0 if member is None else member.data.consume_timestamp_ms
    created_ms = now_ms if info is None else info.created_ms
    return _offset(store, entry, queue_id, consume_from, timestamp_ms, created_ms)


def _offset(
    store: MessageStore,
    entry: TopicEntry,
    queue_id: int,
    consume_from: ConsumeFrom,
    timestamp_ms: int,
    group_created_ms: int,
) -> int:
    if consume_from is ConsumeFrom.FIRST_OFFSET or is_retry_topic(entry.config.topic):
        return store.min_offset(entry.topic_id, queue_id)
    from_ms = timestamp_ms if consume_from is ConsumeFrom.TIMESTAMP else group_created_ms
    return store.offset_at(entry.topic_id, queue_id, from_ms)
