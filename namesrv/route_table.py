"""RouteTable: the topics of each broker that are registered with one name server. Pure.

Brokers register all of their topics, on a timer and at every change; a broker that does not is removed. Name servers
never exchange data, so each table is right as soon as every broker has registered with it once.

    table.register_broker(<broker-a, id 0, 10.0.0.1:10911, version 1, topics orders 4/4>, 17, 0.0)   -> ("orders",)
    table.route("orders")                                              queues broker-a 4/4, brokers broker-a {0: ...}
    table.register_broker(<the same>, 17, 30.0)                        -> ()      only the deadline moves, to 150.0
    table.connection_closed(17, 60.0)                                  -> [gone: broker-a, changed ("orders",)]
    table.route("orders")                                              raises TopicNotExist
    table.absent.listed(65.0)                                          -> [broker-a, away for 5 s]

A set of replicas is one broker name: its master registers as id 0 with the epoch of its mastership, the others as ids
from 1 on, without topics. A master with a higher epoch takes the place of the last one (`fencing.py`). A route lists
only the master, because other clients send heartbeats to every address; the last one until the next registers:

    table.register_broker(<a, id 0, h1, set 5, epoch 1>, 17, 0.0)      brokers a {0: h1}, epoch 1
    table.register_broker(<a, id 2, h2, set 5>, 18, 0.0)               -> ()      the route is as before
    table.connection_closed(17, 60.0)                                  -> [gone: a id 0, changed ()]
    table.register_broker(<a, id 0, h2, set 5, epoch 2>, 19, 61.0)     brokers a {0: h2}, epoch 2

Invariants:
- a topic has a route exactly when some broker name lists it; a broker name is known exactly when some broker id of it
  has an address; one address belongs to one broker (name and id);
- a broker (name and id) is registered, or absent, or unknown; `absent` has the brokers that left without unregistering,
  and no route names them;
- a change returns, sorted, exactly the topics whose route differs from before;
- an encoded route is dropped when its topic changes, so polls are served from bytes that are encoded once per change;
- `version` differs from every earlier one if any route does;
- `unannounced` has every topic whose route has changed, until `collect_unannounced`.

RocketMQ: RouteInfoManager. Sound here, and not in RocketMQ: a broker whose first registration lists a single topic is
    accepted (RocketMQ treats it as an increment and refuses it); a topic that a newer registration of its broker no
    longer lists is removed (RocketMQ keeps it until it is deleted); adding write permission again restores the
    permission that the broker registered (RocketMQ always sets read and write).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgpack

from model.counted import plural
from model.errors import InvalidParameter, SystemBusy, TopicNotExist
from model.limits import MAX_BROKERS, MAX_TOPICS
from model.replica_limits import MASTER_KEPT_S
from model.topic_route import MASTER_ID, BrokerData, Perm, QueueData, TopicConfig, TopicRoute
from namesrv.absent import AbsentBrokers
from namesrv.fencing import LastMasters, check_claim
from namesrv.registration import BrokerKey, BrokerRegistration

CLOSED = "closed its connection"
"""Reason of an absence: the process of the broker has ended, or the network to it is cut."""
SILENT = "was silent for too long"
REPLACED = "lost its address to another broker"
UNREPLACED = "has had no successor for too long: routes list its replicas instead"

_NEVER = float("inf")


class BrokerLost(NamedTuple):
    """A broker that left the table without unregistering; `connection` is the connection of its last registration.

    With the reason UNREPLACED it is a master that had left before, and `connection` is 0.
    """

    broker_name: str
    broker_id: int
    address: str
    connection: int
    changed: tuple[str, ...]
    reason: str


@dataclass(slots=True)
class _Live:
    """A registration that holds until `deadline`, or until its connection closes."""

    registration: BrokerRegistration
    connection: int
    deadline: float


@dataclass(slots=True)
class _Broker:
    """The state of one broker name."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)  # by broker id; never empty
    topics: dict[str, TopicConfig] = field(default_factory=dict)  # as the master registered, without deleted ones
    wiped: bool = False  # no topic has write permission, until the next changed registration
    kept_until: float = 0.0  # until when routes list the last master of the set, which has left; 0 without one
    listed: BrokerData | None = None  # its entry in routes; None before its first registration is complete


class RouteTable:
    """See the module header. The limits count the topics of all brokers together, and broker processes."""

    def __init__(self, max_topics: int = MAX_TOPICS, max_brokers: int = MAX_BROKERS) -> None:
        self.version = 0  # counts the changes of all routes
        self.unannounced: dict[str, None] = {}
        self.absent = AbsentBrokers(max_topics, max_brokers)
        self._max_topics = max_topics
        self._max_brokers = max_brokers
        self._live: dict[BrokerKey, _Live] = {}
        self._brokers: dict[str, _Broker] = {}
        self._by_address: dict[str, BrokerKey] = {}
        self._by_connection: dict[int, dict[BrokerKey, None]] = {}
        self._last_masters = LastMasters(2 * max_brokers)
        self._topics: dict[str, dict[str, None]] = {}  # topic -> names of the brokers that list it
        self._encoded: dict[str, bytes] = {}
        self._changed: dict[str, None] = {}  # by the method that runs
        # A lower bound of all deadlines, which only `expire` makes exact, so a registration needs no search.
        self._earliest = _NEVER

    # --- requests of brokers -----------------------------------------------------------------------------------------

    def register_broker(self, registration: BrokerRegistration, connection: int, now: float) -> tuple[str, ...]:
        """Add or renew a registration; the broker is alive until `now` + its expiry.

        A registration that repeats the known version and topics only moves the deadline; topics deleted and permissions
        wiped here stay so. Any other registration rewrites the topics of the broker name. If another broker had the
        address, it loses it: one port has one process. When the connection closes, the broker is absent.

        Raises:
            BrokerNameTaken, NotMaster, StaleRegistration: see `check_claim`; nothing changed.
            SystemBusy: the table is full; nothing changed.
        """
        key = registration.key
        live = self._live.get(key)
        check_claim(registration, self.live_of(key.broker_name), self._last_masters.of(key.broker_name))
        previous = self._by_address.get(registration.address)
        self._check_room(registration, is_known=live is not None or previous is not None)

        self._live[key] = _Live(registration, connection, now + registration.expiry_s)
        self._earliest = min(self._earliest, now + registration.expiry_s)
        self.absent.returned(key)
        if live is not None:
            self._unlink(live)
        self._by_connection.setdefault(connection, {})[key] = None
        self._place(registration)
        if key.broker_id == MASTER_ID:
            self._brokers[key.broker_name].kept_until = 0.0
            self._last_masters.record(registration, self._brokers)
        if previous is not None and previous != key:
            # After `_place`: a master may return as a replica, and its name keeps its queues.
            if previous.broker_name != key.broker_name:
                self._remember(previous, REPLACED, now)
            self._forget(previous, now)
        self._by_address[registration.address] = key
        self._refresh(key.broker_name)
        new_content = live is None or (live.registration.version, live.registration.topics) != (
            registration.version,
            registration.topics,
        )
        if new_content and key.broker_id == MASTER_ID:
            self._list_topics(key.broker_name, {config.topic: config for config in registration.topics}, wiped=False)
        return self._collect_changed()

    def unregister_broker(self, broker_name: str, broker_id: int, address: str, now: float) -> tuple[str, ...]:
        """Remove a broker that unregisters.

        Nothing happens unless it is registered with this address: a late request must not remove a successor.
        """
        key = BrokerKey(broker_name, broker_id)
        if self._by_address.get(address) == key:
            self._forget(key, now)
        elif self.absent.address_of(key) == address:
            self.absent.returned(key)
        return self._collect_changed()

    def connection_closed(self, connection: int, now: float) -> list[BrokerLost]:
        """Remove the brokers whose latest registration arrived on a connection that has closed."""
        return [self._lose(key, CLOSED, now) for key in list(self._by_connection.get(connection, ()))]

    def expire(self, now: float) -> list[BrokerLost]:
        """Remove every broker whose deadline has passed, in the order of their first registration.

        After them, in the order of their names, the masters that routes have listed for long enough without a
        successor.
        """
        if now < self._earliest:
            return []
        silent = [key for key, live in self._live.items() if live.deadline <= now]
        lost_brokers = [self._lose(key, SILENT, now) for key in silent]
        unreplaced = sorted(name for name, broker in self._brokers.items() if 0 < broker.kept_until <= now)
        lost_brokers += [self._stop_keeping(name) for name in unreplaced]
        deadlines = [live.deadline for live in self._live.values()]
        deadlines += [broker.kept_until for broker in self._brokers.values() if broker.kept_until]
        self._earliest = min(deadlines, default=_NEVER)
        return lost_brokers

    def next_deadline(self) -> float | None:
        """When to call `expire` next: never later than the earliest deadline; None if no broker is known."""
        return None if self._earliest == _NEVER else self._earliest

    # --- requests of administrators ----------------------------------------------------------------------------------

    def set_write_perm(self, broker_name: str, *, wiped: bool) -> tuple[str, ...]:
        """Remove the write permission of every topic of a broker, until its next changed registration.

        With `wiped` false, undo it: every topic has the permissions that its broker registered.

        Raises:
            InvalidParameter: no such broker is known here.
        """
        broker = self._brokers.get(broker_name)
        if broker is None:
            names = ", ".join(sorted(self._brokers)[:20]) or "none"
            raise InvalidParameter(f"no broker named {broker_name!r} is registered here; known are {names}")
        self._list_topics(broker_name, broker.topics, wiped=wiped)
        return self._collect_changed()

    def delete_topic(self, topic: str) -> tuple[str, ...]:
        """Remove a topic from every broker, until the next changed registration of a broker that still has it."""
        self.absent.delete_topic(topic)
        for broker_name in self._topics.pop(topic, {}):
            del self._brokers[broker_name].topics[topic]
            self._touch(topic)
        return self._collect_changed()

    def forget(self, broker_name: str) -> int:
        """Forget a broker name that is not there, with its epoch; returns how many of its brokers were absent."""
        if broker_name not in self._brokers:
            self._last_masters.forget(broker_name)
        return self.absent.forget(broker_name)

    # --- queries -----------------------------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic.

        Raises:
            TopicNotExist: no live broker lists it.
        """
        names = self._topics.get(topic)
        if names is None:
            raise TopicNotExist(
                f"no broker registered here serves topic {topic!r}: create it, or check its name and the "
                "name server's address"
            )
        brokers = [(name, self._brokers[name]) for name in sorted(names)]
        return TopicRoute(
            topic=topic,
            queues=tuple(_queue_data(name, broker.topics[topic], broker.wiped) for name, broker in brokers),
            brokers=tuple(broker.listed for _, broker in brokers if broker.listed is not None),
        )

    def encoded_route(self, topic: str) -> bytes:
        """Return the route as the body of an answer; encoded once per change. Raises as `route` does."""
        encoded = self._encoded.get(topic)
        if encoded is None:
            encoded = self._encoded[topic] = msgpack.packb(self.route(topic).to_wire())
        return encoded

    def topics(self) -> list[str]:
        """Every topic, sorted."""
        return sorted(self._topics)

    def clusters(self) -> list[BrokerData]:
        """Every broker name with all of its live addresses, sorted by cluster and name."""
        brokers = [self._broker_data(name, broker.addresses) for name, broker in self._brokers.items()]
        return sorted(brokers, key=lambda broker: (broker.cluster, broker.broker_name))

    def live_of(self, broker_name: str) -> list[BrokerRegistration]:
        """The live registrations of a broker name."""
        ids = self._brokers[broker_name].addresses if broker_name in self._brokers else ()
        return [self._live[BrokerKey(broker_name, broker_id)].registration for broker_id in ids]

    def address_of(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address of one broker, or None when it is not registered."""
        live = self._live.get(BrokerKey(broker_name, broker_id))
        return None if live is None else live.registration.address

    def connection_of(self, broker_name: str) -> int | None:
        """Return the connection of the last registration of a broker, or of the master of a set; None without one."""
        live = self._live.get(BrokerKey(broker_name, MASTER_ID))
        return None if live is None else live.connection

    def collect_unannounced(self) -> dict[str, None]:
        """The topics whose routes have changed since the last call."""
        topics, self.unannounced = self.unannounced, {}
        return topics

    # --- transitions -------------------------------------------------------------------------------------------------

    def _check_room(self, registration: BrokerRegistration, *, is_known: bool) -> None:
        if not is_known and len(self._live) >= self._max_brokers:
            raise SystemBusy(f"this name server knows {plural(len(self._live), 'broker')}, which is its limit")
        if registration.broker_id == MASTER_ID:
            new = sum(1 for config in registration.topics if config.topic not in self._topics)
            if new and len(self._topics) + new > self._max_topics:
                raise SystemBusy(
                    f"{new} new topics would exceed the {self._max_topics} that this name server may know: "
                    f"it has {len(self._topics)}, delete some"
                )

    def _place(self, registration: BrokerRegistration) -> None:
        """Put cluster and address of a registration under its broker name; `_refresh` shows them in routes."""
        broker = self._brokers.setdefault(registration.broker_name, _Broker(registration.cluster))
        broker.cluster = registration.cluster
        broker.addresses[registration.broker_id] = registration.address

    def _refresh(self, broker_name: str) -> None:
        """Show the addresses and the epoch of a broker name in the routes of its topics; the only place that does."""
        broker = self._brokers[broker_name]
        addresses, last = broker.addresses, self._last_masters.of(broker_name)
        if last is not None and (broker.kept_until or MASTER_ID in addresses):
            addresses = {MASTER_ID: last.address}
        data = self._broker_data(broker_name, addresses)
        if data != broker.listed:
            broker.listed = data
            for topic in broker.topics:
                self._touch(topic)

    def _list_topics(self, broker_name: str, topics: dict[str, TopicConfig], *, wiped: bool) -> None:
        """Replace the topics of a broker name; the only place where they, or `wiped`, change as a whole."""
        broker = self._brokers[broker_name]
        for topic in broker.topics:
            if topic not in topics:
                names = self._topics[topic]
                del names[broker_name]
                if not names:
                    del self._topics[topic]
                self._touch(topic)
        for topic, config in topics.items():
            old = broker.topics.get(topic)
            if old is None:
                self._topics.setdefault(topic, {})[broker_name] = None
            if old is None or _queue_data(broker_name, old, broker.wiped) != _queue_data(broker_name, config, wiped):
                self._touch(topic)
        broker.topics, broker.wiped = topics, wiped

    def _remember(self, key: BrokerKey, reason: str, now: float) -> None:
        """Remember a broker that is about to be removed although it did not unregister."""
        topics = self._brokers[key.broker_name].topics.values() if key.broker_id == MASTER_ID else ()
        self.absent.broker_left(self._live[key].registration, topics, reason, now)

    def _lose(self, key: BrokerKey, reason: str, now: float) -> BrokerLost:
        live = self._live[key]
        self._remember(key, reason, now)
        self._forget(key, now)
        return BrokerLost(*key, live.registration.address, live.connection, self._collect_changed(), reason)

    def _stop_keeping(self, broker_name: str) -> BrokerLost:
        self._brokers[broker_name].kept_until = 0.0
        self._refresh(broker_name)
        last = self._last_masters.of(broker_name)
        return BrokerLost(broker_name, MASTER_ID, last.address if last else "", 0, self._collect_changed(), UNREPLACED)

    def _forget(self, key: BrokerKey, now: float) -> None:
        """Remove one broker; its name and queues stay until the last address is gone."""
        self._unlink(self._live.pop(key))
        broker = self._brokers[key.broker_name]
        del broker.addresses[key.broker_id]
        if not broker.addresses:
            self._list_topics(key.broker_name, {}, wiped=False)
            del self._brokers[key.broker_name]
            return
        if key.broker_id == MASTER_ID and self._last_masters.of(key.broker_name):
            broker.kept_until = now + MASTER_KEPT_S
            self._earliest = min(self._earliest, broker.kept_until)
        self._refresh(key.broker_name)

    def _unlink(self, live: _Live) -> None:
        """Remove a broker from the indexes by address and by connection."""
        key = live.registration.key
        del self._by_address[live.registration.address]
        keys = self._by_connection[live.connection]
        del keys[key]
        if not keys:
            del self._by_connection[live.connection]

    def _touch(self, topic: str) -> None:
        self.version += 1
        self._changed[topic] = self.unannounced[topic] = None
        self._encoded.pop(topic, None)

    def _collect_changed(self) -> tuple[str, ...]:
        changed = tuple(sorted(self._changed))
        self._changed.clear()
        return changed

    def _broker_data(self, broker_name: str, addresses: dict[int, str]) -> BrokerData:
        set_id, epoch, _ = self._last_masters.of(broker_name) or (0, 0, "")
        return BrokerData(
            cluster=self._brokers[broker_name].cluster,
            broker_name=broker_name,
            addresses=dict(sorted(addresses.items())),
            set_id=set_id,
            epoch=epoch,
        )


def _queue_data(broker_name: str, config: TopicConfig, wiped: bool) -> QueueData:
    queues = config.at_broker(broker_name)
    return replace(queues, perm=queues.perm & ~Perm.WRITE) if wiped else queues
