"""A broker that vanishes from a route is believed to be gone at the second look."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.instance.route_doubts import RouteDoubts
from model.topic_route import READ_WRITE, BrokerData, Perm, QueueData, TopicRoute


def route(*names: str) -> TopicRoute:
    return TopicRoute(
        topic="t",
        queues=tuple(QueueData(broker_name=n, read_queue_nums=2, write_queue_nums=2, perm=READ_WRITE) for n in names),
        brokers=tuple(BrokerData(cluster="c", broker_name=n, addresses={0: f"{n}:1"}) for n in names),
    )


def brokers(believed: TopicRoute | None) -> list[str]:
    return [] if believed is None else [data.broker_name for data in believed.queues]


def test_a_broker_that_is_away_for_one_look_stays_for_consumers_and_is_spared_by_producers() -> None:
    doubts = RouteDoubts()
    believed = doubts.weigh("t", route("a", "b"), route("a"))
    assert brokers(believed) == ["a", "b"]
    assert believed is not None
    assert {queue.broker_name for queue in believed.publish_queues()} == {"a"}
    assert len(believed.subscribe_queues()) == 4
    assert doubts.weigh("t", believed, route("a", "b")) == route("a", "b")


def test_a_broker_that_is_away_for_two_looks_is_gone() -> None:
    doubts = RouteDoubts()
    believed = doubts.weigh("t", route("a", "b"), route("a"))
    assert doubts.weigh("t", believed, route("a")) == route("a")


def test_a_topic_that_nobody_knows_for_one_look_can_still_be_sent_to() -> None:
    doubts = RouteDoubts()
    assert doubts.weigh("t", route("a", "b"), None) == route("a", "b")
    assert doubts.weigh("t", route("a", "b"), None) is None


def test_one_broker_after_another_has_two_looks_each() -> None:
    doubts = RouteDoubts()
    first = doubts.weigh("t", route("a", "b"), route("a"))
    second = doubts.weigh("t", first, None)
    assert brokers(second) == ["a"]
    assert second is not None
    assert second.queues[0].perm == Perm.READ
    assert doubts.weigh("t", second, None) is None


def test_a_new_topic_is_believed_at_once() -> None:
    assert RouteDoubts().weigh("t", None, route("a")) == route("a")
    assert RouteDoubts().weigh("t", None, None) is None


@given(looks=st.lists(st.sets(st.sampled_from("abcd")), min_size=1, max_size=12))
def test_what_is_believed_is_what_was_told_now_or_at_the_look_before(looks: list[set[str]]) -> None:
    doubts, believed = RouteDoubts(), None
    before: set[str] = set()
    for look in looks:
        told = route(*sorted(look)) if look else None
        believed = doubts.weigh("t", believed, told)
        assert set(brokers(believed)) == look | before
        assert [b.broker_name for b in believed.brokers] == brokers(believed) if believed else True
        before = look
