"""Asks the coordinator of a group for the target of this member. RocketMQ: RebalanceImpl.tryQueryAssignment.

The coordinator is the first broker, by name, that serves a topic of any member. When an added broker becomes the first,
members learn of it at different times; so a member goes on with the old coordinator until the new one knows all the
members that the old one knows. If the old one does not answer, there is nothing to wait for, and the new one waits for
the members that it knows itself (`broker/assignment/group_assignments.py`).

Invariant: an assignment that this member applies has a version no less than any that it applied before.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

import msgpack

from client.instance.instance import ClientInstance
from model.assignment import AssignmentQuery, MemberShare, topic_queues
from model.errors import ConnectFailed, GroupNotExist, NetworkError
from remoting.command import Command
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)


class AssignmentRequests:
    """The assignment requests of one member.

    Attributes:
        share: the newest assignment that it got.
        coordinator: address of the broker that answered last, "" if none did.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self.share = MemberShare(version=0, queues=())
        self.coordinator = ""
        self._instance = instance
        self._group = group

    async def ask(self, topics: Collection[str], cause: str) -> MemberShare | None:
        """Ask for the assignment of this member; the topics are those of all members, with their routes known.

        Returns:
            The assignment; None to keep the queues it owns and ask again.

        Raises:
            ConnectFailed: there are brokers, and none answers.
            RlabError: the coordinator refuses.

        Cancellation: harmless.
        """
        failures = []
        for address in await self._coordinators(topics):
            try:
                answer = await self._ask(address, topics, cause)
            except NetworkError as error:
                failures.append(f"{address}: {error}")
                continue
            self.coordinator = address
            return await self._take(answer, topics, cause)
        if failures:
            raise ConnectFailed(f"no broker assigns the queues of group {self._group!r}: {'; '.join(failures)}")
        return None

    async def _coordinators(self, topics: Collection[str]) -> list[str]:
        views = self._instance.views
        addresses = views.member_list_brokers(topics)
        if self.coordinator in addresses and addresses[0] != self.coordinator:
            try:
                before = await views.ask(self._group, self.coordinator)
                known = await views.ask(self._group, addresses[0])
            except NetworkError:
                return addresses
            if not before.members.keys() <= known.members.keys():
                addresses.remove(self.coordinator)
                addresses.insert(0, self.coordinator)
        return addresses

    async def _ask(self, address: str, topics: Collection[str], cause: str) -> Command:
        instance = self._instance
        query = AssignmentQuery(
            version=self.share.version,
            queues=self.share.queues,
            popped=self.share.popped,
            routes={topic: topic_queues(instance.routes.subscribe_queues(topic)) for topic in topics},
        )
        header = {"group": self._group, "client_id": instance.client_id, "version": query.version, "cause": cause}
        body, timeout_s = msgpack.packb(query.to_wire()), instance.config.request_timeout_s
        try:
            return await instance.remoting.request(address, RequestCode.QUERY_ASSIGNMENT, header, body, timeout_s)
        except GroupNotExist:
            # It was restarted, or our session expired there.
            await instance.heartbeats.send(cause, [address])
            return await instance.remoting.request(address, RequestCode.QUERY_ASSIGNMENT, header, body, timeout_s)

    async def _take(self, answer: Command, topics: Collection[str], cause: str) -> MemberShare | None:
        header = answer.header
        if not header.get("wait") and not header.get("unchanged"):
            share = MemberShare.from_wire(header["version"], msgpack.unpackb(answer.body or b""))
            if share.version < self.share.version:
                logger.info(
                    "%s: assignment %d of group %s is older than %d, and ignored",
                    *(self._instance.client_id, share.version, self._group, self.share.version),
                )
                return None
            self.share = share
        if header["look_again"]:
            # Members see different queues. If we were the late one, the change sets off another pass.
            await self._instance.update_routes(tuple(topics), cause)
        return None if header.get("wait") else self.share
