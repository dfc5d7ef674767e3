"""The facts about a broker and its topics that the translators of RocketMQ's dialect need."""

from __future__ import annotations

from collections.abc import Callable

from broker.topics.table import TopicTable
from model.topic_route import MessageType
from rocketmq.edge import ServerFacts


class BrokerFacts(ServerFacts):
    """The values that answers to RocketMQ's own clients contain and that only the broker knows: see `ServerFacts`."""

    def __init__(self, name: str, clock_ms: Callable[[], float], topics: TopicTable) -> None:
        self._name = name
        self._clock_ms = clock_ms
        self._topics = topics

    def now_ms(self) -> int:
        """See `ServerFacts`."""
        return int(self._clock_ms())

    def topic_id(self, topic: str) -> int:
        """See `ServerFacts`."""
        entry = self._topics.get(topic)
        return 0 if entry is None else entry.topic_id

    def topic_of(self, topic_id: int) -> str | None:
        """See `ServerFacts`."""
        return self._topics.name_of(topic_id)

    def broker_name(self) -> str:
        """See `ServerFacts`."""
        return self._name

    def write_queues(self, topic: str) -> int:
        """See `ServerFacts`."""
        entry = self._topics.get(topic)
        return 0 if entry is None else entry.config.write_queue_nums

    def message_type(self, topic: str) -> MessageType:
        """See `ServerFacts`."""
        entry = self._topics.get(topic)
        return MessageType.MIXED if entry is None else entry.config.message_type
