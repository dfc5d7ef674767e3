"""TopicIncarnation: identifies one life of a topic at a broker. Pure.

A topic that is deleted and created again has another TopicIncarnation, because offsets of the deleted topic mean
nothing in the new one. Nor do offsets of a broker's old data directory mean anything in a new one. A data directory has
a random number, its data id, and a broker never assigns a topic id twice in one directory. So the pair (topic id, data
id) identifies the topic:

    (7, 99) and (9, 99)    the topic was deleted and created again
    (7, 99) and (7, 12)    the broker has a new data directory
    (7, 99) and (7, 0)     counts as the same topic, because the second one has no data id
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class TopicIncarnation(NamedTuple):
    """Topic id and data id of a topic at one broker."""

    topic_id: int
    data_id: int = 0  # number of the broker's data directory; 0 if it is not known

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> TopicIncarnation | None:
        """The incarnation in a header of a request or an answer; None without one: servers of RocketMQ send none."""
        topic_id = header.get("topic_id")
        return cls(topic_id, header.get("data_id") or 0) if topic_id else None

    def to_header(self) -> dict[str, int]:
        """The header fields that carry this incarnation."""
        return {"topic_id": self.topic_id, "data_id": self.data_id}

    def surely_differs(self, other: TopicIncarnation) -> bool:
        """Whether this is certainly another incarnation; unknown data ids do not count."""
        are_known = self.data_id != 0 and other.data_id != 0
        return self.topic_id != other.topic_id or (are_known and self.data_id != other.data_id)

    def __str__(self) -> str:
        """For logs: `7`, or `7 of disk 1f4c`."""
        return f"{self.topic_id} of disk {self.data_id:x}" if self.data_id else str(self.topic_id)
