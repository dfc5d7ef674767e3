"""Which brokers are remembered as absent, and for how long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from namesrv.absent import AbsentBrokers
from namesrv.registration import BrokerKey
from namesrv.route_table import RouteTable
from tests.unit.namesrv.registrations import broker, topic


def names_in(absent: AbsentBrokers) -> list[str]:
    return [each.broker_name for each in absent.listed(0.0)]


def test_the_table_goes_through_the_example_of_its_header() -> None:
    absent, registration = AbsentBrokers(10, 10), broker("broker-a", "orders")
    absent.broker_left(registration, registration.topics, "closed its connection", now=10.0)
    [away] = absent.listed(now=15.0)
    assert (away.broker_name, away.away_s, away.topics) == ("broker-a", 5.0, (topic("orders"),))
    assert str(away) == "broker broker-a at broker-a-0:10911 closed its connection 5 s ago"
    absent.returned(BrokerKey("broker-a", 0))
    assert absent.listed(now=15.0) == []


def test_as_many_brokers_are_remembered_as_the_limit_and_the_one_that_left_first_makes_room() -> None:
    absent = AbsentBrokers(10, 2)
    for name in ("broker-b", "broker-a", "broker-c"):
        absent.broker_left(broker(name), (), "closed", 0.0)
    assert names_in(absent) == ["broker-a", "broker-c"]


def test_as_many_topics_are_remembered_as_the_limit_and_the_broker_that_left_first_loses_its_own() -> None:
    absent = AbsentBrokers(2, 10)
    for name in ("broker-b", "broker-a", "broker-c"):
        absent.broker_left(broker(name), [topic(f"of-{name}")], "closed", 0.0)
    assert [(each.broker_name, len(each.topics)) for each in absent.listed(0.0)] == [
        ("broker-a", 1),
        ("broker-b", 0),
        ("broker-c", 1),
    ]


def test_a_replica_is_absent_without_queues() -> None:
    table = RouteTable()
    table.register_broker(broker("broker-a", "orders"), 1, 0.0)
    table.register_broker(broker("broker-a", broker_id=1), 2, 0.0)
    table.connection_closed(2, 1.0)
    table.connection_closed(1, 2.0)
    assert [(each.broker_id, len(each.topics), each.is_master) for each in table.absent.listed(3.0)] == [
        (0, 1, True),
        (1, 0, False),
    ]


STEPS = st.lists(
    st.tuples(st.sampled_from(["register", "close", "goodbye", "forget"]), st.sampled_from("abc")), max_size=20
)


@given(STEPS)
def test_a_broker_is_absent_exactly_when_its_last_act_was_to_leave_without_unregistering(
    steps: list[tuple[str, str]],
) -> None:
    table, last = RouteTable(), dict.fromkeys("abc", "")
    for number, (act, name) in enumerate(steps):
        live = table.address_of(name, 0) is not None
        match act:
            case "register":
                table.register_broker(broker(name, f"t-{name}"), ord(name), float(number))
                last[name] = "here"
            case "close" if live:
                table.connection_closed(ord(name), float(number))
                last[name] = "away"
            case "goodbye":
                table.unregister_broker(name, 0, f"{name}-0:10911", 0.0)
                last[name] = ""
            case "forget" if not live:
                table.absent.forget(name)
                last[name] = ""
        assert names_in(table.absent) == [each for each in "abc" if last[each] == "away"]
        assert {data.broker_name for data in table.clusters()} == {each for each in "abc" if last[each] == "here"}
