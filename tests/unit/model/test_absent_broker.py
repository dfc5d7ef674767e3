from __future__ import annotations

import pytest

from model.absent_broker import Absence, AbsentBroker, format_duration
from model.message_queue import MessageQueue
from model.topic_route import Perm, TopicConfig


def absent(broker_id: int = 0, perm: Perm = Perm.READ) -> AbsentBroker:
    return AbsentBroker(
        cluster="lab",
        broker_name="broker-b",
        broker_id=broker_id,
        address="b:1",
        away_s=61.0,
        reason="closed its connection",
        topics=(TopicConfig(topic="orders", read_queue_nums=2, write_queue_nums=1, perm=perm),),
    )


def test_an_absent_broker_comes_over_the_wire_as_it_was_and_with_fields_of_a_later_version() -> None:
    assert AbsentBroker.from_wire(absent().to_wire()) == absent()
    assert AbsentBroker.from_wire([*absent().to_wire(), "later"]) == absent()


def test_the_queues_that_are_away_are_those_that_could_be_read_from_a_master() -> None:
    assert absent().queues_of("orders") == [MessageQueue("orders", "broker-b", n) for n in range(2)]
    assert absent().queues_of("other") == []
    assert absent(broker_id=1).queues_of("orders") == []
    assert absent(perm=Perm.WRITE).queues_of("orders") == []


def test_the_list_says_what_it_cannot_have() -> None:
    young = Absence(brokers=(absent(), absent(1)), known_for_s=12.3, unable={})
    assert young.limit == "brokers that are away are known since the start of the name server, 12 s ago"
    assert list(young.masters) == ["broker-b"]
    blind = Absence(brokers=(), known_for_s=None, unable={"ns:1": "too old"})
    assert blind.limit == "no name server can report brokers that are away (ns:1: too old)"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "120 min"), (7_200, "2 h")]
)
def test_a_time_has_the_largest_unit_that_it_has_two_of(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
