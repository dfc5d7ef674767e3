"""RouteTable: the topics of each broker that are registered with one name server. Pure.

Brokers register all of their topics, on a timer and at every change; a broker that does not is removed. Name servers
never exchange data, so each table is right as soon as every broker has registered with it once.

    table.register_broker(<broker-a, id 0, 10.0.0.1:10911, version 1, topics orders 4/4>, 17, 0.0)   -> ("orders",)
    table.route("orders")                                              queues broker-a 4/4, brokers broker-a {0: ...}
    table.register_broker(<the same>, 17, 30.0)                        -> ()      only the deadline moves, to 150.0
    table.connection_closed(17, 60.0)                                  -> [gone: broker-a, changed ("orders",)]
    table.route("orders")                                              raises TopicNotExist
    table.absent.listed(65.0)                                          -> [broker-a, away for 5 s]

Invariants:
- a topic has a route exactly when some broker name lists it; a broker name is known exactly when some broker id of it
  has an address; one address belongs to one broker (name and id);
- a broker (name and id) is registered, or absent, or unknown; `absent` has the brokers that left without unregistering,
  and no route names them;
- a change returns, sorted, exactly the topics whose route differs from before;
- an encoded route is dropped when its topic changes, so polls are served from bytes that are encoded once per change;
- `version` differs from every earlier one if any route does.

RocketMQ: RouteInfoManager. Sound here, and not in RocketMQ: a broker whose first registration lists a single topic is
    accepted (RocketMQ treats it as an increment and refuses it); a topic that a newer registration of its broker no
    longer lists is removed (RocketMQ keeps it until it is deleted); adding write permission again restores the
    permission that the broker registered (RocketMQ always sets read and write).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack

from model.errors import BrokerNameTaken, InvalidParameter, StaleRegistration, SystemBusy, TopicNotExist
from model.limits import MAX_BROKERS, MAX_TOPICS
from model.topic_route import MASTER_ID, BrokerData, Perm, QueueData, TopicConfig, TopicRoute
from namesrv.absent import AbsentBrokers
from namesrv.registration import BrokerKey, BrokerRegistration

CLOSED = "closed its connection"
"""Reason of an absence: the process of the broker has ended, or the network to it is cut."""
SILENT = "was silent for too long"
REPLACED = "lost its address to another broker"

_NEVER = float("inf")


class BrokerGone(NamedTuple):
    """A broker that left the table without unregistering; `connection` is the connection of its last registration."""

    broker_name: str
    broker_id: int
    address: str
    connection: int
    changed: tuple[str, ...]


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


class RouteTable:
    """See the module header. The limits count the topics of all brokers together, and broker processes."""

    def __init__(self, max_topics: int = MAX_TOPICS, max_brokers: int = MAX_BROKERS) -> None:
        self.version = 0  # counts the changes of all routes
        self.absent = AbsentBrokers(max_topics, max_brokers)
        self._max_topics = max_topics
        self._max_brokers = max_brokers
        self._live: dict[BrokerKey, _Live] = {}
        self._brokers: dict[str, _Broker] = {}
        self._by_address: dict[str, BrokerKey] = {}
        self._by_connection: dict[int, dict[BrokerKey, None]] = {}
        # topic -> names of the brokers that list it; a dict as an ordered set.
        self._topics: dict[str, dict[str, None]] = {}
        self._encoded: dict[str, bytes] = {}
        self._changed: dict[str, None] = {}
        # A lower bound of all deadlines, which only `expire` makes exact, so a registration needs no search.
        self._earliest = _NEVER

    # --- requests of brokers -----------------------------------------------------------------------------------------

    def register_broker(self, registration: BrokerRegistration, connection: int, now: float) -> tuple[str, ...]:
        """Add or renew a registration; the broker is alive until `now` + its expiry.

        A registration that repeats the known version and topics only moves the deadline; topics deleted and permissions
        wiped here stay so. Any other registration rewrites the topics of the broker name. If another broker had the
        address, it loses it: one port has one process. When the connection closes, the broker is absent.

        Raises:
            BrokerNameTaken: a live broker of this name has another data directory; nothing changed.
            StaleRegistration: the same broker is live with a newer version; nothing changed.
            SystemBusy: the table is full; nothing changed.
        """
        key = registration.key
        known = self._live.get(key)
        if known is not None and _is_another_broker(known.registration, registration):
            raise BrokerNameTaken(
                f"a broker named {key.broker_name!r} with id {key.broker_id} runs at {known.registration.address}, "
                f"with another data directory than the one at {registration.address}: rename one of them, or stop one"
            )
        if known is not None and registration.version < known.registration.version:
            raise StaleRegistration(
                f"broker {key.broker_name!r} id {key.broker_id} is registered with version "
                f"{known.registration.version} from {known.registration.address}, newer than {registration.version} "
                f"from {registration.address}: give two brokers two names, or wait until the other one expires"
            )
        previous = self._by_address.get(registration.address)
        self._check_room(registration, taken=known is not None or previous is not None)

        self._live[key] = _Live(registration, connection, now + registration.expiry_s)
        self._earliest = min(self._earliest, now + registration.expiry_s)
        self.absent.returned(key)
        if known is not None:
            self._unlink(known)
        self._by_connection.setdefault(connection, {})[key] = None
        self._place(registration)
        if previous is not None and previous != key:
            # After `_place`: if a master returns as a replica, the name is never without a broker, and keeps its
            # queues.
            if previous.broker_name != key.broker_name:
                self._remember(previous, REPLACED, now)
            self._forget(previous)
        self._by_address[registration.address] = key
        new_content = known is None or (known.registration.version, known.registration.topics) != (
            registration.version,
            registration.topics,
        )
        if new_content and key.broker_id == MASTER_ID:
            self._list_topics(key.broker_name, {config.topic: config for config in registration.topics}, wiped=False)
        return self._take_changed()

    def unregister_broker(self, broker_name: str, broker_id: int, address: str) -> tuple[str, ...]:
        """Remove a broker that unregisters.

        Nothing happens unless it is registered with this address: a late request must not remove a successor.
        """
        key = BrokerKey(broker_name, broker_id)
        if self._by_address.get(address) == key:
            self._forget(key)
        elif self.absent.address_of(key) == address:
            self.absent.returned(key)
        return self._take_changed()

    def connection_closed(self, connection: int, now: float) -> list[BrokerGone]:
        """Remove the brokers whose latest registration arrived on a connection that has closed."""
        return [self._lose(key, CLOSED, now) for key in list(self._by_connection.get(connection, ()))]

    def expire(self, now: float) -> list[BrokerGone]:
        """Remove every broker whose deadline has passed, in the order of their first registration."""
        if now < self._earliest:
            return []
        gone = [
            self._lose(key, SILENT, now) for key in [key for key, live in self._live.items() if live.deadline <= now]
        ]
        self._earliest = min((live.deadline for live in self._live.values()), default=_NEVER)
        return gone

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
            known = ", ".join(sorted(self._brokers)[:20]) or "none"
            raise InvalidParameter(f"no broker named {broker_name!r} is registered here; known are {known}")
        self._list_topics(broker_name, broker.topics, wiped=wiped)
        return self._take_changed()

    def delete_topic(self, topic: str) -> tuple[str, ...]:
        """Remove a topic from every broker, until the next changed registration of a broker that still has it."""
        self.absent.delete_topic(topic)
        for broker_name in self._topics.pop(topic, {}):
            del self._brokers[broker_name].topics[topic]
            self._touch(topic)
        return self._take_changed()

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
            brokers=tuple(self._broker_data(name) for name, _ in brokers),
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
        """Every broker name with its addresses, sorted by cluster and name."""
        brokers = [self._broker_data(name) for name in self._brokers]
        return sorted(brokers, key=lambda broker: (broker.cluster, broker.broker_name))

    def address_of(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address of one broker, or None when it is not registered."""
        live = self._live.get(BrokerKey(broker_name, broker_id))
        return None if live is None else live.registration.address

    # --- transitions -------------------------------------------------------------------------------------------------

    def _check_room(self, registration: BrokerRegistration, *, taken: bool) -> None:
        if not taken and len(self._live) >= self._max_brokers:
            raise SystemBusy(f"this name server knows {len(self._live)} brokers, which is its limit")
        if registration.broker_id == MASTER_ID:
            new = sum(1 for config in registration.topics if config.topic not in self._topics)
            if new and len(self._topics) + new > self._max_topics:
                raise SystemBusy(
                    f"{new} new topics would exceed the {self._max_topics} that this name server may know: "
                    f"it has {len(self._topics)}, delete some"
                )

    def _place(self, registration: BrokerRegistration) -> None:
        """Put cluster and address of a registration under its broker name."""
        broker = self._brokers.setdefault(registration.broker_name, _Broker(registration.cluster))
        if (broker.cluster, broker.addresses.get(registration.broker_id)) != (
            registration.cluster,
            registration.address,
        ):
            broker.cluster = registration.cluster
            broker.addresses[registration.broker_id] = registration.address
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
        self.absent.left(self._live[key].registration, topics, reason, now)

    def _lose(self, key: BrokerKey, reason: str, now: float) -> BrokerGone:
        live = self._live[key]
        self._remember(key, reason, now)
        self._forget(key)
        return BrokerGone(*key, live.registration.address, live.connection, self._take_changed())

    def _forget(self, key: BrokerKey) -> None:
        """Remove one broker; its name and queues stay until the last address is gone, so replicas can still be read."""
        self._unlink(self._live.pop(key))
        broker = self._brokers[key.broker_name]
        del broker.addresses[key.broker_id]
        if broker.addresses:
            for topic in broker.topics:
                self._touch(topic)
        else:
            self._list_topics(key.broker_name, {}, wiped=False)
            del self._brokers[key.broker_name]

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
        self._changed[topic] = None
        self._encoded.pop(topic, None)

    def _take_changed(self) -> tuple[str, ...]:
        changed = tuple(sorted(self._changed))
        self._changed.clear()
        return changed

    def _broker_data(self, broker_name: str) -> BrokerData:
        broker = self._brokers[broker_name]
        return BrokerData(
            cluster=broker.cluster, broker_name=broker_name, addresses=dict(sorted(broker.addresses.items()))
        )


def _is_another_broker(known: BrokerRegistration, new: BrokerRegistration) -> bool:
    """Whether the two registrations are of different brokers: both the address and the data directory differ."""
    return known.address != new.address and 0 != known.data_id != new.data_id != 0


def _queue_data(broker_name: str, config: TopicConfig, wiped: bool) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm & ~Perm.WRITE if wiped else config.perm,
    )
