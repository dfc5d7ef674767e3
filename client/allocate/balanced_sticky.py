"""BALANCED_STICKY: queues of all topics together, evenly, with few moves when members join and leave. Pure.

Invariant: loads of members with the same topics differ by at most one in total; with different topics, they are as even
as the subscriptions allow (`model/even_loads.py`). The result depends only on the sets of queues and members, not on
their order or on earlier owners. So every member computes the same, whenever it joined.

    three topics with one queue each, members A B C      AVG: A has all three      BALANCED_STICKY: one each

RocketMQ has no such strategy: its strategies see one topic at a time (#1945), and sticky assignment was tried on the
broker, which knows the earlier owners (#2149, #2169). `docs/strategies.md` has the alternatives that were tried, with
figures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from client.allocate.strategy import position_of
from model.message_queue import MessageQueue

if TYPE_CHECKING:
    from client.allocate.balanced_queues import BalancedQueues


class AllocateMessageQueueBalancedSticky:
    """Evenly over all topics together, with few moves when members join and leave.

    An instance remembers the last assignment, so that asking for another member of the same group computes nothing. The
    result is the same without it. One thread at a time may use an instance.
    """

    name = "BALANCED_STICKY"
    needs = "numpy"
    """A package that is not in a base installation; `check_strategy` looks for it."""

    def __init__(self) -> None:
        self._queues: BalancedQueues | None = None

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`; queues may be of any topics, and order does not matter."""
        if position_of(consumer_group, current_cid, mq_all, cid_all) is None:
            return []
        return self._balanced().share_of_all(current_cid, mq_all, cid_all)

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        """See `GroupWideStrategy.allocate_group`."""
        return self._balanced().share_of(current_cid, queues_of, topics_of)

    def _balanced(self) -> BalancedQueues:
        if self._queues is None:
            # Late, because numpy takes a while to import, and most groups have another strategy.
            from client.allocate.balanced_queues import BalancedQueues  # noqa: PLC0415

            self._queues = BalancedQueues()
        return self._queues
