"""The queues of a member whose group uses assignment="broker": leased queues to pull, and queues to pop.

RocketMQ: RebalanceImpl.getRebalanceResultFromBroker, updateMessageQueueAssignment. Only the target differs from
`client/rebalance/leased_queues.py`. When the mode of a topic changes, its queues pass from one half of this class to
the other, and brokers keep the halves apart: they deliver nothing by POP from a leased queue, and grant no lease of a
queue with invisible messages.

    PULL -> POP   the queues are revoked as for another member; each is popped once it is released
    POP -> PULL   the queues are no longer popped; leases are refused until the popped messages are acknowledged
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import msgpack

from client.allocate.strategy import AssignedByBroker
from client.instance.instance import ClientInstance
from client.instance.schedule import RebalancePass
from client.rebalance.leased_queues import LeasedQueues
from client.rebalance.ownership import MemberContext, Popping
from model.assignment import AssignmentQuery, MemberAssignment, topic_queues
from model.errors import ConnectFailed, GroupNotExist, NetworkError
from model.message_queue import MessageQueue
from remoting.command import Command
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)


class BrokerAssignedQueues(LeasedQueues):
    """The queues of one member that a broker assigned to it.

    `make_popping` is called with the first queue to pop; it returns None if this consumer cannot pop.
    """

    def __init__(self, context: MemberContext, make_popping: Callable[[MemberContext], Popping | None]) -> None:
        super().__init__(context, AssignedByBroker())
        self.requests = AssignmentRequests(context.instance, context.group)
        self._make_popping = make_popping
        self._popping: Popping | None = None

    async def _target(self, due: RebalancePass, topics: tuple[str, ...], cause: str) -> list[MessageQueue] | None:
        if not topics:
            self._pop(())
            return []
        if await self._targets.view(topics, cause) is None:
            return None
        assignment = await self.requests.ask((*topics, *self.topics_of_others), cause)
        if assignment is None:
            return None
        self._pop([queue for queue in assignment.queues if queue.topic in assignment.popped and queue.topic in topics])
        return [queue for queue in assignment.queues if queue.topic not in assignment.popped and queue.topic in topics]

    def _pop(self, queues: Collection[MessageQueue]) -> None:
        # The shutdown may have begun while this pass waited for its assignment: it must not start to pop then.
        if self._popping is None and queues and not self._table.closing:
            self._popping = self._make_popping(self._context)
            if self._popping is None:
                logger.error(
                    "%s: group %s is set to pop %s, and this kind of consumer cannot pop",
                    *(self._instance.client_id, self._group, ", ".join(sorted({queue.topic for queue in queues}))),
                )
        if self._popping is not None:
            self._popping.pop_from(queues)

    async def close(self, cause: str) -> None:
        """Release everything; see `LeasedQueues.close`, and `PopConsumption.close` for the popped messages."""
        if self._popping is not None:
            self._popping.pop_from(())
        await super().close(cause)
        if self._popping is not None:
            await self._popping.close(cause)


class AssignmentRequests:
    """Asks the coordinator of a group for the target of this member. RocketMQ: RebalanceImpl.tryQueryAssignment.

    The coordinator is the first broker, by name, that serves a topic of any member. When an added broker becomes the
    first, members see its route at different times; so a member keeps the old coordinator until the new one has all
    members of the old one. If the old one does not answer, the member changes at once, and the new one waits for its
    own members (`broker/assignment/group_assignments.py`).

    Invariant: the versions of the assignments that this member applies never decrease.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self.assignment = MemberAssignment(version=0, queues=())
        """The newest assignment."""
        self.coordinator = ""
        """Address of the broker that answered last."""
        self._instance = instance
        self._group = group

    async def ask(self, topics: Collection[str], cause: str) -> MemberAssignment | None:
        """Ask for the assignment of this member; None means to keep the owned queues and ask again.

        The topics are the topics of all members, and their routes are known. ConnectFailed: there are brokers, but no
        broker answers; another RlabError: the coordinator refuses. Cancellation: harmless.
        """
        failures = []
        for address in await self._coordinators(topics):
            try:
                answer = await self._ask(address, topics, cause)
            except NetworkError as error:
                failures.append(f"{address}: {error}")
                continue
            self.coordinator = address
            return await self._apply(answer, topics, cause)
        if failures:
            raise ConnectFailed(f"no broker assigns the queues of group {self._group!r}: {'; '.join(failures)}")
        return None

    async def _coordinators(self, topics: Collection[str]) -> list[str]:
        views = self._instance.views
        addresses = views.member_list_brokers(topics)
        if self.coordinator in addresses and addresses[0] != self.coordinator:
            try:
                first_view = await views.ask(self._group, self.coordinator)
                newest_view = await views.ask(self._group, addresses[0])
            except NetworkError:
                return addresses
            if not first_view.members.keys() <= newest_view.members.keys():
                addresses.remove(self.coordinator)
                addresses.insert(0, self.coordinator)
        return addresses

    async def _ask(self, address: str, topics: Collection[str], cause: str) -> Command:
        instance = self._instance
        query = AssignmentQuery(
            version=self.assignment.version,
            queues=self.assignment.queues,
            popped=self.assignment.popped,
            routes={topic: topic_queues(instance.routes.subscribe_queues(topic)) for topic in topics},
        )
        header = {"group": self._group, "client_id": instance.client_id, "version": query.version, "cause": cause}
        body, timeout_s = msgpack.packb(query.to_wire()), instance.config.request_timeout_s
        try:
            return await instance.remoting.request(address, RequestCode.QUERY_ASSIGNMENT, header, body, timeout_s)
        except GroupNotExist:
            # The coordinator was restarted, or our session expired there.
            await instance.heartbeats.send(cause, [address])
            return await instance.remoting.request(address, RequestCode.QUERY_ASSIGNMENT, header, body, timeout_s)

    async def _apply(self, answer: Command, topics: Collection[str], cause: str) -> MemberAssignment | None:
        header = answer.header
        if not header.get("wait") and not header.get("unchanged"):
            assignment = MemberAssignment.from_wire(header["version"], msgpack.unpackb(answer.body or b""))
            if assignment.version < self.assignment.version:
                logger.info(
                    "%s: assignment %d of group %s is older than %d, and ignored",
                    *(self._instance.client_id, assignment.version, self._group, self.assignment.version),
                )
                return None
            self.assignment = assignment
        if header["look_again"]:
            # Members see different queues. If our routes are the old ones, their change starts another pass.
            await self._instance.update_routes(tuple(topics), cause)
        return None if header.get("wait") else self.assignment
