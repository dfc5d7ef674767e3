"""The routes of a client: which brokers serve which queues, by the last answers of name servers. Pure.

Invariant: everything this cache answers is derived from the routes that it holds now; there is no second table that
could be older. (In RocketMQ the queues that are assigned to consumers are a table of their own, which is refreshed only
when a route is seen to change: after a broker restart it could miss queues until the consumer was restarted.)

A route is removed only by the answer of a name server. Two cases without a route are distinguished:

    the request failed     nothing new is known    `update` is not called; the old route stays
    TOPIC_NOT_EXIST        no such topic           update(topic, None); the route is removed, its queues are revoked

The master of a set of replicas is the one with the highest epoch, whichever name server answers: a name server that
lags returns an earlier master, which is ignored. A replica that is not the master answers with the address of the
master (`follow`).

RocketMQ keeps the old route for ever in both cases without a route. So a topic that was deleted, or whose last broker
died, keeps its queues in every client until that client restarts. In return for removing routes, a name server here
must not answer TOPIC_NOT_EXIST right after its own start, before brokers have registered with it
(`namesrv/beginning.py`).

RocketMQ: MQClientInstance (topicRouteTable, brokerAddrTable, updateTopicRouteInfoFromNameServer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from model.limits import ABSENT_BROKER_KEPT_S
from model.topic_route import MASTER_ID, BrokerData, Perm, SortedQueues, TopicRoute

NOTHING_LOST: Mapping[str, float] = {}
_NO_QUEUES = SortedQueues()


class _Entry(NamedTuple):
    """A route with its queue lists, because a producer asks for them with every message."""

    route: TopicRoute
    subscribe_queues: SortedQueues
    publish_queues: SortedQueues


class RouteCache:
    """The routes of one client instance, shared by its producers and consumers."""

    def __init__(self) -> None:
        """Make an empty cache."""
        self._entries: dict[str, _Entry] = {}  # the route that changed last is last
        self._brokers: dict[str, BrokerData] | None = None  # derived from both; None: to be derived again
        # Broker name -> its data with the highest epoch, of brokers that some route names, where an epoch is known.
        self._newest: dict[str, BrokerData] = {}

    def update(self, topic: str, route: TopicRoute | None) -> bool:
        """Take over the answer of a name server; a route of None means that the topic does not exist.

        Returns whether the queues that can be read have changed; addresses and writability do not matter to consumers.
        """
        old_queues = self.subscribe_queues(topic)
        if route != self.route_of(topic):
            self.forget(topic)
            if route is not None:
                self._entries[topic] = _Entry(route, route.subscribe_queues(), route.publish_queues())
                for broker in route.brokers:
                    self._record_epoch(broker)
        return self.subscribe_queues(topic) != old_queues

    def _record_epoch(self, broker: BrokerData) -> None:
        newest = self._newest.get(broker.broker_name)
        if not broker.set_id:
            self._newest.pop(broker.broker_name, None)  # it has left its set, or the name server is an older one
        elif newest is None or newest.set_id != broker.set_id or newest.epoch <= broker.epoch:
            self._newest[broker.broker_name] = broker

    def follow(self, broker_name: str, master_address: str, epoch: int) -> bool:
        """Take over the master that a replica names; False if it names none, or none of a later epoch than known.

        A route of that epoch or of a later one counts again.
        """
        entry = self._broker_table().get(broker_name)
        if entry is None or not master_address or epoch <= entry.epoch:
            return False
        self._newest[broker_name] = replace(entry, addresses={MASTER_ID: master_address}, epoch=epoch)
        self._brokers = None
        return True

    def forget(self, topic: str) -> None:
        """Drop the route of a topic, and the brokers that only it named."""
        self._entries.pop(topic, None)
        self._brokers = None

    def route_of(self, topic: str) -> TopicRoute | None:
        """The route of a topic, or None if it is not known or does not exist."""
        entry = self._entries.get(topic)
        return entry.route if entry else None

    def subscribe_queues(self, topic: str) -> SortedQueues:
        """Queues of a topic that can be read; empty without a route."""
        entry = self._entries.get(topic)
        return entry.subscribe_queues if entry else _NO_QUEUES

    def publish_queues(self, topic: str) -> SortedQueues:
        """Queues of a topic that can be written; empty without a route, or without a writable broker."""
        entry = self._entries.get(topic)
        return entry.publish_queues if entry else _NO_QUEUES

    def brokers_of(self, topic: str) -> tuple[str, ...]:
        """Names of the brokers that serve a topic, sorted."""
        entry = self._entries.get(topic)
        return tuple(sorted(broker.broker_name for broker in entry.route.brokers)) if entry else ()

    def brokers(self) -> dict[str, dict[int, str]]:
        """Every broker that a cached route names, by name in order: broker id -> `host:port`, in order of the ids."""
        return {name: dict(sorted(broker.addresses.items())) for name, broker in sorted(self._broker_table().items())}

    def masters(self) -> dict[str, str]:
        """The `host:port` of the master of every broker that a cached route names and that has one, by name in order.

        No request goes to a replica.
        """
        table = sorted(self._broker_table().items())
        return {name: broker.master for name, broker in table if broker.master is not None}

    def address_of(self, broker_name: str) -> str | None:
        """The `host:port` of the master of a broker; None if no route names one."""
        broker = self._broker_table().get(broker_name)
        return None if broker is None else broker.master

    def epoch_of(self, broker_name: str) -> int:
        """The epoch of the master of a set of replicas; 0 for any other broker."""
        broker = self._broker_table().get(broker_name)
        return 0 if broker is None else broker.epoch

    def is_set(self, broker_name: str) -> bool:
        """Whether a broker is a set of replicas, so that it may have another master soon."""
        return self.epoch_of(broker_name) > 0

    def broker_at(self, address: str) -> str:
        """The name of the broker at a `host:port`; empty if no route names it."""
        return next((name for name, each in self._broker_table().items() if address in each.addresses.values()), "")

    def _broker_table(self) -> dict[str, BrokerData]:
        # Routes polled at different times may disagree about a broker that moved: the highest epoch counts, and without
        # one the route that changed last.
        if self._brokers is None:
            broker_by_name = {
                broker.broker_name: broker for entry in self._entries.values() for broker in entry.route.brokers
            }
            self._newest = {name: broker for name, broker in self._newest.items() if name in broker_by_name}
            self._brokers = broker_by_name | self._newest
        return self._brokers


class RouteRemovalGrace:
    """Keeps brokers that have gone from a route for a time, in which they may restart.

    A broker that restarts is in no route for a moment, and a name server that has just started knows no topic until the
    brokers have registered with it. A client that polls in such a moment would revoke its queues, other members would
    not, and the next poll would move everything back. So a missing broker is kept until `kept_s` after the loss of the
    connection to it, or after the first poll that missed it, if that was before or the connection stands. It is kept
    for consumers only: a producer that still sees other brokers should not try it. Times are loop times in seconds.

        known: a b    polled: a      at 100, lost b at 90    -> a b, b without writing     until 120
        known: a b    polled: a      at 120                  -> a
        known: a b    polled: a b    at 110                  -> a b                        it was away for a moment

    A client also asks for its routes when a connection to a broker has failed. That is soon after the loss and often,
    so these answers add brokers and count no absence: producers go on with all queues, because a message with a key
    would go to another queue while its broker restarts.

    Time is counted and not polls: two polls may come within moments, for instance with two calls of `subscribe`.
    RocketMQ keeps a route for ever when the name server no longer has one, and believes a shrunken one at once.
    """

    def __init__(self, kept_s: float = ABSENT_BROKER_KEPT_S) -> None:
        self._kept_s = kept_s
        self._missing: dict[str, dict[str, float]] = {}  # topic -> broker name -> since when

    def confirm(
        self,
        topic: str,
        old_route: TopicRoute | None,
        polled: TopicRoute | None,
        now: float,
        lost_since: Mapping[str, float] = NOTHING_LOST,
        *,
        absence_counts: bool = True,
    ) -> TopicRoute | None:
        """Decide which route is used until the next poll, from the one used so far and the one polled now.

        A polled route of None means that the topic does not exist. `lost_since` has, by the
        name of a broker, the time at which the connection to it was lost.
        """
        if old_route is None:
            return polled
        missing_since = self._missing.pop(topic, {})
        listed = {data.broker_name for data in polled.queues} if polled is not None else set()
        since = {
            name: min(missing_since.get(name, now), lost_since.get(name, now))
            for name in (data.broker_name for data in old_route.queues)
            if name not in listed
        }
        kept_back = {
            name: absent_since
            for name, absent_since in since.items()
            if not absence_counts or now < absent_since + self._kept_s
        }
        if not kept_back:
            return polled
        self._missing[topic] = kept_back
        if polled is None and kept_back.keys() == since.keys():
            # No other broker is left to send to, and the missing ones are probably where they were.
            return old_route
        kept_queues = [data for data in old_route.queues if data.broker_name in kept_back]
        queues = (
            [replace(data, perm=data.perm & ~Perm.WRITE) for data in kept_queues] if absence_counts else kept_queues
        )
        brokers = [broker for broker in old_route.brokers if broker.broker_name in kept_back]
        if polled is not None:
            queues += polled.queues
            brokers += [broker for broker in polled.brokers if broker.broker_name not in kept_back]
        return TopicRoute(
            topic=topic,
            queues=tuple(sorted(queues, key=lambda data: data.broker_name)),
            brokers=tuple(sorted(brokers, key=lambda broker: broker.broker_name)),
        )

    @property
    def waits(self) -> bool:
        """Whether a later poll decides about a broker that the last one missed."""
        return bool(self._missing)

    def forget(self, topic: str) -> None:
        """Drop the missing queues of a topic."""
        self._missing.pop(topic, None)
