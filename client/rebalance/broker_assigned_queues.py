"""Queues of a member whose group uses assignment="broker": leased queues to pull, and queues to pop.

RocketMQ: RebalanceImpl.getRebalanceResultFromBroker, updateMessageQueueAssignment. All but the target is as in
`client/rebalance/leased_queues.py`. When the mode of a topic changes, its queues pass from one half of this class to
the other, and brokers keep the halves apart: they deliver nothing by POP from a leased queue, and grant no lease of a
queue with invisible messages.

    PULL -> POP   its queues are revoked as for another member; each is popped once it is released
    POP -> PULL   it is not popped any more; leases are refused until its popped messages are acknowledged
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from client.allocate.strategy import LeftToBroker
from client.instance.schedule import RebalancePass
from client.rebalance.assignment_requests import AssignmentRequests
from client.rebalance.leased_queues import LeasedQueues
from client.rebalance.ownership import MemberContext, Popping
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class BrokerAssignedQueues(LeasedQueues):
    """The queues of one member that a broker assigned to it.

    Args:
        make_popping: makes what pops, when there is something to pop; returns None if this consumer cannot.
    """

    def __init__(self, context: MemberContext, make_popping: Callable[[MemberContext], Popping | None]) -> None:
        super().__init__(context, LeftToBroker())
        self.requests = AssignmentRequests(context.instance, context.group)
        self._make_popping = make_popping
        self._popping: Popping | None = None

    async def _target(self, due: RebalancePass, topics: tuple[str, ...], cause: str) -> list[MessageQueue] | None:
        if not topics:
            self._pop(())
            return []
        if await self._view(topics, cause) is None:
            return None
        share = await self.requests.ask((*topics, *self.topics_of_others), cause)
        if share is None:
            return None
        self._pop([queue for queue in share.queues if queue.topic in share.popped and queue.topic in topics])
        return [queue for queue in share.queues if queue.topic not in share.popped and queue.topic in topics]

    def _pop(self, queues: Collection[MessageQueue]) -> None:
        if self._popping is None and queues and not self._closing:
            self._popping = self._make_popping(self._context)
            if self._popping is None:
                logger.error(
                    "%s: group %s is to pop %s, which this kind of consumer cannot",
                    *(self._instance.client_id, self._group, ", ".join(sorted({queue.topic for queue in queues}))),
                )
        if self._popping is not None:
            self._popping.pop_from(queues)

    async def close(self, cause: str) -> None:
        """Release everything; see `LeasedQueues.close`, and `PopConsumption.close` for what was popped."""
        if self._popping is not None:
            self._popping.pop_from(())
        await super().close(cause)
        if self._popping is not None:
            await self._popping.close(cause)
