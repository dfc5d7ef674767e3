"""MACHINE_ROOM and MACHINE_ROOM_NEARBY on examples."""

from __future__ import annotations

from typing import Any

import pytest

from client.allocate import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
)
from client.allocate.machine_room import parse_machine_room
from model.message_queue import MessageQueue


def queues(*brokers: str, count: int = 4) -> list[MessageQueue]:
    return [MessageQueue("t", broker, queue_id) for broker in brokers for queue_id in range(count)]


@pytest.mark.parametrize(
    ("broker", "room"),
    [
        ("r@a", "r"),
        ("r@a@", "r"),
        ("r@a@@", "r"),
        ("@a", ""),
        ("r@", None),
        ("r", None),
        ("r@a@b", None),
        ("r@@a", None),
    ],
)
def test_a_broker_name_has_two_parts_as_java_splits_it(broker: str, room: str | None) -> None:
    assert parse_machine_room(broker) == room


def test_each_member_has_a_block_and_the_rest_is_dealt_from_the_end() -> None:
    strategy = AllocateMessageQueueByMachineRoom({"r1"})
    seen = queues("r1@a", "r1@b", "r2@a", "plain")  # 8 in the room = 2 * 3 + 2
    shares = [strategy.allocate("g", cid, seen, ["x", "y", "z"]) for cid in "xyz"]
    assert shares == [[*seen[0:2], seen[6]], [*seen[2:4], seen[7]], seen[4:6]]
    assert strategy.name == "MACHINE_ROOM"


def test_with_fewer_queues_than_members_the_first_have_one_each() -> None:
    strategy = AllocateMessageQueueByMachineRoom(["r1"])
    seen = queues("r1@a", count=2)
    assert [strategy.allocate("g", cid, seen, ["x", "y", "z"]) for cid in "xyz"] == [seen[:1], seen[1:], []]


def test_queues_of_other_rooms_and_of_other_names_belong_to_no_one() -> None:
    for rooms in ([], ["r9"], {""}):
        assert AllocateMessageQueueByMachineRoom(rooms).allocate("g", "x", queues("r1@a", "plain"), ["x"]) == []


@pytest.mark.parametrize("rooms", ["r1", None, [1], [["r1"]]])
def test_rooms_have_to_be_a_collection_of_texts(rooms: Any) -> None:
    with pytest.raises(ValueError, match="consumer_idcs must"):
        AllocateMessageQueueByMachineRoom(rooms)


class ByPrefix:
    """The room is what stands before the first dash."""

    def broker_room(self, queue: MessageQueue) -> str:
        return queue.broker_name.rpartition("-")[0]

    def consumer_room(self, client_id: str) -> str:
        return client_id.rpartition("-")[0]


NEARBY = AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), ByPrefix())


def test_members_share_the_queues_of_their_room() -> None:
    seen = queues("r1-a", "r2-a")
    members = ["r1-x", "r1-y", "r2-z"]
    assert [NEARBY.allocate("g", cid, seen, members) for cid in members] == [seen[:2], seen[2:4], seen[4:]]


def test_a_room_without_members_is_shared_by_all_and_its_rest_goes_to_the_first_again() -> None:
    seen = queues("r1-a", "r2-a", "r3-a", count=1)
    members = ["r1-x", "r1-y"]
    assert [NEARBY.allocate("g", cid, seen, members) for cid in members] == [seen, []]


def test_rooms_without_members_come_in_the_order_of_utf_16() -> None:
    seen = queues("～-a", "😀-a", "a-a", count=1)
    assert [queue.broker_name for queue in NEARBY.allocate("g", "a-x", seen, ["a-x"])] == ["a-a", "😀-a", "～-a"]


def test_a_room_with_members_and_no_queues_helps_out_elsewhere_only_where_no_one_is() -> None:
    seen = queues("r1-a", "r3-a", count=2)
    members = ["r1-x", "r2-y"]
    assert [NEARBY.allocate("g", cid, seen, members) for cid in members] == [[*seen[:2], seen[2]], [seen[3]]]


def test_the_inner_strategy_shows_in_the_name() -> None:
    assert NEARBY.name == "MACHINE_ROOM_NEARBY-AVG"
    circle = AllocateMachineRoomNearby(AllocateMessageQueueAveragelyByCircle(), ByPrefix())
    assert circle.name == "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE"


def test_a_queue_or_a_member_without_a_room_is_illegal_and_named() -> None:
    with pytest.raises(ValueError, match="no machine room for queue t@plain:0"):
        NEARBY.allocate("g", "r1-x", queues("r1-a", "plain"), ["r1-x"])
    with pytest.raises(ValueError, match="no machine room for consumer stray"):
        NEARBY.allocate("g", "r1-x", queues("r1-a"), ["r1-x", "stray"])


def test_the_common_checks_come_before_the_rooms() -> None:
    assert NEARBY.allocate("g", "r1-new", queues("plain"), ["r1-x"]) == []
    with pytest.raises(ValueError, match="cid_all is empty"):
        NEARBY.allocate("g", "r1-x", queues("plain"), [])


def test_inner_strategy_and_resolver_have_to_be_such() -> None:
    with pytest.raises(ValueError, match="inner must be"):
        AllocateMachineRoomNearby(None, ByPrefix())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="use CONFIG alone"):
        AllocateMachineRoomNearby(AllocateMessageQueueByConfig([]), ByPrefix())
    with pytest.raises(ValueError, match="resolver must have"):
        AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), None)  # type: ignore[arg-type]
