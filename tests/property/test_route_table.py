"""The route table against a twin that remembers less and works more.

The twin has no indexes, no cache and no early exits: it keeps one list of live brokers and one record per broker name,
and makes every route from scratch. What changed is what differs between two sets of routes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import BrokerNameTaken, InvalidParameter, StaleRegistration, SystemBusy, TopicNotExist
from model.topic_route import BrokerData, Perm, QueueData, TopicConfig, TopicRoute
from namesrv.registration import BrokerRegistration
from namesrv.route_table import RouteTable

MAX_TOPICS, MAX_BROKERS = 3, 4
TOPICS = ["t0", "t1", "t2", "t3"]
NAMES = ["a", "b", "c"]


@dataclass
class Name:
    cluster: str
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    wiped: bool = False


@dataclass
class Twin:
    """Live brokers as [registration, connection, deadline], and what is kept per name while one of it lives."""

    live: list[tuple[BrokerRegistration, int, float]] = field(default_factory=list)
    names: dict[str, Name] = field(default_factory=dict)

    def routes(self) -> dict[str, TopicRoute]:
        found = {}
        for topic in TOPICS:
            having = [name for name in NAMES if name in self.names and topic in self.names[name].topics]
            if having:
                found[topic] = TopicRoute(
                    topic=topic,
                    queues=tuple(self.queues(name, topic) for name in having),
                    brokers=tuple(self.broker(name) for name in having),
                )
        return found

    def queues(self, name: str, topic: str) -> QueueData:
        config, wiped = self.names[name].topics[topic], self.names[name].wiped
        perm = config.perm - Perm.WRITE if wiped and config.perm & Perm.WRITE else config.perm
        return QueueData(
            broker_name=name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=Perm(perm),
        )

    def broker(self, name: str) -> BrokerData:
        addresses = sorted((r.broker_id, r.address) for r, _, _ in self.live if r.broker_name == name)
        return BrokerData(cluster=self.names[name].cluster, broker_name=name, addresses=dict(addresses))

    def drop(self, gone: list[tuple[BrokerRegistration, int, float]]) -> None:
        self.live = [entry for entry in self.live if entry not in gone]
        alive = {registration.broker_name for registration, _, _ in self.live}
        self.names = {name: record for name, record in self.names.items() if name in alive}

    def register(self, new: BrokerRegistration, connection: int, now: float) -> None:
        same = [entry for entry in self.live if entry[0].key == new.key]
        if same and same[0][0].address != new.address and len({0, same[0][0].data_id, new.data_id}) == 3:
            raise BrokerNameTaken
        if same and same[0][0].version > new.version:
            raise StaleRegistration
        same_address = [entry for entry in self.live if entry[0].address == new.address]
        known_topics = {topic for record in self.names.values() for topic in record.topics}
        new_topics = {config.topic for config in new.topics} - known_topics
        if not same and not same_address and len(self.live) == MAX_BROKERS:
            raise SystemBusy
        if new.broker_id == 0 and new_topics and len(known_topics | new_topics) > MAX_TOPICS:
            raise SystemBusy
        entry = (new, connection, now + new.expiry_s)
        place = self.live.index(same[0]) if same else len(self.live)
        self.live[place : place + 1] = [entry]
        self.names.setdefault(new.broker_name, Name(new.cluster)).cluster = new.cluster
        self.drop([other for other in same_address if other is not entry and other[0].key != new.key])
        changed = not same or (same[0][0].version, same[0][0].topics) != (new.version, new.topics)
        if new.broker_id == 0 and changed:
            self.names[new.broker_name].topics = {config.topic: config for config in new.topics}
            self.names[new.broker_name].wiped = False


PERMS = st.sampled_from([Perm.READ | Perm.WRITE, Perm.READ, Perm.WRITE, Perm.NONE])
CONFIGS = st.builds(
    lambda topic, read, write, perm: TopicConfig(topic=topic, read_queue_nums=read, write_queue_nums=write, perm=perm),
    st.sampled_from(TOPICS),
    st.integers(0, 2),
    st.integers(0, 2),
    PERMS,
)
REGISTRATIONS = st.builds(
    lambda cluster, name, broker_id, port, version, expiry_s, topics, data_id: BrokerRegistration(
        cluster=cluster,
        broker_name=name,
        broker_id=broker_id,
        address=f"h:{port}",
        version=version,
        expiry_s=expiry_s,
        topics=tuple(topics),
        data_id=data_id,
    ),
    st.sampled_from(["x", "x", "y"]),
    st.sampled_from(NAMES),
    st.sampled_from([0, 0, 1]),
    st.integers(1, 5),
    st.integers(1, 2),
    st.sampled_from([3.0, 10.0]),
    st.lists(CONFIGS, max_size=3, unique_by=lambda config: config.topic),
    st.sampled_from([0, 1, 2]),
)
STEPS = st.lists(
    st.tuples(st.just("register"), REGISTRATIONS, st.integers(1, 3))
    | st.tuples(st.just("again"), st.integers(0, 5), st.integers(1, 3))
    | st.tuples(st.just("unregister"), st.sampled_from(NAMES), st.integers(1, 5))
    | st.tuples(st.just("close"), st.integers(1, 3), st.none())
    | st.tuples(st.just("pass"), st.floats(0.5, 6.0), st.none())
    | st.tuples(st.sampled_from(["wipe", "add"]), st.sampled_from(NAMES), st.none())
    | st.tuples(st.just("delete"), st.sampled_from(TOPICS), st.none()),
    max_size=25,
)


def step(table: RouteTable, twin: Twin, kind: str, what: object, which: object, now: float) -> tuple[str, ...]:
    """Do one step to both; return what the table says changed."""
    match kind, what, which:
        case "register", BrokerRegistration() as registration, int() as connection:
            try:
                twin.register(registration, connection, now)
            except (BrokerNameTaken, StaleRegistration, SystemBusy) as refusal:
                with pytest.raises(type(refusal)):
                    table.register_broker(registration, connection, now)
                return ()
            return table.register_broker(registration, connection, now)
        case "unregister", str() as name, int() as port:
            gone = [entry for entry in twin.live if entry[0].key == (name, 0) and entry[0].address == f"h:{port}"]
            twin.drop(gone)
            return table.unregister_broker(name, 0, f"h:{port}")
        case "close", int() as connection, _:
            twin.drop([entry for entry in twin.live if entry[1] == connection])
            return tuple(topic for gone in table.connection_closed(connection, now) for topic in gone.changed)
        case "pass", _, _:
            due = [entry for entry in twin.live if entry[2] <= now]
            lost = table.expire(now)
            assert [(gone.broker_name, gone.broker_id, gone.address, gone.connection) for gone in lost] == [
                (*registration.key, registration.address, connection) for registration, connection, _ in due
            ]
            twin.drop(due)
            return tuple(topic for gone in lost for topic in gone.changed)
        case "delete", str() as topic, _:
            for record in twin.names.values():
                record.topics.pop(topic, None)
            return table.delete_topic(topic)
        case (("wipe" | "add"), str() as name, _):
            wiped = kind == "wipe"
            if name not in twin.names:
                with pytest.raises(InvalidParameter, match="no broker named"):
                    table.set_write_perm(name, wiped=wiped)
                return ()
            twin.names[name].wiped = wiped
            return table.set_write_perm(name, wiped=wiped)
    raise AssertionError(kind)


def check_equal(table: RouteTable, twin: Twin) -> None:
    routes = twin.routes()
    assert table.topics() == sorted(routes)
    for topic in TOPICS:
        if topic in routes:
            assert table.route(topic) == routes[topic]
            assert table.encoded_route(topic) == msgpack.packb(routes[topic].to_wire())
            assert TopicRoute.from_wire(msgpack.unpackb(table.encoded_route(topic))) == routes[topic]
        else:
            with pytest.raises(TopicNotExist):
                table.encoded_route(topic)
    brokers = [twin.broker(name) for name in twin.names]
    assert table.clusters() == sorted(brokers, key=lambda broker: (broker.cluster, broker.broker_name))
    for registration, _, _ in twin.live:
        assert table.address_of(*registration.key) == registration.address
    # The promise of `next_deadline`: not later than the truth.
    deadlines = [deadline for _, _, deadline in twin.live]
    bound = table.next_deadline()
    assert not deadlines or (bound is not None and bound <= min(deadlines))


@given(STEPS)
@settings(max_examples=300)
def test_a_route_table_does_what_its_twin_does(steps: list[tuple[str, object, object]]) -> None:
    table, twin, now = RouteTable(MAX_TOPICS, MAX_BROKERS), Twin(), 0.0
    for kind, what, which in steps:
        if kind == "pass":
            assert isinstance(what, float)
            now += what
        if kind == "again":
            assert isinstance(what, int)
            if not twin.live:
                continue
            kind, what = "register", twin.live[what % len(twin.live)][0]  # noqa: PLW2901
        before, version = twin.routes(), table.version
        changed = step(table, twin, kind, what, which, now)
        after = twin.routes()
        assert sorted(set(changed)) == [topic for topic in TOPICS if before.get(topic) != after.get(topic)]
        assert before == after or table.version > version
        check_equal(table, twin)


@given(STEPS)
def test_a_driver_that_wakes_at_next_deadline_only_expires_every_broker_on_time(
    steps: list[tuple[str, object, object]],
) -> None:
    table, twin = RouteTable(MAX_TOPICS, MAX_BROKERS), Twin()
    for kind, what, which in steps:
        if kind == "register":
            step(table, twin, kind, what, which, 0.0)
    expired: list[tuple[float, str, int]] = []
    while (deadline := table.next_deadline()) is not None:
        expired += [(deadline, gone.broker_name, gone.broker_id) for gone in table.expire(deadline)]
    assert sorted(expired) == sorted((deadline, *registration.key) for registration, _, deadline in twin.live)
