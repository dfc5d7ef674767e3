"""BALANCED_STICKY: all topics of a group shared together, evenly, and little of it moved when members come and go.

Invariant: loads of members with the same topics differ by at most one in total; with different topics, they are as even
as the subscriptions allow (`model/even_loads.py`). The result depends on which queues and members there are: not on
their order, not on who had what before. So every member computes the same, however long it has been there.

    three topics with one queue each, members A B C      AVG: A has all three      BALANCED_STICKY: one each

RocketMQ has none like it: there a strategy sees one topic at a time (#1945), and sticky assignment was tried on the
broker, where what was before is known (#2149, #2169). `docs/strategies.md` has what was tried, and figures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from client.allocate.strategy import position_of
from model.message_queue import MessageQueue

if TYPE_CHECKING:
    from client.allocate.balanced_sharing import BalancedSharing


class AllocateMessageQueueBalancedSticky:
    """Evenly over all topics together, with few moves when members come and go.

    An instance remembers what it last shared among whom, so that asking for another member deals nothing again. It
    changes no result. One thread at a time may ask it.
    """

    name = "BALANCED_STICKY"

    def __init__(self) -> None:
        self._sharing: BalancedSharing | None = None

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        """See `AllocateMessageQueueStrategy.allocate`; queues may be of any topics, and order does not matter."""
        if position_of(consumer_group, current_cid, mq_all, cid_all) is None:
            return []
        return self._sharing_of().share_of_all(current_cid, mq_all, cid_all)

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        """See `GroupWideStrategy.allocate_group`."""
        return self._sharing_of().share_of(current_cid, queues_of, topics_of)

    def _sharing_of(self) -> BalancedSharing:
        if self._sharing is None:
            # Late, because numpy takes a while to import, and most groups have another strategy.
            from client.allocate.balanced_sharing import BalancedSharing  # noqa: PLC0415

            self._sharing = BalancedSharing()
        return self._sharing
