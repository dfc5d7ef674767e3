"""The offsets of a broadcasting consumer and the time of each first subscription, as its file has them. Pure.

An offset is deleted only by `unsubscribe`. RocketMQ drops those of queues that are no longer in a route, so that a
broker that was away for a moment is read from its end when it is back, and the messages in between are lost
(LocalFileOffsetStore, apache/rocketmq#4016).

The file is JSON, for people who have to look at it, or repair it:

    {"format": 1, "topics": {"orders": {
      "since_ms": 1700000000000, "since_at": {"broker-a": 1700000000123},
      "numbers": {"broker-a": [7, 1234567]},
      "offsets": {"broker-a:0": 17, "broker-a:1": 4}}}}

`since_at` and `numbers` (topic id and number of the disk) may be absent, as in files of earlier versions: see
`client/leases/wanted_topic.py`.

Invariant: an offset moves only forward, except by `reset`; `decode(encode())` is the same table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from client.leases.wanted_topic import WantedTopic
from model.message_queue import MessageQueue
from model.topic_incarnation import TopicIncarnation

FORMAT = 1


@dataclass(slots=True)
class _Topic:
    """One topic, and the offsets of its queues by (broker name, queue id)."""

    wanted: WantedTopic
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)


class LocalOffsets:
    """Offsets by queue; an offset is the first one that is not processed."""

    def __init__(self) -> None:
        """Make an empty table."""
        self._topics: dict[str, _Topic] = {}
        self.version = 0
        """Grows with every change, so that the store can skip a write without one."""

    def begin(self, topic: str, now_ms: int, loop_ms: float | None = None) -> bool:
        """Record that a topic is subscribed to; returns whether it was not before. Only the first time counts."""
        if topic in self._topics:
            return False
        self._topics[topic] = _Topic(WantedTopic(now_ms, loop_ms))
        self.version += 1
        return True

    def wanted_topic(self, topic: str) -> WantedTopic | None:
        """A topic that has begun, to be looked at only; None if it was unsubscribed."""
        entry = self._topics.get(topic)
        return None if entry is None else entry.wanted

    def record(
        self, topic: str, broker: str, incarnation: TopicIncarnation | None, clocks: Mapping[str, float]
    ) -> bool:
        """Record what a broker has answered about a topic: its incarnation, and the time (see `WantedTopic.since`).

        Returns whether it has another incarnation than before; then the offsets of its queues at this broker are
        dropped.
        """
        entry = self._topics.get(topic)
        if entry is None:
            return False
        is_other = entry.wanted.is_other(broker, incarnation)
        if is_other:
            entry.offsets = {queue: n for queue, n in entry.offsets.items() if queue[0] != broker}
        is_new = incarnation is not None and entry.wanted.record_incarnation(broker, incarnation)
        if entry.wanted.record_clock(broker, clocks) or is_new:
            self.version += 1
        return is_other

    def offset_of(self, queue: MessageQueue) -> int | None:
        """The offset of a queue, or None if there is none."""
        topic = self._topics.get(queue.topic)
        return None if topic is None else topic.offsets.get((queue.broker_name, queue.queue_id))

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Move a queue forward; a lower offset is ignored, and so is a topic that was unsubscribed in between."""
        old_offset = self.offset_of(queue)
        if old_offset is None or offset > old_offset:
            self.reset(queue, offset)

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Put a queue at any offset; ignored for a topic that was unsubscribed in between."""
        topic = self._topics.get(queue.topic)
        if topic is not None and self.offset_of(queue) != offset:
            topic.offsets[queue.broker_name, queue.queue_id] = offset
            self.version += 1

    def end(self, topic: str) -> None:
        """Forget a topic that was unsubscribed from."""
        if self._topics.pop(topic, None) is not None:
            self.version += 1

    def topics(self) -> tuple[str, ...]:
        """Every topic that has begun, sorted."""
        return tuple(sorted(self._topics))

    def encode(self) -> bytes:
        """The text of the file; equal tables give equal bytes."""
        topics = {
            name: {
                "since_ms": topic.wanted.since_ms,
                "since_at": dict(sorted(topic.wanted.since_at.items())),
                "numbers": {broker: list(each) for broker, each in sorted(topic.wanted.incarnations.items())},
                "offsets": {f"{broker}:{queue_id}": n for (broker, queue_id), n in sorted(topic.offsets.items())},
            }
            for name, topic in sorted(self._topics.items())
        }
        return json.dumps({"format": FORMAT, "topics": topics}, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> LocalOffsets:
        """Read the text of a file; ValueError if it is malformed, with the reason."""
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"not an offsets file of format {FORMAT}")
        offsets = cls()
        for name, wire in _items(document.get("topics"), "topics"):
            topic = offsets._topics[name] = _Topic(_wanted(name, wire))
            for key, value in _items(_member(wire, "offsets"), f"offsets of {name}"):
                broker, colon, queue_id = key.rpartition(":")
                if not colon or not queue_id.isdecimal():
                    raise ValueError(f"{key!r} of {name} is not a queue: write broker:number")
                topic.offsets[broker, int(queue_id)] = _number(value, f"the offset of {name} {key}")
        return offsets


def _wanted(name: str, wire: Any) -> WantedTopic:
    entry = WantedTopic(_number(_member(wire, "since_ms"), f"since_ms of {name}"))
    for broker, value in _items(wire.get("since_at", {}), f"since_at of {name}"):
        entry.since_at[broker] = _number(value, f"since_at of {name} {broker}")
    for broker, value in _items(wire.get("numbers", {}), f"numbers of {name}"):
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError(f"the numbers of {name} {broker} must be [topic id, number of the disk], got {value!r}")
        entry.incarnations[broker] = TopicIncarnation(
            *(_number(each, f"a number of {name} {broker}") for each in value)
        )
    return entry


def _member(wire: Any, key: str) -> Any:
    if not isinstance(wire, dict) or key not in wire:
        raise ValueError(f"a topic without {key}")
    return wire[key]


def _items(wire: Any, subject: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(wire, dict):
        raise ValueError(f"{subject} must be an object")
    return wire.items()


def _number(value: Any, subject: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{subject} must be a whole number from 0, got {value!r}")
    return value
