"""At the start: what the log and the metadata say, brought together.

They are two files, and a loss of power may have taken the end of one and not of the other (`FlushMode.ASYNC`, or a
disk that lies). What the log does not have cannot be served, and what the metadata does not know cannot be asked for:

    group g committed 12 on t:0, the queue ends at 9    the group would skip the next three messages: 9
    messages of topic id 7, and no topic 7              its deletion was lost, or its creation: dropped
"""

from __future__ import annotations

import logging

from broker.durability.metadata import MetadataStore
from broker.leases.offsets import OffsetTable
from broker.store.disk.errors import StoreError
from broker.store.message_store import MessageStore
from broker.topics.table import TopicTable

logger = logging.getLogger(__name__)


def lower_offsets(store: MessageStore, metadata: MetadataStore, topics: TopicTable, offsets: OffsetTable) -> None:
    """Lower each committed offset that is behind the end of its queue to that end; a warning names each.

    Args:
        store: the log, recovered.
        metadata: where the change is saved; takes effect with its next commit.
        topics: all topics of the broker.
        offsets: all committed offsets; is changed.
    """
    for group in offsets.groups():
        for topic, queue_id, offset in offsets.of_group(group):
            entry = topics.get(topic)
            if entry is None:
                continue
            end_offset = store.max_offset(entry.topic_id, queue_id)
            if offset > end_offset:
                logger.warning(
                    "group %s had committed %d on %s:%d, which ends at %d: the messages between were lost with the end "
                    "of the log, and the group goes on from %d",
                    *(group, offset, topic, queue_id, end_offset, end_offset),
                )
                offsets.commit(group, topic, queue_id, end_offset, reset=True)
                metadata.save_offset(group, topic, queue_id, end_offset)


def drop_unknown_topics(store: MessageStore, metadata: MetadataStore, topics: TopicTable) -> None:
    """Drop the queues of topics that are not known, and never give their numbers again.

    Nobody could read them; and a new topic with the number of an old one would begin with its messages.

    Args:
        store: the log, recovered. A full disk leaves it as it is, for the next start.
        metadata: where the numbers are saved; takes effect with its next commit.
        topics: all topics of the broker; is told of the numbers.
    """
    stored = {topic_id for topic_id, _ in store.queues()}
    unknown = sorted(stored - topics.ids())
    if not unknown:
        return
    topics.restore_last_topic_id(unknown[-1])
    metadata.save_last_topic_id(unknown[-1])
    for topic_id in unknown:
        queues = sum(key[0] == topic_id for key in store.queues())
        logger.warning("the messages of topic number %d, %d queues, are dropped: no topic has it", topic_id, queues)
        store.drop_topic(topic_id)
    try:
        store.flush()
    except StoreError as error:
        logger.error("they could not be dropped now: %s", error)
