"""AVG and AVG_BY_CIRCLE: equal numbers of queues by position in the sorted member list. Pure.

queues a0 a1 a2 b0 b1 b2 c0 c1 c2, members W X Y Z         9 = 2 * 4 + 1: the first member gets one more
AVG             W: a0 a1 a2    X: b0 b1    Y: b2 c0    Z: c1 c2        consecutive blocks
AVG_BY_CIRCLE   W: a0 b1 c2    X: a1 b2    Y: a2 c0    Z: b0 c1        dealt out like cards
"""

from __future__ import annotations

from collections.abc import Sequence

from client.allocate.strategy import position_of
from model.message_queue import MessageQueue


class AllocateMessageQueueAveragely:
    """Consecutive blocks; the first `queues % members` members get one queue more.

    A member that joins or leaves shifts the blocks of all that sort after it. RocketMQ: AllocateMessageQueueAveragely.
    """

    name = "AVG"

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`."""
        index = position_of(consumer_group, current_cid, mq_all, cid_all)
        if index is None:
            return []
        share, remainder = divmod(len(mq_all), len(cid_all))
        # Every member before me has `share` queues, and those among the first `rest` have one more. This also covers
        # fewer queues than members (share is 0), where RocketMQ needs a negative count that skips its loop.
        start = index * share + min(index, remainder)
        return list(mq_all[start : start + share + (index < remainder)])


class AllocateMessageQueueAveragelyByCircle:
    """One by one, in turn: member i gets queues i, i + members, i + 2 * members ...

    Spreads each member over the brokers. RocketMQ: AllocateMessageQueueAveragelyByCircle.
    """

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`."""
        index = position_of(consumer_group, current_cid, mq_all, cid_all)
        return [] if index is None else list(mq_all[index :: len(cid_all)])
