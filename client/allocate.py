"""Allocation strategies: which of a topic's queues one member of a group consumes.

A strategy is a pure function of (all queues, all members, my id). Every member runs it on its own, nobody assigns
anything to anybody: members agree because they sort the same inputs and use the same strategy.

Invariant: for one view of the group, the shares of all its members cover every queue exactly once.

    queues a0 a1 a2 b0 b1 b2 c0 c1 c2, members W X Y Z         9 = 2 * 4 + 1: the first member gets one more
    AVG             W: a0 a1 a2    X: b0 b1    Y: b2 c0    Z: c1 c2        consecutive blocks
    AVG_BY_CIRCLE   W: a0 b1 c2    X: a1 b2    Y: a2 c0    Z: b0 c1        dealt out like cards

RocketMQ: AllocateMessageQueueStrategy and its implementations; names and signature are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from model.message_queue import MessageQueue


class AllocateMessageQueueStrategy(Protocol):
    """What a strategy must offer. All members of a group have to use the same one."""

    @property
    def name(self) -> str:
        """Travels in the heartbeat, so that members with different strategies can be reported."""
        ...

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """Choose the queues of one member.

        Args:
            consumer_group: name of the group, for messages and for strategies that depend on it.
            current_cid: client id of the member that asks.
            mq_all: every queue of one topic, sorted.
            cid_all: client id of every member that subscribes to the topic, sorted.

        Returns:
            The member's share; empty if `current_cid` is not among `cid_all`.

        Raises:
            ValueError: an argument is empty.
        """
        ...


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
        share, rest = divmod(len(mq_all), len(cid_all))
        # Every member before me has `share` queues, and those among the first `rest` have one more. This also covers
        # fewer queues than members (share is 0), where the reference needs a negative count that skips its loop.
        start = index * share + min(index, rest)
        return list(mq_all[start : start + share + (index < rest)])


class AllocateMessageQueueAveragelyByCircle:
    """Dealt out in turn: member i gets queues i, i + members, i + 2 * members ...

    Spreads each member over the brokers. RocketMQ: AllocateMessageQueueAveragelyByCircle.
    """

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`."""
        index = position_of(consumer_group, current_cid, mq_all, cid_all)
        return [] if index is None else list(mq_all[index :: len(cid_all)])


def position_of(
    consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
) -> int | None:
    """Check the arguments that all strategies share, and find the member.

    Returns:
        The first position of `current_cid` in `cid_all`, or None if it is not there: a view of the group from before
        this member joined is normal for a moment, and such a member simply owns nothing in it. A linear search on
        purpose: a bisection would need sorted input to be right, and this stays right for any input.

    Raises:
        ValueError: an argument is empty. RocketMQ: AbstractAllocateMessageQueueStrategy.check.
    """
    for what, value in (("current_cid", current_cid), ("mq_all", mq_all), ("cid_all", cid_all)):
        if not value:
            raise ValueError(f"{what} is empty: group {consumer_group!r} cannot be allocated for {current_cid!r}")
    try:
        return cid_all.index(current_cid)
    except ValueError:
        return None
