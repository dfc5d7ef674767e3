"""MessageQueue: the unit that is assigned to members of a group. RocketMQ: MessageQueue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from model.arguments import check_iterable, short_repr
from model.errors import InvalidParameter


class MessageQueue(NamedTuple):
    """One queue of one topic on one broker; ordered by (topic, broker_name, queue_id).

    A named tuple and not a dataclass: queues are keys and sort keys everywhere, and tuples hash and compare in C.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """Short form for tables and logs: `topic@broker:3`."""
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


def check_queue(queue: MessageQueue) -> MessageQueue:
    """Return a queue that a user has named.

    Raises:
        InvalidParameter: the value is not a `MessageQueue`, for instance a plain tuple.
    """
    if not isinstance(queue, MessageQueue):
        raise InvalidParameter(
            f"a queue must be a MessageQueue, got {short_repr(queue)}: write MessageQueue(topic, broker_name, queue_id)"
        )
    return queue


def check_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return the queues that a user has named, as a list; see `check_queue`."""
    check_iterable("queues", queues)
    return [check_queue(queue) for queue in queues]
