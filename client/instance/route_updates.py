"""Keeps the routes of a client instance up to date, registers at new brokers, and wakes the groups whose queues change.

Routes are requested at an interval, when a client needs a topic, when a name server notifies of a change, and while a
broker cannot be reached. The polls alone are sufficient; with a notification, a change is seen within a tenth of a
second.

RocketMQ: MQClientInstance.updateTopicRouteInfoFromNameServer, which only polls.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from random import Random

import anyio

from client.instance.broker_reconnector import BrokerReconnector, Masters
from client.instance.heartbeats import Heartbeats
from client.instance.member import InstanceHost
from client.instance.name_servers import NameServers
from client.trigger import Trigger
from model.errors import NetworkError, RlabError
from model.events import EventKind
from model.replica_limits import ROUTE_NOTICE_SPREAD_S
from model.topic_route import TopicRoute
from remoting.command import Command
from remoting.tasks import run_together

logger = logging.getLogger(__name__)


class RouteUpdates:
    """The updates of the routes of one client instance."""

    def __init__(
        self,
        host: InstanceHost,
        name_servers: NameServers,
        heartbeats: Heartbeats,
        masters: Masters,
        reconnector: BrokerReconnector,
    ) -> None:
        self._host = host
        self._name_servers = name_servers
        self._heartbeats = heartbeats
        self._masters = masters
        self._reconnector = reconnector
        # Topics that name servers have notified of and that are not asked for yet; None: all that are in use.
        self._notified: dict[str, None] | None = {}
        self._answering_notices = False

    async def poll(self) -> None:
        """Ask for the route of every topic in use, unless none has changed; see `update`."""
        topics, routes = self._host.topics(), self._host.routes
        has_all = all(routes.route_of(topic) is not None for topic in topics) and not self._host.removal_grace.waits
        if topics and has_all and not await self._name_servers.any_changed(topics[0]):
            self._masters.forget_old()
            return
        self._name_servers.begin_poll()
        await self.update(topics)

    async def poll_changed_routes(self) -> None:
        """Get changed routes after a failed connection: its broker may have moved. ConnectFailed: no server answers.

        While the master of a set is lost, the name servers are asked in turn: one that lags may not know the next one.
        """
        topics, routes = self._host.topics(), self._host.routes
        if topics and await self._name_servers.any_changed(topics[0]):
            self._name_servers.begin_poll()
            await self.update(topics, absence_counts=False)
        if any(routes.is_set(routes.broker_at(address)) for address in self._reconnector.lost_at):
            self._name_servers.ask_next()

    async def update(self, topics: tuple[str, ...], cause: str = "", *, absence_counts: bool = True) -> None:
        """Ask for the routes of some topics, all at once.

        A change first registers us at brokers that are new in it, and only then wakes the groups: they ask those
        brokers for members, and would not find themselves. Without a cause, the first change is a root.

        Raises:
            ConnectFailed: no name server answers.
        """
        changed, new = dict[str, None](), dict[str, None]()
        failures: list[RlabError] = []

        async def update_one(topic: str) -> None:
            try:
                self._apply(topic, changed, new, absence_counts, await self._name_servers.route(topic))
            except RlabError as error:
                # Out of a task group it would come as an ExceptionGroup, and pass every handler of RlabError.
                failures.append(error)

        if topics:
            await update_one(topics[0])  # the first one alone: it finds a name server that answers, for all of them
        if not failures:
            await run_together([partial(update_one, topic) for topic in topics[1:]])
        await self._routes_changed(changed, list(new), cause)
        if failures:
            raise failures[0]

    def _apply(
        self,
        topic: str,
        changed: dict[str, None],
        new: dict[str, None],
        absence_counts: bool,
        polled: TopicRoute | None,
    ) -> None:
        """Take over a route; adds its topic to `changed` if its queues have changed, and new addresses to `new`."""
        host, routes = self._host, self._host.routes
        used, now = routes.route_of(topic), anyio.current_time()
        lost_brokers = {routes.broker_at(address): lost_at for address, lost_at in self._reconnector.lost_at.items()}
        route = host.removal_grace.confirm(topic, used, polled, now, lost_brokers, absence_counts=absence_counts)
        if route != used:
            # New by this update alone: others run at the same time, and each new broker gets one heartbeat.
            old = routes.masters()
            epochs = {name: routes.epoch_of(name) for name in old}
            if routes.update(topic, route):
                changed[topic] = None
            old_masters, masters = set(old.values()), routes.masters()
            new.update((address, None) for address in masters.values() if address not in old_masters)
            self._masters.moved(old)
            for name, address in masters.items():
                if routes.epoch_of(name) > epochs.get(name, 0):
                    self._reconnector.try_soon(address)
        self._masters.forget_old()

    async def fetch_missing(self, topics: tuple[str, ...], cause: str) -> None:
        """Get the routes of topics that have none here. No pass may fail for one that does not exist."""
        unknown = tuple(topic for topic in topics if self._host.routes.route_of(topic) is None)
        if unknown:
            with suppress(NetworkError):
                await self.update(unknown, cause)

    async def _routes_changed(self, changed: dict[str, None], new: list[str], cause: str) -> None:
        """Register at new addresses of brokers, then wake the groups whose topics changed."""
        host = self._host
        for topic in changed:
            n, client = len(host.routes.subscribe_queues(topic)), host.client_id
            cause = host.events.emit(EventKind.ROUTE_CHANGED, cause=cause, topic=topic, client=client, n=n)
        if new and not changed:
            await self._reconnector.moved(new)
        elif new:
            await self._heartbeats.send(cause, new)
        for group, member in host.members.items():
            if any(topic in changed for topic in member.topics()):
                host.wake(group, Trigger.ROUTE, cause)

    # --- notifications -----------------------------------------------------------------------------------------------

    def notified(self, address: str, command: Command) -> None:
        """Ask for the routes that a name server has notified of: NOTIFY_ROUTE_CHANGED. One task for all of them."""
        topics = command.header.get("topics")
        if topics is None or self._notified is None:
            self._notified = None
        else:
            self._notified.update(dict.fromkeys(topics))
        if not self._answering_notices and self._host.background.running:
            self._answering_notices = True
            self._host.background.start_soon(self._answer_notices)

    async def _answer_notices(self) -> None:
        rng = Random(self._host.client_id)  # a separate generator, so that other waits do not depend on notifications
        try:
            while self._notified or self._notified is None:
                # Thousands of clients are notified together.
                await anyio.sleep(rng.random() * ROUTE_NOTICE_SPREAD_S)
                notified, self._notified = self._notified, {}
                # A broker that is gone may be about to return, so its absence counts in polls only: see
                # `RouteRemovalGrace`.
                with suppress(NetworkError):
                    if notified is None:
                        await self.poll_changed_routes()
                    else:
                        used_topics = tuple(topic for topic in self._host.topics() if topic in notified)
                        await self.update(used_topics, absence_counts=False)
        finally:
            self._answering_notices = False
