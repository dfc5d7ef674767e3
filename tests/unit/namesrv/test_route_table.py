"""The rules of the route table, one by one; `tests/property/test_route_table.py` tries them in any order."""

from __future__ import annotations

import pytest

from model.errors import BrokerNameTaken, InvalidParameter, NotMaster, StaleRegistration, SystemBusy, TopicNotExist
from model.replica_limits import MASTER_KEPT_S
from model.topic_route import READ_WRITE, Perm, TopicRoute
from namesrv.route_table import UNREPLACED, BrokerLost, RouteTable
from tests.unit.namesrv.registrations import broker, topic


def brokers_of(route: TopicRoute) -> dict[str, dict[int, str]]:
    return {data.broker_name: data.addresses for data in route.brokers}


def perms_of(route: TopicRoute) -> list[Perm]:
    return [data.perm for data in route.queues]


# --- registering -----------------------------------------------------------------------------------------------------


def test_the_table_goes_through_the_example_of_its_header() -> None:
    table = RouteTable()
    registration = broker("broker-a", "orders")
    assert table.register_broker(registration, 17, 0.0) == ("orders",)
    route = table.route("orders")
    assert [str(queue) for queue in route.subscribe_queues()] == [f"orders@broker-a:{i}" for i in range(4)]
    assert route.publish_queues() == route.subscribe_queues()
    assert brokers_of(route) == {"broker-a": {0: "broker-a-0:10911"}}
    assert table.register_broker(registration, 17, 30.0) == ()
    assert table.expire(120.0) == []
    assert table.next_deadline() == 150.0
    assert table.connection_closed(17, 60.0) == [
        BrokerLost("broker-a", 0, "broker-a-0:10911", 17, ("orders",), "closed its connection")
    ]
    with pytest.raises(TopicNotExist, match="no broker registered here serves topic 'orders'"):
        table.route("orders")


def test_a_first_registration_with_one_topic_or_none_is_taken() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a"), 1, 0.0)
    table.register_broker(broker("broker-b", "orders"), 2, 0.0)
    assert [data.broker_name for data in table.clusters()] == ["broker-a", "broker-b"]
    assert table.topics() == ["orders"]


def test_a_route_lists_its_brokers_and_queues_by_name_whatever_came_first() -> None:
    table = RouteTable()
    for number, name in enumerate(["broker-c", "broker-a", "broker-b"]):
        table.register_broker(broker(name, topic("orders", read=2, write=1)), number, 0.0)
    route = table.route("orders")
    assert [data.broker_name for data in route.queues] == ["broker-a", "broker-b", "broker-c"]
    assert [data.broker_name for data in route.brokers] == ["broker-a", "broker-b", "broker-c"]
    assert len(route.subscribe_queues()) == 6
    assert len(route.publish_queues()) == 3


def test_a_changed_version_rewrites_the_topics_and_what_is_not_listed_any_more_is_gone() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "kept", "scaled", "dropped", version=1), 1, 0.0)
    changed = table.register_broker(broker("broker-a", "kept", topic("scaled", 8, 8), "new", version=2), 1, 1.0)
    assert changed == ("dropped", "new", "scaled")
    assert table.topics() == ["kept", "new", "scaled"]
    assert table.route("scaled").queues[0].read_queue_nums == 8


def test_the_same_version_with_other_topics_counts_as_changed() -> None:
    """A broker that lost its disk may count from the same number again."""
    table = RouteTable()
    table.register_broker(broker("broker-a", "old", version=1), 1, 0.0)
    assert table.register_broker(broker("broker-a", "new", version=1), 2, 1.0) == ("new", "old")


def test_an_older_version_of_a_live_broker_is_refused_and_nothing_changes() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", version=5), 1, 0.0)
    with pytest.raises(StaleRegistration, match=r"version 5 from broker-a-0:10911, newer than 4 from twin:1"):
        table.register_broker(broker("broker-a", version=4, address="twin:1"), 2, 50.0)
    assert table.topics() == ["orders"]
    assert table.connection_closed(2, 1.0) == []
    assert [gone.address for gone in table.expire(120.0)] == ["broker-a-0:10911"]
    table.register_broker(broker("broker-a", version=4, address="twin:1"), 2, 120.0)


def test_a_second_broker_of_a_live_name_is_refused_until_the_first_is_gone() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", version=1, data_id=7), 1, 0.0)
    twin = broker("broker-a", "other", version=2, address="twin:1", data_id=8)
    with pytest.raises(
        BrokerNameTaken, match=r"runs at broker-a-0:10911, with another data directory than the one at twin:1"
    ):
        table.register_broker(twin, 2, 1.0)
    assert table.topics() == ["orders"]
    table.connection_closed(1, 1.0)
    assert table.register_broker(twin, 2, 2.0) == ("other",)


@pytest.mark.parametrize(
    ("data_id", "address"), [(7, "moved:1"), (0, "of-an-earlier-version:1"), (8, "broker-a-0:10911")]
)
def test_a_broker_that_moved_or_lost_its_disk_or_does_not_say_it_is_the_same_broker(data_id: int, address: str) -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", version=1, data_id=7), 1, 0.0)
    table.register_broker(broker("broker-a", version=2, data_id=data_id, address=address), 2, 1.0)
    assert table.address_of("broker-a", 0) == address


def test_a_broker_that_comes_back_on_a_new_connection_is_not_lost_with_the_old_one() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders"), 1, 0.0)
    assert table.register_broker(broker("broker-a", "orders"), 2, 1.0) == ()
    assert table.connection_closed(1, 1.0) == []
    assert table.topics() == ["orders"]
    assert [gone.connection for gone in table.connection_closed(2, 1.0)] == [2]
    assert table.topics() == []


def test_a_broker_at_a_new_address_replaces_its_old_one() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", address="old:1"), 1, 0.0)
    assert table.register_broker(broker("broker-a", "orders", address="new:1"), 2, 1.0) == ("orders",)
    assert brokers_of(table.route("orders")) == {"broker-a": {0: "new:1"}}
    assert table.address_of("broker-a", 0) == "new:1"
    assert table.connection_closed(1, 1.0) == []
    table.register_broker(broker("broker-b", address="old:1"), 3, 2.0)  # the old address is free for others
    assert table.address_of("broker-a", 0) == "new:1"


def test_an_address_under_another_id_is_moved_and_the_queues_stay() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", broker_id=0, address="host:1"), 1, 0.0)
    assert table.register_broker(broker("broker-a", broker_id=1, address="host:1"), 1, 1.0) == ("orders",)
    assert brokers_of(table.route("orders")) == {"broker-a": {1: "host:1"}}
    assert table.route("orders").publish_queues() == ()  # no master to write to
    assert len(table.route("orders").subscribe_queues()) == 4
    assert table.address_of("broker-a", 0) is None


def test_an_address_under_another_name_is_moved_and_the_old_name_is_gone() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", address="host:1"), 1, 0.0)
    assert table.register_broker(broker("broker-b", "orders", address="host:1"), 1, 1.0) == ("orders",)
    assert brokers_of(table.route("orders")) == {"broker-b": {0: "host:1"}}


def test_only_the_masters_topics_count() -> None:
    table = RouteTable()
    assert table.register_broker(broker("broker-a", "orders", broker_id=1), 1, 0.0) == ()
    assert table.topics() == []
    table.register_broker(broker("broker-a", "orders", broker_id=0), 2, 0.0)
    assert table.register_broker(broker("broker-a", "other", broker_id=1, version=2), 1, 0.0) == ()
    assert table.topics() == ["orders"]


def test_clusters_are_sorted_and_a_broker_may_change_its_cluster() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-b", "orders", cluster="east"), 1, 0.0)
    table.register_broker(broker("broker-a", cluster="west"), 2, 0.0)
    assert [(data.cluster, data.broker_name) for data in table.clusters()] == [
        ("east", "broker-b"),
        ("west", "broker-a"),
    ]
    assert table.register_broker(broker("broker-b", "orders", cluster="zone"), 1, 0.0) == ("orders",)
    assert [data.cluster for data in table.clusters()] == ["west", "zone"]


# --- sets of replicas ------------------------------------------------------------------------------------------------


def test_the_table_goes_through_the_example_of_a_set() -> None:
    table = RouteTable()
    assert table.register_broker(broker("a", "orders", address="h1:1", set_id=5, epoch=1), 17, 0.0) == ("orders",)
    assert table.register_broker(broker("a", broker_id=2, address="h2:1", set_id=5), 18, 0.0) == ()
    [gone] = table.connection_closed(17, 60.0)
    assert (gone.broker_id, gone.changed) == (0, ())
    [listed] = table.route("orders").brokers
    assert (listed.addresses, listed.epoch) == ({0: "h1:1"}, 1)
    assert table.register_broker(broker("a", "orders", address="h2:1", set_id=5, epoch=2), 19, 61.0) == ("orders",)
    [listed] = table.route("orders").brokers
    assert (listed.addresses, listed.set_id, listed.epoch) == ({0: "h2:1"}, 5, 2)
    assert [data.addresses for data in table.clusters()] == [{0: "h2:1"}]
    assert table.expire(61.0 + MASTER_KEPT_S) == []  # the last master is no longer kept


def test_a_master_that_leaves_is_listed_until_its_time_is_over_and_then_its_replicas_are() -> None:
    table = RouteTable()
    table.register_broker(broker("a", "orders", address="h1:1", set_id=5, epoch=3), 1, 0.0)
    table.register_broker(broker("a", broker_id=2, address="h2:1", set_id=5, expiry_s=600.0), 2, 0.0)
    assert table.unregister_broker("a", 0, "h1:1", 10.0) == ()
    assert [data.addresses for data in table.clusters()] == [{2: "h2:1"}]
    assert table.next_deadline() == 10.0 + MASTER_KEPT_S
    assert table.expire(9.9 + MASTER_KEPT_S) == []
    [unreplaced] = table.expire(10.0 + MASTER_KEPT_S)
    assert unreplaced[:5] == ("a", 0, "h1:1", 0, ("orders",))
    assert unreplaced.reason == UNREPLACED
    assert brokers_of(table.route("orders")) == {"a": {2: "h2:1"}}
    assert table.route("orders").publish_queues() == ()
    assert len(table.route("orders").subscribe_queues()) == 4
    assert table.register_broker(broker("a", "orders", address="h1:1", set_id=5, epoch=4), 3, 100.0) == ("orders",)
    assert brokers_of(table.route("orders")) == {"a": {0: "h1:1"}}


def test_a_master_that_returns_as_a_replica_is_listed_until_the_next_master_registers() -> None:
    table = RouteTable()
    table.register_broker(broker("a", "orders", address="h1:1", set_id=5, epoch=3), 1, 0.0)
    assert table.register_broker(broker("a", broker_id=1, address="h1:1", set_id=5), 2, 1.0) == ()
    assert brokers_of(table.route("orders")) == {"a": {0: "h1:1"}}
    table.register_broker(broker("a", "orders", address="h2:1", set_id=5, epoch=4), 3, 2.0)
    assert [data.addresses for data in table.clusters()] == [{0: "h2:1", 1: "h1:1"}]


def test_a_promoted_replica_is_one_broker_and_gone_with_its_last_connection() -> None:
    table = RouteTable()
    table.register_broker(broker("a", broker_id=2, address="h2:1", set_id=5), 1, 0.0)
    table.register_broker(broker("a", "orders", address="h2:1", set_id=5, epoch=1), 2, 1.0)
    assert table.connection_closed(1, 2.0) == []
    assert [gone.broker_id for gone in table.connection_closed(2, 2.0)] == [0]
    assert table.clusters() == []


def test_a_broker_name_that_is_forgotten_may_begin_with_any_epoch_and_a_live_one_may_not() -> None:
    table = RouteTable()
    table.register_broker(broker("a", "orders", address="h1:1", set_id=5, epoch=9), 1, 0.0)
    first = broker("a", "orders", address="h2:1", set_id=5, epoch=1)
    table.forget("a")
    with pytest.raises(NotMaster):
        table.register_broker(first, 2, 1.0)
    table.connection_closed(1, 1.0)
    with pytest.raises(NotMaster):
        table.register_broker(first, 2, 1.0)
    assert table.forget("a") == 1
    assert table.register_broker(first, 2, 2.0) == ("orders",)


# --- leaving ---------------------------------------------------------------------------------------------------------


def test_a_goodbye_counts_only_for_the_address_that_is_registered() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", address="old:1"), 1, 0.0)
    table.register_broker(broker("broker-a", "orders", address="new:1"), 2, 0.0)
    assert table.unregister_broker("broker-a", 0, "old:1", 0.0) == ()
    assert table.unregister_broker("broker-a", 1, "new:1", 0.0) == ()
    assert table.unregister_broker("broker-a", 0, "new:1", 0.0) == ("orders",)
    assert table.unregister_broker("broker-a", 0, "new:1", 0.0) == ()
    assert table.clusters() == []
    assert table.connection_closed(2, 1.0) == []


def test_the_queues_stay_readable_while_a_replica_lives_and_go_with_the_last_address() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", broker_id=0), 1, 0.0)
    table.register_broker(broker("broker-a", broker_id=1), 2, 0.0)
    assert [gone.changed for gone in table.connection_closed(1, 1.0)] == [("orders",)]
    assert table.route("orders").publish_queues() == ()
    assert len(table.route("orders").subscribe_queues()) == 4
    assert [gone.changed for gone in table.connection_closed(2, 1.0)] == [("orders",)]
    assert table.topics() == []


def test_one_connection_may_carry_several_brokers_and_takes_all_of_them_with_it() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders"), 1, 0.0)
    table.register_broker(broker("broker-b", "orders"), 1, 0.0)
    assert [gone.broker_name for gone in table.connection_closed(1, 1.0)] == ["broker-a", "broker-b"]


def test_a_silent_broker_expires_at_its_deadline_and_not_before() -> None:
    table = RouteTable()
    assert table.next_deadline() is None
    table.register_broker(broker("broker-a", "orders", expiry_s=10.0), 1, 100.0)
    table.register_broker(broker("broker-b", "orders", expiry_s=5.0), 2, 100.0)
    assert table.next_deadline() == 105.0
    assert table.expire(104.999) == []
    assert [gone.broker_name for gone in table.expire(105.0)] == ["broker-b"]
    assert table.next_deadline() == 110.0
    assert [gone.broker_name for gone in table.expire(1_000.0)] == ["broker-a"]
    assert table.next_deadline() is None


# --- administration --------------------------------------------------------------------------------------------------


def test_write_permission_is_wiped_until_it_is_given_back_as_it_was_registered() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", topic("read-only", perm=Perm.READ)), 1, 0.0)
    table.register_broker(broker("broker-b", "orders"), 2, 0.0)
    assert table.set_write_perm("broker-a", wiped=True) == ("orders",)
    assert perms_of(table.route("orders")) == [Perm.READ, READ_WRITE]
    assert table.set_write_perm("broker-a", wiped=True) == ()
    assert table.set_write_perm("broker-a", wiped=False) == ("orders",)
    assert perms_of(table.route("orders")) == [READ_WRITE, READ_WRITE]
    assert perms_of(table.route("read-only")) == [Perm.READ]
    assert table.set_write_perm("broker-a", wiped=False) == ()


def test_write_permission_stays_wiped_through_unchanged_registrations_and_comes_back_with_a_changed_one() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", version=1), 1, 0.0)
    table.set_write_perm("broker-a", wiped=True)
    assert table.register_broker(broker("broker-a", "orders", version=1), 2, 30.0) == ()
    assert perms_of(table.route("orders")) == [Perm.READ]
    assert table.register_broker(broker("broker-a", "orders", version=2), 2, 60.0) == ("orders",)
    assert perms_of(table.route("orders")) == [READ_WRITE]


@pytest.mark.parametrize("wiped", [True, False])
def test_permissions_of_a_broker_that_is_not_there_are_refused_with_those_that_are(wiped: bool) -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a"), 1, 0.0)
    with pytest.raises(InvalidParameter, match=r"no broker named 'brokr-a' .*known are broker-a$"):
        table.set_write_perm("brokr-a", wiped=wiped)


def test_a_deleted_topic_stays_away_until_a_changed_registration_lists_it() -> None:
    table = RouteTable()
    for number, name in enumerate(["broker-a", "broker-b"]):
        table.register_broker(broker(name, "orders", "other"), number, 0.0)
    assert table.delete_topic("orders") == ("orders",)
    assert table.delete_topic("orders") == ()
    assert table.register_broker(broker("broker-a", "orders", "other"), 0, 30.0) == ()
    assert table.topics() == ["other"]
    assert table.register_broker(broker("broker-a", "orders", "other", version=2), 0, 60.0) == ("orders",)
    assert list(brokers_of(table.route("orders"))) == ["broker-a"]


# --- encoding and limits ---------------------------------------------------------------------------------------------


def test_a_route_is_encoded_once_and_again_only_when_it_changes() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders", "other"), 1, 0.0)
    orders, other = table.encoded_route("orders"), table.encoded_route("other")
    table.register_broker(broker("broker-a", topic("orders", 8, 8), "other", version=2), 1, 1.0)
    assert table.encoded_route("other") is other
    assert table.encoded_route("orders") != orders
    assert table.encoded_route("orders") is table.encoded_route("orders")


def test_as_many_brokers_as_the_limit_are_known_and_a_full_table_still_takes_what_adds_none() -> None:
    table = RouteTable(max_brokers=2)
    table.register_broker(broker("broker-a", address="a:1"), 1, 0.0)
    table.register_broker(broker("broker-b", address="b:1"), 2, 0.0)
    with pytest.raises(SystemBusy, match="knows 2 brokers"):
        table.register_broker(broker("broker-c", address="c:1"), 3, 0.0)
    table.register_broker(broker("broker-a", address="a:2"), 1, 1.0)
    table.register_broker(broker("broker-c", address="b:1"), 2, 1.0)
    assert [data.broker_name for data in table.clusters()] == ["broker-a", "broker-c"]
    assert table.connection_closed(3, 1.0) == []


def test_as_many_topics_as_the_limit_are_known_and_a_full_table_still_takes_known_ones() -> None:
    table = RouteTable(max_topics=2)
    table.register_broker(broker("broker-a", "t1", "t2"), 1, 0.0)
    with pytest.raises(SystemBusy, match="1 new topics would exceed the 2"):
        table.register_broker(broker("broker-b", "t2", "t3"), 2, 0.0)
    assert len(table.clusters()) == 1
    assert table.register_broker(broker("broker-b", "t1", "t2"), 2, 0.0) == ("t1", "t2")
    table.register_broker(broker("broker-a", "t3", broker_id=1), 3, 0.0)  # a replica's topics do not count
