"""The topics of one broker: how they are created and scaled, and the ids that stored records name them by. Pure.

Invariant: a topic id is assigned once. A topic that is deleted and created again gets a new id, so that records of the
old topic that are still in the log can never be read as records of the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from model.errors import IllegalOperation, InvalidParameter, NoPermission, SystemBusy, TopicNotExist
from model.limits import DEFAULT_TOPIC_QUEUES, MAX_TOPICS, TEMPLATE_TOPIC_QUEUES
from model.message import start_of_payloads
from model.names import SCHEDULE_TOPIC, TEMPLATE_TOPIC, TRACE_TOPIC, is_system_topic
from model.topic_incarnation import TopicIncarnation
from model.topic_route import READ_WRITE, MessageType, Perm, TopicConfig, checked_topic_config
from remoting.overload.shares import NO_SHARER, ShareBook, Sharer


@dataclass(slots=True)
class TopicEntry:
    """A topic as this broker has it."""

    topic_id: int  # the number in its stored records
    config: TopicConfig  # queue counts and permissions; replaced as a whole, with `configure`
    # Queues with a smaller id take messages; 0 when the topic is not writable. This field and the next are stored,
    # because every send needs them, and a bit test of an enum costs more than the rest of that check.
    accepts_below: int = field(init=False)
    serves_below: int = field(init=False)  # queues with a smaller id can be read; 0 when the topic is not readable
    is_typed: bool = field(init=False)  # whether it takes one type of messages only; see `broker/topics/types.py`
    payload_start: bytes = field(init=False)  # how payloads of its messages begin; see `check_sent_to`
    # Number of the sharer that made the topic, in whose share it counts; 0 if the broker made it, if the sharer is
    # unknown, or if the topic was restored from the log.
    sharer: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        """Derive what depends on the config."""
        self.payload_start = start_of_payloads(self.config.topic)
        self.configure(self.config)

    def configure(self, config: TopicConfig) -> None:
        """Replace the config."""
        self.config = config
        self.accepts_below = queue_count(config) if config.perm & Perm.WRITE else 0
        self.serves_below = config.read_queue_nums if config.perm & Perm.READ else 0
        self.is_typed = config.message_type is not MessageType.MIXED


class TopicTable:
    """Topic name -> entry. `auto_create` lets a send create its topic. RocketMQ: autoCreateTopicEnable."""

    def __init__(self, *, auto_create: bool, data_id: int = 0, shares: ShareBook | None = None) -> None:
        self.data_id = data_id  # number of the data directory; 0 if it has none
        self._shares = (shares or ShareBook()).of("topics", MAX_TOPICS, "delete some, or use those that there are")
        self._topics: dict[str, TopicEntry] = {}
        self._names: dict[int, str] = {}
        self._last_topic_id = 0
        self._auto_create = auto_create

    @property
    def last_topic_id(self) -> int:
        """The highest topic id that was ever assigned."""
        return self._last_topic_id

    def restore(self, topic_id: int, config: TopicConfig, sharer: int = 0) -> None:
        """Restore a topic that was stored by an earlier run."""
        self._topics[config.topic] = TopicEntry(topic_id, config, sharer=sharer)
        self._shares.add(sharer)
        self._names[topic_id] = config.topic
        self._last_topic_id = max(self._last_topic_id, topic_id)

    def restore_last_topic_id(self, topic_id: int) -> None:
        """Never assign this id or a lower one again: an earlier run assigned it to a topic that is deleted now."""
        self._last_topic_id = max(self._last_topic_id, topic_id)

    def add_system_topics(self) -> list[TopicEntry]:
        """Make the topics that every broker has, where they are missing; returns the new ones."""
        system_configs = [
            TopicConfig(topic=TRACE_TOPIC, read_queue_nums=1, write_queue_nums=1),
            TopicConfig(topic=SCHEDULE_TOPIC, read_queue_nums=2, write_queue_nums=2, perm=Perm.NONE),
        ]
        if self._auto_create:
            system_configs.append(
                TopicConfig(
                    topic=TEMPLATE_TOPIC,
                    read_queue_nums=TEMPLATE_TOPIC_QUEUES,
                    write_queue_nums=TEMPLATE_TOPIC_QUEUES,
                    perm=READ_WRITE | Perm.INHERIT,
                )
            )
        return [self._put(config) for config in system_configs if config.topic not in self._topics]

    def get(self, topic: str) -> TopicEntry | None:
        """The entry of a topic, or None."""
        return self._topics.get(topic)

    def existing(self, topic: str) -> TopicEntry:
        """The entry of a topic.

        Raises:
            TopicNotExist: this broker does not have it.
        """
        entry = self._topics.get(topic)
        if entry is None:
            raise TopicNotExist(f"topic {topic!r} does not exist on this broker: create it with 'rlab topic create'")
        return entry

    def is_readable(self, topic: str, queue_id: int) -> bool:
        """Whether a queue exists and can be read."""
        entry = self._topics.get(topic)
        return entry is not None and queue_id < entry.serves_below

    def other_incarnation(self, entry: TopicEntry, header: Mapping[str, Any]) -> TopicIncarnation | None:
        """The incarnation of a topic if a header certainly has another one; see `TopicIncarnation.surely_differs`.

        It compares plain numbers and makes no records, because every pull calls it.
        """
        topic_id = header.get("topic_id")
        if not topic_id or (topic_id == entry.topic_id and not 0 != (header.get("data_id") or 0) != self.data_id != 0):
            return None
        return self.incarnation_of(entry)

    def incarnation_of(self, entry: TopicEntry) -> TopicIncarnation:
        """The `TopicIncarnation` of a topic, which no other topic of its name has."""
        return TopicIncarnation(entry.topic_id, self.data_id)

    def configs(self) -> list[TopicConfig]:
        """All topics, sorted by name: what a registration announces."""
        return [self._topics[topic].config for topic in sorted(self._topics)]

    def names(self) -> dict[int, str]:
        """Topic id -> topic."""
        return self._names.copy()

    def name_of(self, topic_id: int) -> str | None:
        """The topic with an id, or None."""
        return self._names.get(topic_id)

    def entry_for_send(self, topic: str, sharer: Sharer = NO_SHARER) -> tuple[TopicEntry, bool]:
        """The topic that a message is sent to, made from the template if it may be.

        RocketMQ: TopicConfigManager.createTopicInSendMessageMethod.

        Returns:
            The entry, and whether it is new.

        Raises:
            TopicNotExist: unknown, and the template is not there or not to be inherited from.
            InvalidParameter: an illegal name.
            SystemBusy: too many topics, in all or of this sharer.
        """
        entry = self._topics.get(topic)
        if entry is not None:
            return entry, False
        template = self._topics.get(TEMPLATE_TOPIC)
        if not self._auto_create or template is None or not template.config.perm & Perm.INHERIT:
            raise TopicNotExist(
                f"topic {topic!r} does not exist and automatic creation is off: create it with 'rlab topic create'"
            )
        queues = min(DEFAULT_TOPIC_QUEUES, template.config.read_queue_nums)
        perm = template.config.perm & ~Perm.INHERIT
        return self._put(checked_topic_config(topic, queues, queues, perm), sharer), True

    def ensure(self, topic: str, perm: Perm = READ_WRITE, sharer: Sharer = NO_SHARER) -> tuple[TopicEntry, bool]:
        """A topic with one queue, made if it is missing, and whether it is new; `Perm.NONE` keeps clients off.

        Raises:
            SystemBusy: too many topics, in all or of this sharer.
        """
        entry = self._topics.get(topic)
        if entry is not None:
            return entry, False
        return self._put(TopicConfig(topic=topic, read_queue_nums=1, write_queue_nums=1, perm=perm), sharer), True

    def put(self, config: TopicConfig, sharer: Sharer = NO_SHARER) -> tuple[TopicEntry, bool]:
        """Create a topic or change an existing one.

        Returns:
            The entry, and whether anything is different from before.

        Raises:
            IllegalOperation: it is a system topic.
            SystemBusy: too many topics, in all or of this sharer.
        """
        if is_system_topic(config.topic):
            raise IllegalOperation(f"{config.topic} is a system topic; it cannot be changed")
        entry = self._topics.get(config.topic)
        if entry is None:
            return self._put(config, sharer), True
        changed = entry.config != config
        entry.configure(config)
        return entry, changed

    def delete(self, topic: str) -> TopicEntry:
        """Remove a topic.

        Raises:
            TopicNotExist: it is not there.
            IllegalOperation: it is a system topic.
        """
        if is_system_topic(topic):
            raise IllegalOperation(f"{topic} is a system topic; it cannot be deleted")
        entry = self.existing(topic)
        del self._topics[topic], self._names[entry.topic_id]
        self._shares.remove(entry.sharer)
        return entry

    def _put(self, config: TopicConfig, sharer: Sharer = NO_SHARER) -> TopicEntry:
        if len(self._topics) >= MAX_TOPICS:
            raise SystemBusy(f"this broker has {MAX_TOPICS} topics already: delete some")
        self._shares.check(sharer)
        self._shares.add(sharer.number)
        self._last_topic_id += 1
        entry = TopicEntry(self._last_topic_id, config, sharer=sharer.number)
        self._topics[config.topic] = entry
        self._names[entry.topic_id] = config.topic
        return entry


def queue_count(config: TopicConfig) -> int:
    """How many queues a topic has on this broker: those that can be read, or written, or both."""
    return max(config.read_queue_nums, config.write_queue_nums)


def remaining_queue(config: TopicConfig, queue_id: int) -> int:
    """The queue for an old message, whose own queue may be gone because the topic has shrunk or was recreated."""
    return queue_id % queue_count(config)


def check_exists(config: TopicConfig, queue_id: int) -> None:
    """Check that the topic has this queue.

    Raises:
        InvalidParameter: it does not.
    """
    if queue_id >= queue_count(config):
        raise InvalidParameter(f"topic {config.topic!r} has no queue {queue_id} on this broker: refresh the route")


def check_writable(config: TopicConfig, queue_id: int) -> None:
    """Check that a queue of the topic takes messages.

    RocketMQ: AbstractSendMessageProcessor.msgCheck. A queue between the write and the read count is still accepted, so
    that a producer with an older route loses nothing while a topic shrinks.

    Raises:
        NoPermission: the topic is not writable.
        InvalidParameter: there is no such queue.
    """
    if not config.perm & Perm.WRITE:
        raise NoPermission(f"topic {config.topic!r} is not writable on this broker")
    check_exists(config, queue_id)


def check_readable(config: TopicConfig, queue_id: int) -> None:
    """Check that a queue of the topic can be read. RocketMQ: PullMessageProcessor.

    Raises:
        NoPermission: the topic is not readable.
        InvalidParameter: there is no such queue.
    """
    if not config.perm & Perm.READ:
        raise NoPermission(f"topic {config.topic!r} is not readable on this broker")
    if queue_id >= config.read_queue_nums:
        raise InvalidParameter(f"topic {config.topic!r} has no queue {queue_id} on this broker: refresh the route")
