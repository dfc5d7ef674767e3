"""The route cache: what it answers follows the routes it holds, and only what differs counts as a change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.instance.routes import RouteCache, RouteRemovalGrace
from model.message_queue import MessageQueue
from model.topic_route import READ_WRITE, BrokerData, Perm, QueueData, TopicRoute


def route_of(topic: str, brokers: dict[str, dict[int, str]], queues: int = 2, perm: Perm = READ_WRITE) -> TopicRoute:
    """A route of a topic that has equally many queues on each of its brokers."""
    return TopicRoute(
        topic=topic,
        queues=tuple(
            QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm) for name in brokers
        ),
        brokers=tuple(
            BrokerData(cluster="c", broker_name=name, addresses=addresses) for name, addresses in brokers.items()
        ),
    )


def queues_of(topic: str, *names: str) -> tuple[MessageQueue, ...]:
    """Queues by short names such as `a0`."""
    return tuple(MessageQueue(topic, name[:-1], int(name[-1])) for name in names)


def test_a_topic_that_no_one_asked_for_has_no_queues() -> None:
    cache = RouteCache()
    assert cache.route_of("t") is None
    assert (cache.subscribe_queues("t"), cache.publish_queues("t"), cache.brokers_of("t")) == ((), (), ())
    assert (cache.brokers(), cache.address_of("a")) == ({}, None)


def test_a_first_route_adds_its_queues() -> None:
    cache = RouteCache()
    route = route_of("t", {"a": {0: "h:1"}, "b": {0: "h:2"}})
    all_queues = queues_of("t", "a0", "a1", "b0", "b1")
    assert cache.update("t", route)
    assert cache.route_of("t") is route
    assert cache.subscribe_queues("t") == cache.publish_queues("t") == all_queues
    assert cache.brokers_of("t") == ("a", "b")


def test_an_equal_route_is_not_a_change() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {0: "h:1"}}))
    assert not cache.update("t", route_of("t", {"a": {0: "h:1"}}))


def test_a_changed_route_replaces_the_queues() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {0: "h:1"}, "b": {0: "h:2"}}, queues=1))
    assert cache.subscribe_queues("t") == queues_of("t", "a0", "b0")
    assert cache.update("t", route_of("t", {"b": {0: "h:2"}, "c": {0: "h:3"}}, queues=1))
    assert cache.subscribe_queues("t") == queues_of("t", "b0", "c0")


def test_a_topic_that_does_not_exist_any_more_loses_its_queues_and_brokers() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {0: "h:1"}}))
    assert cache.update("t", None)
    assert (cache.route_of("t"), cache.subscribe_queues("t"), cache.brokers()) == (None, (), {})
    assert not cache.update("t", None)


def test_a_topic_that_never_existed_is_not_a_change() -> None:
    assert not RouteCache().update("t", None)


def test_a_broker_that_moved_is_not_a_change_of_queues_and_has_its_new_address() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {0: "h:1"}}))
    assert cache.address_of("a") == "h:1"
    assert not cache.update("t", route_of("t", {"a": {0: "h:9"}}))
    assert cache.address_of("a") == "h:9"


def test_where_routes_disagree_about_a_broker_the_one_that_changed_last_is_right() -> None:
    cache = RouteCache()
    for topic in ("t", "u"):
        cache.update(topic, route_of(topic, {"a": {0: "h:1"}}))
    cache.update("t", route_of("t", {"a": {0: "h:9"}}))
    assert cache.address_of("a") == "h:9"
    cache.update("u", route_of("u", {"a": {0: "h:5"}}))
    assert cache.address_of("a") == "h:5"


def test_a_topic_without_write_permission_can_be_read_only() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {0: "h:1"}}, perm=Perm.READ))
    assert (cache.subscribe_queues("t"), cache.publish_queues("t")) == (queues_of("t", "a0", "a1"), ())


def test_without_its_master_a_broker_keeps_its_queues_and_no_replica_is_asked_in_its_place() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {2: "h:2", 1: "h:1"}}))
    assert cache.publish_queues("t") == ()
    assert cache.subscribe_queues("t") == queues_of("t", "a0", "a1")
    assert (cache.address_of("a"), cache.masters()) == (None, {})


def test_with_its_master_a_broker_is_read_and_written_there() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {1: "h:1", 0: "h:0"}}))
    assert (cache.address_of("a"), cache.masters()) == ("h:0", {"a": "h:0"})


def test_a_broker_without_addresses_cannot_be_reached() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {}}))
    assert (cache.address_of("a"), cache.masters()) == (None, {})


def test_brokers_are_those_of_all_routes_in_order_of_names_and_ids() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"c": {1: "h:4", 0: "h:3"}, "b": {0: "h:2"}}))
    cache.update("u", route_of("u", {"a": {0: "h:1"}}))
    brokers = cache.brokers()
    assert list(brokers) == ["a", "b", "c"]
    assert list(brokers["c"].items()) == [(0, "h:3"), (1, "h:4")]


def test_a_forgotten_topic_takes_along_the_brokers_that_only_it_named() -> None:
    cache = RouteCache()
    cache.update("t", route_of("t", {"a": {0: "h:1"}, "b": {0: "h:2"}}))
    cache.update("u", route_of("u", {"b": {0: "h:2"}}))
    cache.forget("t")
    cache.forget("t")
    assert cache.brokers() == {"b": {0: "h:2"}}
    assert cache.address_of("a") is None


def route(*names: str) -> TopicRoute:
    return TopicRoute(
        topic="t",
        queues=tuple(QueueData(broker_name=n, read_queue_nums=2, write_queue_nums=2, perm=READ_WRITE) for n in names),
        brokers=tuple(BrokerData(cluster="c", broker_name=n, addresses={0: f"{n}:1"}) for n in names),
    )


def brokers(believed: TopicRoute | None) -> list[str]:
    return [] if believed is None else [data.broker_name for data in believed.queues]


def test_a_broker_that_is_away_for_a_moment_stays_for_consumers_and_is_spared_by_producers() -> None:
    grace = RouteRemovalGrace(30.0)
    believed = grace.confirm("t", route("a", "b"), route("a"), 100.0)
    assert brokers(believed) == ["a", "b"]
    assert believed is not None
    assert {queue.broker_name for queue in believed.publish_queues()} == {"a"}
    assert len(believed.subscribe_queues()) == 4
    assert grace.waits
    assert grace.confirm("t", believed, route("a", "b"), 101.0) == route("a", "b")
    assert not grace.waits


def test_two_polls_within_moments_give_up_nothing_and_the_time_does() -> None:
    grace = RouteRemovalGrace(30.0)
    believed = grace.confirm("t", route("a", "b"), route("a"), 100.0)
    for now in (100.1, 129.9):
        believed = grace.confirm("t", believed, route("a"), now)
        assert brokers(believed) == ["a", "b"]
    assert grace.confirm("t", believed, route("a"), 130.0) == route("a")


def test_the_time_begins_with_the_loss_of_the_connection_if_that_was_before_the_first_poll() -> None:
    grace = RouteRemovalGrace(30.0)
    believed = grace.confirm("t", route("a", "b"), route("a"), 100.0, {"b": 90.0, "a": 10.0})
    assert brokers(believed) == ["a", "b"]
    assert grace.confirm("t", believed, route("a"), 120.0, {"b": 90.0}) == route("a")
    assert grace.confirm("t", route("a", "b"), route("a"), 500.0, {"b": 90.0}) == route("a")


def test_a_topic_that_no_one_knows_for_a_moment_can_still_be_sent_to() -> None:
    grace = RouteRemovalGrace(30.0)
    assert grace.confirm("t", route("a", "b"), None, 0.0) == route("a", "b")
    assert grace.confirm("t", route("a", "b"), None, 30.0) is None


def test_one_broker_after_another_has_its_own_time() -> None:
    grace = RouteRemovalGrace(30.0)
    first = grace.confirm("t", route("a", "b"), route("a"), 0.0)
    second = grace.confirm("t", first, None, 30.0)
    assert brokers(second) == ["a"]
    assert second is not None
    assert second.queues[0].perm == Perm.READ
    assert grace.confirm("t", second, None, 60.0) is None


def test_a_new_topic_is_believed_at_once() -> None:
    assert RouteRemovalGrace().confirm("t", None, route("a"), 0.0) == route("a")
    assert RouteRemovalGrace().confirm("t", None, None, 0.0) is None


NAMES = st.sampled_from("abcd")
POLLS = st.tuples(st.booleans(), st.sets(NAMES), st.integers(0, 20), st.dictionaries(NAMES, st.integers(0, 50)))


@given(polls=st.lists(POLLS, min_size=1, max_size=12))
def test_what_is_believed_is_what_was_polled_now_or_is_missing_for_less_than_the_time(
    polls: list[tuple[bool, set[str], int, dict[str, int]]],
) -> None:
    grace, believed, now = RouteRemovalGrace(30.0), None, 0.0
    since: dict[str, float] = {}  # of each broker that is believed and was not polled
    for counts, there, pause, ages in polls:
        now += pause
        lost = {name: now - age for name, age in ages.items()}
        missing = set(brokers(believed)) - there
        since = {name: min(since.get(name, now), lost.get(name, now)) for name in missing}
        since = {name: at for name, at in since.items() if not counts or now - at < 30}
        reported = route(*sorted(there)) if there else None
        believed = grace.confirm("t", believed, reported, now, lost, absence_counts=counts)
        assert set(brokers(believed)) == there | set(since)
        assert grace.waits is bool(since)
        assert [b.broker_name for b in believed.brokers] == brokers(believed) if believed else True


def test_an_answer_that_counts_no_absence_leaves_the_writing_to_a_missing_broker() -> None:
    believed = RouteRemovalGrace(30.0).confirm("t", route("a", "b"), route("a"), 0.0, absence_counts=False)
    assert believed is not None
    assert {queue.broker_name for queue in believed.publish_queues()} == {"a", "b"}


# --- the masters of a set --------------------------------------------------------------------------------------------


def set_route(topic: str, address: str | None, epoch: int, *, set_id: int = 5, queues: int = 2) -> TopicRoute:
    """A route of broker `a`, which is a set; without a master with its replica alone."""
    addresses = {2: "h:replica"} if address is None else {0: address}
    return TopicRoute(
        topic=topic,
        queues=(QueueData(broker_name="a", read_queue_nums=queues, write_queue_nums=queues, perm=READ_WRITE),),
        brokers=(BrokerData(cluster="lab", broker_name="a", addresses=addresses, set_id=set_id, epoch=epoch),),
    )


def test_the_master_of_a_set_is_that_of_the_highest_epoch_whichever_route_came_last() -> None:
    cache = RouteCache()
    cache.update("t", set_route("t", "h:1", 1))
    assert (cache.address_of("a"), cache.epoch_of("a"), cache.is_set("a")) == ("h:1", 1, True)
    assert not cache.update("t", set_route("t", "h:2", 2))  # the queues are the same
    cache.update("u", set_route("u", "h:1", 1))  # of a name server that lags
    cache.update("t", set_route("t", "h:1", 1))
    assert (cache.address_of("a"), cache.epoch_of("a")) == ("h:2", 2)
    assert cache.broker_at("h:1") == ""
    cache.update("u", set_route("u", None, 2))  # the master has left, and nobody has taken its place
    assert (cache.address_of("a"), cache.masters(), cache.is_set("a")) == (None, {}, True)


def test_a_replicas_answer_counts_until_a_route_has_that_epoch() -> None:
    cache = RouteCache()
    cache.update("t", set_route("t", "h:1", 3))
    assert not cache.follow("a", "h:2", 3)
    assert not cache.follow("a", "", 4)
    assert not cache.follow("b", "h:2", 4)
    assert cache.follow("a", "h:2", 4)
    assert cache.masters() == {"a": "h:2"}
    cache.update("t", set_route("t", "h:1", 3, queues=4))
    assert cache.address_of("a") == "h:2"
    cache.update("t", set_route("t", "h:3", 4))
    assert cache.address_of("a") == "h:3"


def test_an_epoch_counts_within_its_set_and_while_some_route_names_the_broker() -> None:
    cache = RouteCache()
    cache.update("t", set_route("t", "h:1", 7))
    cache.update("t", set_route("t", "h:2", 1, set_id=6))
    assert (cache.address_of("a"), cache.epoch_of("a")) == ("h:2", 1)
    cache.update("t", route_of("t", {"a": {0: "h:3"}}))  # no longer a set, or a name server of an earlier version
    assert (cache.address_of("a"), cache.epoch_of("a"), cache.is_set("a")) == ("h:3", 0, False)
    cache.update("t", set_route("t", "h:1", 7))
    cache.update("t", None)
    assert cache.masters() == {}
    cache.update("t", set_route("t", "h:2", 1))
    assert cache.address_of("a") == "h:2"


@given(
    st.lists(
        st.tuples(st.sampled_from("tu"), st.sampled_from([None, 1, 2, 3, 4]))
        | st.tuples(st.just("follow"), st.integers(1, 5)),
        max_size=12,
    )
)
def test_the_epoch_of_a_broker_in_routes_never_goes_back(steps: list[tuple[str, int | None]]) -> None:
    cache, named, highest = RouteCache(), set[str](), 0
    for topic, epoch in steps:
        if topic == "follow" and epoch is not None:
            assert cache.follow("a", f"h:{epoch}", epoch) == (bool(named) and epoch > highest)
        elif topic != "follow":
            cache.update(topic, None if epoch is None else set_route(topic, f"h:{epoch}", epoch))
            named.discard(topic) if epoch is None else named.add(topic)
        if not named:
            highest = 0
        elif epoch is not None:
            highest = max(highest, epoch)
        assert cache.epoch_of("a") == highest
        assert cache.address_of("a") == (f"h:{highest}" if highest else None)
