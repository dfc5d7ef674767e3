"""TopicNumber: topic id and disk of a topic at a broker; a later topic of the same name has another one. Pure.

Offsets of a deleted topic mean nothing in a new topic of the same name, and offsets of a broker's old disk mean nothing
on its new one. A broker never assigns a topic id twice on one disk, and its data directory has a random number, its
data id. The pair (topic id, data id) identifies the topic:

    (7, 99) and (9, 99)    the topic was deleted and created again
    (7, 99) and (7, 12)    the broker has a new disk
    (7, 99) and (7, 0)     taken as the same: the second broker sends no data id
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class TopicNumber(NamedTuple):
    """Topic id and data id of a topic at one broker."""

    topic_id: int
    data_id: int = 0  # number of the broker's data directory; 0 if it is not known

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> TopicNumber | None:
        """The number in a header of a request or an answer; None without one: servers of RocketMQ send none."""
        topic_id = header.get("topic_id")
        return cls(topic_id, header.get("data_id") or 0) if topic_id else None

    def to_header(self) -> dict[str, int]:
        """The header fields that carry this number."""
        return {"topic_id": self.topic_id, "data_id": self.data_id}

    def differs(self, other: TopicNumber) -> bool:
        """Whether it is certainly the number of another topic."""
        return self.topic_id != other.topic_id or 0 != self.data_id != other.data_id != 0

    def __str__(self) -> str:
        """For logs: `7`, or `7 of disk 1f4c`."""
        return f"{self.topic_id} of disk {self.data_id:x}" if self.data_id else str(self.topic_id)
