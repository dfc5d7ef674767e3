"""Topic configs and routes: which queues they mean, what is refused, and that the wire loses nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from model.errors import InvalidParameter
from model.limits import MAX_QUEUES_PER_TOPIC
from model.message_queue import MessageQueue
from model.topic_route import (
    READ_WRITE,
    BrokerData,
    MessageType,
    Perm,
    QueueData,
    TopicConfig,
    TopicRoute,
    checked_topic_config,
)


def over_the_wire(value: Any) -> Any:
    """What the peer gets."""
    return msgpack.unpackb(msgpack.packb(value), strict_map_key=False)


def queue_data(broker_name: str, read: int, write: int, perm: Perm = READ_WRITE) -> QueueData:
    """The queues of one broker."""
    return QueueData(broker_name=broker_name, read_queue_nums=read, write_queue_nums=write, perm=perm)


def broker_data(broker_name: str, addresses: dict[int, str]) -> BrokerData:
    """The addresses of one broker."""
    return BrokerData(cluster="c", broker_name=broker_name, addresses=addresses)


def queues_of(*names: str) -> list[MessageQueue]:
    """Queues by short names such as `a0`."""
    return [MessageQueue("t", name[:-1], int(name[-1])) for name in names]


ROUTE = TopicRoute(
    topic="t",
    queues=(
        queue_data("a", 3, 2),
        queue_data("b", 1, 1, Perm.READ),
        queue_data("c", 1, 1, Perm.WRITE),
        queue_data("d", 1, 1),
    ),
    brokers=(
        broker_data("a", {0: "h:1"}),
        broker_data("b", {0: "h:2"}),
        broker_data("c", {0: "h:3"}),
        broker_data("d", {1: "h:4"}),
    ),
)


def test_readable_queues_are_those_with_read_permission_even_without_a_master() -> None:
    assert list(ROUTE.subscribe_queues()) == queues_of("a0", "a1", "a2", "b0", "d0")


def test_writable_queues_are_those_with_write_permission_and_a_master() -> None:
    assert list(ROUTE.publish_queues()) == queues_of("a0", "a1", "c0")


def test_the_master_is_the_address_of_id_zero() -> None:
    assert broker_data("a", {1: "h:2", 0: "h:1"}).master == "h:1"
    assert broker_data("a", {1: "h:2"}).master is None


def test_a_route_survives_the_wire() -> None:
    assert TopicRoute.from_wire(over_the_wire(ROUTE.to_wire())) == ROUTE


def test_a_route_from_the_wire_is_sorted_by_broker_name() -> None:
    wire = over_the_wire(ROUTE.to_wire())
    wire["queues"].reverse()
    wire["brokers"].reverse()
    assert TopicRoute.from_wire(wire) == ROUTE


def test_the_permission_bits_are_those_of_the_reference() -> None:
    assert (int(Perm.INHERIT), int(Perm.WRITE), int(Perm.READ), int(READ_WRITE)) == (1, 2, 4, 6)


def test_a_topic_config_survives_the_wire() -> None:
    config = TopicConfig(topic="t", read_queue_nums=8, write_queue_nums=4, perm=Perm.READ)
    assert TopicConfig.from_wire(over_the_wire(config.to_wire())) == config


def test_a_message_type_is_stored_behind_the_four_values_that_earlier_versions_read() -> None:
    mixed = TopicConfig(topic="t", read_queue_nums=8, write_queue_nums=4)
    assert mixed.to_stored() == mixed.to_wire() == ["t", 8, 4, 6]
    fifo = replace(mixed, message_type=MessageType.FIFO)
    assert (fifo.to_wire(), fifo.to_stored()) == (["t", 8, 4, 6], ["t", 8, 4, 6, 2])
    assert TopicConfig.from_wire(over_the_wire(fifo.to_stored())) == fifo
    assert TopicConfig.from_wire(over_the_wire(fifo.to_wire()), 2) == fifo
    assert TopicConfig.from_wire(["t", 8, 4, 6]) == mixed


def test_a_route_has_the_message_types_under_a_key_of_their_own() -> None:
    route = replace(ROUTE, queues=(replace(ROUTE.queues[0], message_type=MessageType.DELAY), *ROUTE.queues[1:]))
    wire = over_the_wire(route.to_wire())
    assert TopicRoute.from_wire(wire) == route
    assert wire["message_types"] == {ROUTE.queues[0].broker_name: 3}
    assert {**wire, "message_types": {}} == {**over_the_wire(ROUTE.to_wire()), "message_types": {}}
    assert "message_types" not in ROUTE.to_wire()


@pytest.mark.parametrize(("read", "write"), [(0, 1), (1, 0), (MAX_QUEUES_PER_TOPIC, MAX_QUEUES_PER_TOPIC)])
def test_queue_counts_are_allowed_up_to_the_limit(read: int, write: int) -> None:
    config = TopicConfig(topic="t", read_queue_nums=read, write_queue_nums=write, perm=READ_WRITE)
    assert checked_topic_config("t", read, write, READ_WRITE) == config


@pytest.mark.parametrize(
    ("read", "write", "message"),
    [
        (-1, 1, "read queues of topic 't' must be 0 to"),
        (1, -1, "write queues of topic 't' must be 0 to"),
        (MAX_QUEUES_PER_TOPIC + 1, 1, f"read queues .* got {MAX_QUEUES_PER_TOPIC + 1}"),
        (1, MAX_QUEUES_PER_TOPIC + 1, f"write queues .* got {MAX_QUEUES_PER_TOPIC + 1}"),
        (0, 0, "topic 't' needs at least one queue"),
    ],
)
def test_queue_counts_out_of_range_are_refused(read: int, write: int, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        checked_topic_config("t", read, write, READ_WRITE)


def test_an_illegal_topic_name_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="topic name"):
        checked_topic_config("a b", 1, 1, READ_WRITE)
