"""A group as a broker lists it."""

from __future__ import annotations

from broker.groups.group import NEVER, RESTORED, ConsumerGroupInfo, Member
from model.subscription import SubscriptionData
from tests.unit.broker.harness import consumer


def member(client_id: str, *topics: str, connection: int = 1) -> Member:
    return Member(client_id, connection, consumer(), {topic: SubscriptionData(topic) for topic in topics}, 30.0)


def test_a_view_lists_members_and_their_topics_sorted() -> None:
    info = ConsumerGroupInfo("g", 7, 1, {"B": member("B", "u", "t"), "A": member("A", "t")})
    assert info.view().to_wire() == [7, [[["t"], ["A"]], [["t", "u"], ["B"]]]]


def test_a_client_id_that_two_members_have_is_listed_twice() -> None:
    info = ConsumerGroupInfo("g", 7, 1, {"A": member("A", "t"), "A 2": member("A", "t"), "A1": member("A1", "t")})
    assert info.view().to_wire()[1] == [[["t"], ["A", "A", "A1"]]]


def test_with_one_table_for_the_group_everyone_is_listed_for_every_topic() -> None:
    info = ConsumerGroupInfo("g", 7, 1, {"A": member("A", "t"), "B": member("B", "u")}, shared_topics=("u",))
    assert info.view().to_wire() == [7, [[["t", "u"], ["A", "B"]]]]


def test_a_member_is_connected_until_its_connection_closes_and_not_before_it_comes_back() -> None:
    here = member("A", "t")
    assert (here.connected, here.leaves_at) == (True, 30.0)
    here.grace_ends_at = 5.0
    assert (here.connected, here.leaves_at) == (False, 5.0)
    assert not member("A", "t", connection=RESTORED).connected
    assert NEVER > 1e300
