"""Asks a broker for the member list of a group, and caches the answer by its group version.

RocketMQ asks one random broker of the topic (MQClientInstance.findConsumerIdList), so that members with different lists
assign a queue twice or not at all. Here every member asks the same broker: the first one, by name, that serves a topic
of the group and answers. `Quirk.RANDOM_VIEW` restores RocketMQ's way.

The cost of a change follows its size: a broker answers with the difference from the version that the client has. The
clients of one process share the lists: the list of a broker at a version is the same for all of them, so an answer of a
few bytes confirms to the second client that the list of the first is the newest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from random import Random
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgpack

from client.instance.routes import RouteCache
from model.errors import ConnectFailed, NetworkError
from model.heartbeat import GroupView
from model.names import is_retry_topic
from remoting.client import RemotingClient
from remoting.request_code import RequestCode

_Shared = MutableMapping[tuple[str, str], GroupView]
# By event loop; (broker address, group) -> the newest list that any client has from there, while one holds it.
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()


class FetchedView(NamedTuple):
    """A member list, and the seconds after which its broker will notify the members of it; 0 if it has done so."""

    address: str
    view: GroupView
    notify_in_s: float


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
        # group -> (address, cause): the newest list of that broker came with its notification of that change, and no
        # other change has been notified since.
        self._notified: dict[str, tuple[str, str]] = {}

    def known_version(self, group: str, address: str) -> int:
        """The newest group version that this broker answered with, or -1."""
        view = self._views.get(group, {}).get(address)
        return -1 if view is None else view.version

    def forget(self, group: str) -> None:
        """Drop the member lists of a group."""
        self._views.pop(group, None)
        self._notified.pop(group, None)

    def notified(self, group: str, address: str, cause: str, since: object, difference: bytes | None) -> None:
        """Record that a broker has notified us of a change, and the new list if the difference came with it.

        RocketMQ: notifyConsumerIdsChanged.
        """
        if type(since) is int and difference and self._record_view(group, address, since, difference):
            self._notified[group] = (address, cause)
        elif self._notified.get(group, ("", ""))[1] != cause:
            # The list broker may not have sent its notification yet. One of another broker about the same change
            # does not matter: each of them notifies.
            self._notified.pop(group, None)

    def _record_view(self, group: str, address: str, since: int, difference: bytes) -> bool:
        shared = _shared.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        body = cast("list[Any]", msgpack.unpackb(difference))
        view = shared.get((address, group))
        if view is None or view.version != body[0]:
            old_view = self._views.get(group, {}).get(address)
            # It has the new state of the changed members, so it fits every list of that time.
            view = old_view.changed(body) if old_view is not None and since <= old_view.version < body[0] else None
        if view is None:
            return False
        shared[address, group] = self._views.setdefault(group, {})[address] = view
        return True

    def notified_members(self, group: str, topics: Iterable[str]) -> FetchedView | None:
        """The member list of the broker that would be asked, if its notification has brought the newest one."""
        address = self._notified.get(group, ("",))[0]
        if not address or self._any_of is not None or self.member_list_brokers(topics)[:1] != [address]:
            return None
        return FetchedView(address, self._views[group][address], 0.0)

    async def fetch(self, group: str, topics: Iterable[str], *, notified: bool = False) -> FetchedView | None:
        """The member list of the first broker that answers; None when no broker serves any of the topics.

        With `notified`, that broker is not asked if its newest list has come with a notification.

        RocketMQ: findConsumerIdList.

        ConnectFailed: there are brokers, and none answers. Cancellation: harmless.
        """
        if notified and (notified_view := self.notified_members(group, topics)) is not None:
            return notified_view
        addresses = self.member_list_brokers(topics)
        if self._any_of is not None:
            self._any_of.shuffle(addresses)
        failures = []
        for address in addresses:
            try:
                return await self._ask(group, address)
            except NetworkError as error:
                failures.append(f"{address}: {error}")
        if failures:
            raise ConnectFailed(f"no broker answers with the members of group {group!r}: {'; '.join(failures)}")
        if names := self._serving(topics):
            raise ConnectFailed(f"no broker of {', '.join(names)} has a master now: group {group!r} stays as it is")
        return None

    def member_list_brokers(self, topics: Iterable[str]) -> list[str]:
        """Addresses of the masters that serve any of the topics, in the order in which members ask them."""
        addresses = [self._routes.address_of(name) for name in self._serving(topics)]
        return [address for address in addresses if address is not None]

    def _serving(self, topics: Iterable[str]) -> list[str]:
        # Retry topics do not count, because a broker may have one although it serves no topic of the group. But after
        # its last unsubscribe a member has nothing else, and must still find that its target is empty; and where its
        # topics do not exist, or no more, messages that failed before are in the retry topic and have to be read.
        serving = {topic: self._routes.brokers_of(topic) for topic in topics}
        names = {name for topic, brokers in serving.items() if not is_retry_topic(topic) for name in brokers}
        if not names:
            names = {name for brokers in serving.values() for name in brokers}
        return sorted(names)

    async def ask(self, group: str, address: str) -> GroupView:
        """The members of a group as one broker knows them now. Cancellation: harmless."""
        return (await self._ask(group, address)).view

    async def _ask(self, group: str, address: str) -> FetchedView:
        shared = _shared.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        old_view = self._views.get(group, {}).get(address)
        fetched = await self._ask_since(shared.get((address, group)), shared, group, address)
        if fetched is None:
            fetched = await self._ask_since(None, shared, group, address)
        assert fetched is not None, f"a broker answered with a difference from no list of group {group}"
        newest = shared.get((address, group))
        if newest is None or newest.version <= fetched.view.version:
            shared[address, group] = fetched.view
        views = self._views.setdefault(group, {})
        notified_view = views.get(address)
        if notified_view is not None and notified_view is not old_view and notified_view.version > fetched.view.version:
            # A notification overtook the answer. Its list must stay: it is not sent again, and a pass that it triggers
            # would plan with the old one.
            return FetchedView(address, notified_view, 0.0)
        views[address] = fetched.view
        return fetched

    async def _ask_since(
        self, old_view: GroupView | None, shared: _Shared, group: str, address: str
    ) -> FetchedView | None:
        """Ask for the list, or for its difference from a known one; None if the difference does not fit."""
        header = {"group": group, "known_version": -1 if old_view is None else old_view.version, "difference": True}
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        answer = await self._remoting.request(address, code, header, None, self._timeout_s)
        notify_in_s = answer.header.get("notify_in_ms", 0) / 1000
        # A thousand clients that were notified together ask together: the first answer serves all of them.
        newest = shared.get((address, group))
        if newest is not None and newest.version == answer.header["version"]:
            return FetchedView(address, newest, notify_in_s)
        if old_view is not None and answer.header.get("unchanged"):
            return FetchedView(address, old_view, notify_in_s)
        body = msgpack.unpackb(answer.body or b"")
        is_difference = old_view is not None and answer.header.get("difference")
        view = old_view.changed(body) if old_view is not None and is_difference else GroupView.from_wire(group, body)
        return None if view is None else FetchedView(address, view, notify_in_s)
