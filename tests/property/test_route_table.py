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

from model.errors import (
    BrokerNameTaken,
    InvalidParameter,
    NotMaster,
    RlabError,
    StaleRegistration,
    SystemBusy,
    TopicNotExist,
)
from model.replica_limits import MASTER_KEPT_S
from model.topic_route import BrokerData, MessageType, Perm, QueueData, TopicConfig, TopicRoute
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
    """Live brokers as [registration, connection, deadline], and what is kept per name while one of it lives.

    Of sets, the last master of each name, and until when it is listed although it has left.
    """

    live: list[tuple[BrokerRegistration, int, float]] = field(default_factory=list)
    names: dict[str, Name] = field(default_factory=dict)
    masters: dict[str, BrokerRegistration] = field(default_factory=dict)
    kept: dict[str, float] = field(default_factory=dict)

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
            message_type=config.message_type,
        )

    def broker(self, name: str, *, all_ids: bool = False) -> BrokerData:
        addresses = dict(sorted((r.broker_id, r.address) for r, _, _ in self.live if r.broker_name == name))
        master = self.masters.get(name)
        if master is not None and not all_ids and (0 in addresses or name in self.kept):
            addresses = {0: master.address}
        return BrokerData(
            cluster=self.names[name].cluster,
            broker_name=name,
            addresses=addresses,
            set_id=0 if master is None else master.set_id,
            epoch=0 if master is None else master.epoch,
        )

    def drop(self, gone: list[tuple[BrokerRegistration, int, float]], now: float) -> None:
        self.live = [entry for entry in self.live if entry not in gone]
        alive = {registration.broker_name for registration, _, _ in self.live}
        for registration, _, _ in gone:
            if registration.broker_id == 0 and registration.broker_name in self.masters:
                self.kept[registration.broker_name] = now + MASTER_KEPT_S
        self.names = {name: record for name, record in self.names.items() if name in alive}
        self.kept = {name: until for name, until in self.kept.items() if name in alive}

    def check_claim(self, new: BrokerRegistration) -> None:
        for other in [registration for registration, _, _ in self.live if registration.broker_name == new.broker_name]:
            alike = new.address == other.address or (new.data_id == other.data_id != 0)
            if new.set_id != other.set_id and ((new.set_id and other.set_id) or not alike):
                raise BrokerNameTaken
        last = self.masters.get(new.broker_name)
        if new.broker_id == 0 and last is not None and last.set_id == new.set_id and new.epoch < last.epoch:
            raise NotMaster
        for known in [registration for registration, _, _ in self.live if registration.key == new.key]:
            if new.broker_id == 0 and new.set_id != 0 and new.epoch > known.epoch:
                continue
            if known.address != new.address and len({0, known.data_id, new.data_id}) == 3:
                raise BrokerNameTaken
            if known.version > new.version:
                raise StaleRegistration

    def register(self, new: BrokerRegistration, connection: int, now: float) -> None:
        self.check_claim(new)
        same = [entry for entry in self.live if entry[0].key == new.key]
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
        if new.broker_id == 0:
            self.kept.pop(new.broker_name, None)
            self.masters.pop(new.broker_name, None)
            if new.set_id:
                self.masters[new.broker_name] = new
        self.drop([other for other in same_address if other is not entry and other[0].key != new.key], now)
        changed = not same or (same[0][0].version, same[0][0].topics) != (new.version, new.topics)
        if new.broker_id == 0 and changed:
            self.names[new.broker_name].topics = {config.topic: config for config in new.topics}
            self.names[new.broker_name].wiped = False


PERMS = st.sampled_from([Perm.READ | Perm.WRITE, Perm.READ, Perm.WRITE, Perm.NONE])
CONFIGS = st.builds(
    lambda topic, read, write, perm, message_type: TopicConfig(
        topic=topic, read_queue_nums=read, write_queue_nums=write, perm=perm, message_type=message_type
    ),
    st.sampled_from(TOPICS),
    st.integers(0, 2),
    st.integers(0, 2),
    PERMS,
    st.sampled_from([MessageType.MIXED, MessageType.FIFO]),
)


def registrations(
    names: list[str], sets: list[tuple[int, int]], expiries_s: list[float], data_ids: list[int]
) -> st.SearchStrategy[BrokerRegistration]:
    """Registrations under these names; `sets` has pairs of set id and epoch."""
    return st.builds(
        lambda cluster, name, broker_id, port, version, expiry_s, topics, data_id, of_set: BrokerRegistration(
            cluster=cluster,
            broker_name=name,
            broker_id=broker_id,
            address=f"h:{port}",
            version=version,
            expiry_s=expiry_s,
            topics=tuple(topics),
            data_id=data_id,
            set_id=of_set[0],
            epoch=of_set[1],
        ),
        st.sampled_from(["x", "x", "y"]),
        st.sampled_from(names),
        st.sampled_from([0, 0, 1]),
        st.integers(1, 5),
        st.integers(1, 2),
        st.sampled_from(expiries_s),
        st.lists(CONFIGS, max_size=3, unique_by=lambda config: config.topic),
        st.sampled_from(data_ids),
        st.sampled_from(sets),
    )


OTHER_STEPS = [
    st.tuples(st.just("again"), st.integers(0, 5), st.integers(1, 3)),
    st.tuples(st.just("unregister"), st.sampled_from(NAMES), st.integers(1, 5)),
    st.tuples(st.just("close"), st.integers(1, 3), st.none()),
    st.tuples(st.just("pass"), st.floats(0.5, 6.0) | st.just(MASTER_KEPT_S), st.none()),
    st.tuples(st.just("forget"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.sampled_from(["wipe", "add"]), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS), st.none()),
]


def steps_with(new: st.SearchStrategy[BrokerRegistration]) -> st.SearchStrategy[list[tuple[str, object, object]]]:
    """Steps of which half are registrations: with fewer, two of one name hardly ever meet."""
    register = st.tuples(st.just("register"), new, st.integers(1, 3))
    return st.lists(st.one_of(st.one_of(*OTHER_STEPS), register), min_size=6, max_size=25)


STEPS = steps_with(registrations(NAMES, [(0, 0), (0, 0), (0, 0), (5, 1)], [3.0, 10.0], [0, 1, 2]))
SETS = [(5, 1), (5, 2), (5, 2), (5, 3), (5, 3), (5, 4), (6, 1), (0, 0)]
STEPS_OF_A_SET = steps_with(registrations(["a"], SETS, [3.0, 60.0, 60.0], [1, 1, 1, 2]))


def replica_of_a(broker_id: int, port: int) -> BrokerRegistration:
    return BrokerRegistration(
        cluster="x",
        broker_name="a",
        broker_id=broker_id,
        address=f"h:{port}",
        version=1,
        expiry_s=60.0,
        topics=(TopicConfig(topic="t0", read_queue_nums=1, write_queue_nums=1),),
        data_id=1,
        set_id=5,
        epoch=2,
    )


A_SET: list[tuple[str, object, object]] = [
    ("register", replica_of_a(0, 1), 1),
    ("register", replica_of_a(1, 2), 2),
]


def step(table: RouteTable, twin: Twin, kind: str, what: object, which: object, now: float) -> tuple[str, ...]:
    """Do one step to both; return what the table says changed."""
    match kind, what, which:
        case "register", BrokerRegistration() as registration, int() as connection:
            try:
                twin.register(registration, connection, now)
            except RlabError as refusal:
                with pytest.raises(type(refusal)):
                    table.register_broker(registration, connection, now)
                return ()
            return table.register_broker(registration, connection, now)
        case "unregister", str() as name, int() as port:
            gone = [entry for entry in twin.live if entry[0].key == (name, 0) and entry[0].address == f"h:{port}"]
            twin.drop(gone, now)
            return table.unregister_broker(name, 0, f"h:{port}", now)
        case "close", int() as connection, _:
            twin.drop([entry for entry in twin.live if entry[1] == connection], now)
            return tuple(topic for gone in table.connection_closed(connection, now) for topic in gone.changed)
        case "pass", _, _:
            due = [entry for entry in twin.live if entry[2] <= now]
            lost = table.expire(now)
            expected = [(*registration.key, registration.address, connection) for registration, connection, _ in due]
            twin.drop(due, now)
            over = sorted(name for name, until in twin.kept.items() if until <= now)
            expected += [(name, 0, twin.masters[name].address, 0) for name in over]
            assert [(gone.broker_name, gone.broker_id, gone.address, gone.connection) for gone in lost] == expected
            for name in over:
                del twin.kept[name]
            return tuple(topic for gone in lost for topic in gone.changed)
        case "delete", str() as topic, _:
            for record in twin.names.values():
                record.topics.pop(topic, None)
            return table.delete_topic(topic)
        case "forget", str() as name, _:
            if name not in twin.names:
                twin.masters.pop(name, None)
            table.forget(name)
            return ()
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
    brokers = [twin.broker(name, all_ids=True) for name in twin.names]
    assert table.clusters() == sorted(brokers, key=lambda broker: (broker.cluster, broker.broker_name))
    for registration, _, _ in twin.live:
        assert table.address_of(*registration.key) == registration.address
    # The promise of `next_deadline`: not later than the truth.
    deadlines = [deadline for _, _, deadline in twin.live] + list(twin.kept.values())
    bound = table.next_deadline()
    assert not deadlines or (bound is not None and bound <= min(deadlines))


@given(STEPS)
@settings(max_examples=150)
def test_a_route_table_does_what_its_twin_does(steps: list[tuple[str, object, object]]) -> None:
    do_both(steps)


@given(STEPS_OF_A_SET)
@settings(max_examples=150)
def test_a_route_table_does_with_a_set_of_replicas_what_its_twin_does(steps: list[tuple[str, object, object]]) -> None:
    do_both(A_SET + steps)


def do_both(steps: list[tuple[str, object, object]]) -> None:
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
        assert sorted(table.collect_unannounced()) == sorted(set(changed))
        check_equal(table, twin)


@given(STEPS | STEPS_OF_A_SET)
@settings(max_examples=50)
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
