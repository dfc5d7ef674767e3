"""The allocation: every member computes its own queues from the same two sorted lists. Pure.

    4 queues, members a, b and c:   a: 0 1   b: 2   c: 3

No member asks another one. They agree because they sort the same lists, and disagree as long as the lists differ.
"""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of a topic on a broker. RocketMQ: MessageQueue."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.broker_name}:{self.queue_id}"


def allocate(
    consumer_group: str, current_cid: str, mq_all: list[MessageQueue], cid_all: list[str]
) -> list[MessageQueue]:
    """The queues of one member. RocketMQ: AllocateMessageQueueAveragely.allocate.

    The first `len(mq_all) % len(cid_all)` members have one queue more than the others.
    """
    if current_cid not in cid_all:
        return []  # the broker does not know this member yet
    index = cid_all.index(current_cid)
    size, rest = divmod(len(mq_all), len(cid_all))
    start = index * size + min(index, rest)
    return mq_all[start : start + size + (index < rest)]
