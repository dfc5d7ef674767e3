"""First offset of each queue that a registered group still needs.

A group needs the messages from its committed offset on, in every topic that it subscribes to or has offsets of. It is
registered as long as it has members or offsets: committed offsets keep messages even while no member is connected.
Delete the group (`rlab group delete`) to release them.

Nothing is kept for members in BROADCASTING, which store their offsets themselves. The trace events of `SYS_TRACE` are
not kept, nor are dead-letter messages unless a group subscribes to their topic.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.groups.group import ConsumerGroupInfo
from broker.groups.table import GroupTable
from broker.leases.offsets import OffsetTable
from broker.leases.start_offsets import policies_by_topic, policy_offset
from broker.store.message_store import MessageStore
from broker.topics.table import TopicEntry, TopicTable, queue_count
from model.heartbeat import ConsumerData, MessageModel
from model.names import TRACE_TOPIC, is_retry_topic, retry_topic


class NeededOffset(NamedTuple):
    """The first offset of a queue that any group has still to read, and that group."""

    offset: int
    group: str
    topic: str


Needs = dict[tuple[int, int], NeededOffset]
"""(topic id, queue id) -> need, without the queues that every group has read to their end."""


def needs_of_groups(groups: GroupTable, offsets: OffsetTable, topics: TopicTable, store: MessageStore) -> Needs:
    """Return the lowest offset of each queue that any registered group has still to read.

    Raises:
        StoreReadFailed: the start offset of a group without a committed offset could not be looked up.
    """
    needs: Needs = {}
    names = dict.fromkeys([info.group for info in groups.groups()] + offsets.groups())
    for group in sorted(names):
        _add_needs(needs, group, groups.get(group), offsets, topics, store)
    return needs


def _add_needs(
    needs: Needs,
    group: str,
    info: ConsumerGroupInfo | None,
    offsets: OffsetTable,
    topics: TopicTable,
    store: MessageStore,
) -> None:
    members = [] if info is None else list(info.members.values())
    consuming = [member for member in members if member.data.model is MessageModel.CLUSTERING]
    if members and not consuming:  # they all broadcast
        return
    committed: dict[str, dict[int, int]] = {retry_topic(group): {}}
    for topic, queue_id, offset in offsets.of_group(group):
        committed.setdefault(topic, {})[queue_id] = offset
    policies = policies_by_topic(consuming)
    for topic in policies:
        committed.setdefault(topic, {})
    for topic, by_queue in committed.items():
        entry = topics.get(topic)
        if entry is None or topic == TRACE_TOPIC:
            continue
        of_topic = policies.get(topic, [])
        topic_id = entry.topic_id
        # Includes queues above the read count: they become readable again when the topic is scaled up.
        for queue_id in dict.fromkeys([*range(queue_count(entry.config)), *by_queue]):
            stored_offset = by_queue.get(queue_id)
            need = needs.get((topic_id, queue_id))
            if need is not None and stored_offset is not None and stored_offset >= need.offset:
                continue  # the usual case on a broker with many groups
            end = store.max_offset(topic_id, queue_id)
            if store.min_offset(topic_id, queue_id) == end:
                continue
            offset = (
                _start_offset(store, entry, queue_id, info, of_topic, end) if stored_offset is None else stored_offset
            )
            if offset < end and (need is None or offset < need.offset):
                needs[(topic_id, queue_id)] = NeededOffset(offset, group, topic)


def _start_offset(
    store: MessageStore,
    entry: TopicEntry,
    queue_id: int,
    info: ConsumerGroupInfo | None,
    members: list[ConsumerData],
    end: int,
) -> int:
    """Start offset of a group on a queue without a committed offset; the end of the queue if nothing is needed."""
    if info is None:
        # A group known only by offsets that an operator set: it has no start time, so nothing is kept for it.
        return end
    topic = entry.config.topic
    if members:
        return min(policy_offset(store, entry, queue_id, data, info.created_ms) for data in members)
    if is_retry_topic(topic):
        return 0
    # Without members there is no policy. Messages from before the group was created are not needed.
    return store.offset_at(entry.topic_id, queue_id, info.created_ms)
