"""What members and coordinators tell each other survives the wire, and nonsense is refused by name."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.assignment import ALL_QUEUES, AssignmentQuery, MemberAssignment, topic_queues
from model.errors import InvalidParameter
from model.limits import MAX_ASSIGNED_QUEUES
from model.message_queue import MessageQueue

QUEUES = st.lists(
    st.builds(MessageQueue, st.sampled_from("tu"), st.sampled_from("ab"), st.integers(0, 9)), unique=True
).map(lambda queues: tuple(sorted(queues)))


@given(QUEUES, QUEUES)
def test_queries_and_shares_survive_the_wire(claimed: tuple[MessageQueue, ...], seen: tuple[MessageQueue, ...]) -> None:
    routes = {topic: topic_queues(queue for queue in seen if queue.topic == topic) for topic in "tu"}
    query = AssignmentQuery(version=7, queues=claimed, popped={"v": 3}, routes=routes)
    assert AssignmentQuery.from_wire(7, msgpack.unpackb(msgpack.packb(query.to_wire()))) == query
    share = MemberAssignment(version=8, queues=(*claimed, MessageQueue("v", "a", ALL_QUEUES)), popped={"v": -1})
    assert MemberAssignment.from_wire(8, msgpack.unpackb(msgpack.packb(share.to_wire()))) == share


@pytest.mark.parametrize(
    "wire",
    [
        None,
        [],
        [[], [], 1],
        [[["t", "a", [70_000]]], [], []],
        [[["t", "a", ["x"]]], [], []],
        [[[1, "a", [0]]], [], []],
        [[], [["t", "x"]], []],
        [[], [["t", 2**31]], []],
        [[], [["t", "9" * 1_000]], []],
        [[], [["t", float("inf")]], []],
        [[], [], [["a/b", []]]],
        [[], [], [["t", [["a", -1]]]]],
        [[], [], [["t", [["", 1]]]]],
        [[], [], [["t", [["a", 1.5]]]]],
    ],
)
def test_a_malformed_query_is_refused(wire: Any) -> None:
    with pytest.raises(InvalidParameter):
        AssignmentQuery.from_wire(0, wire)


def test_a_group_has_no_more_queues_than_the_limit() -> None:
    def brokers(total: int) -> list[list[Any]]:
        return [["t", [["a", 50_000], ["b", total - 50_000]]]]

    assert AssignmentQuery.from_wire(0, [[], [], brokers(MAX_ASSIGNED_QUEUES)]).routes
    topics = [[f"t{number}", []] for number in range(MAX_ASSIGNED_QUEUES + 1)]
    for routes in (brokers(MAX_ASSIGNED_QUEUES + 1), topics):
        with pytest.raises(InvalidParameter, match="100000 queues or topics"):
            AssignmentQuery.from_wire(0, [[], [], routes])
