"""Asks a broker for the member list of a group, and caches the answer by its group version.

RocketMQ asks one random broker of the topic (MQClientInstance.findConsumerIdList), so that members with different lists
assign a queue twice or not at all. Here every member asks the same one: the first broker, by name, that serves a topic
of the group and answers. `Quirk.RANDOM_VIEW` restores RocketMQ's way.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgpack

from client.instance.routes import RouteCache
from model.errors import ConnectFailed, NetworkError
from model.heartbeat import GroupView
from model.names import is_retry_topic
from remoting.client import RemotingClient
from remoting.request_code import RequestCode


class GroupViews:
    """Member lists by group and broker address; with `any_of`, the broker that is asked is random."""

    def __init__(
        self, remoting: RemotingClient, routes: RouteCache, timeout_s: float, any_of: Random | None = None
    ) -> None:
        self._remoting = remoting
        self._routes = routes
        self._timeout_s = timeout_s
        self._any_of = any_of
        self._views: dict[str, dict[str, GroupView]] = {}

    def known_version(self, group: str, address: str) -> int:
        """The newest group version that this broker answered with, or -1."""
        view = self._views.get(group, {}).get(address)
        return -1 if view is None else view.version

    def forget(self, group: str) -> None:
        """Drop what is known of a group."""
        self._views.pop(group, None)

    async def fetch(self, group: str, topics: Iterable[str]) -> tuple[str, GroupView] | None:
        """The address of the broker that answered, and its member list; None when no broker serves any of the topics.

        ConnectFailed: there are brokers, and none answers. Cancellation: harmless.
        """
        addresses = self.member_list_brokers(topics)
        if self._any_of is not None:
            self._any_of.shuffle(addresses)
        failures = []
        for address in addresses:
            try:
                return address, await self.ask(group, address)
            except NetworkError as error:
                failures.append(f"{address}: {error}")
        if failures:
            raise ConnectFailed(f"no broker answers with the members of group {group!r}: {'; '.join(failures)}")
        return None

    def member_list_brokers(self, topics: Iterable[str]) -> list[str]:
        """Addresses of the brokers that serve any of the topics, in the order in which members ask them."""
        # Retry topics do not count, because a broker may have one although it serves no topic of the group; but after
        # its last unsubscribe a member has nothing else, and must still learn that its target is empty.
        serving = {topic: self._routes.brokers_of(topic) for topic in topics}
        names = {name for topic, brokers in serving.items() if not is_retry_topic(topic) for name in brokers}
        if not names and all(is_retry_topic(topic) for topic in serving):
            names = {name for brokers in serving.values() for name in brokers}
        addresses = [self._routes.address_of(name) for name in sorted(names)]
        return [address for address in addresses if address is not None]

    async def ask(self, group: str, address: str) -> GroupView:
        """The members of a group as one broker knows them now. Cancellation: harmless."""
        views = self._views.setdefault(group, {})
        header = {"group": group, "known_version": self.known_version(group, address)}
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        answer = await self._remoting.request(address, code, header, None, self._timeout_s)
        if not answer.header.get("unchanged"):
            views[address] = GroupView.from_wire(group, msgpack.unpackb(answer.body or b""))
        return views[address]
