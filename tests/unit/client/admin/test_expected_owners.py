from __future__ import annotations

from dataclasses import replace

from client.admin.expected_owners import compute_expected_owners, group_info, merge_members, newest_assignment
from client.admin.records import NO_ASSIGNMENT, GroupReport, MemberReport, QueueProgress
from client.allocate.registry import BUILT_IN_STRATEGIES, strategy_named
from model.assignment import ALL_QUEUES, MemberAssignment, RequestMode
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, GroupView, MessageModel
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData
from model.topic_route import READ_WRITE, BrokerData, QueueData, TopicRoute

Q0, Q1 = (MessageQueue("t", "a", number) for number in range(2))
POPPED = MessageQueue("u", "a", ALL_QUEUES)
STRATEGIES = {name: strategy_named(name) for name in BUILT_IN_STRATEGIES}


def route(topic: str, *brokers: str, queues: int = 2) -> TopicRoute:
    return TopicRoute(
        topic=topic,
        queues=tuple(
            QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=READ_WRITE)
            for name in brokers
        ),
        brokers=tuple(BrokerData(cluster="c", broker_name=name, addresses={0: f"{name}:1"}) for name in brokers),
    )


def member(
    client_id: str,
    *topics: str,
    strategy: str = "AVG",
    model: MessageModel = MessageModel.CLUSTERING,
    expires_in_s: float = 100.0,
    queues: tuple[MessageQueue, ...] = (),
) -> MemberReport:
    consumer = ConsumerData(
        group="g",
        consume_type=ConsumeType.PASSIVELY,
        model=model,
        consume_from=ConsumeFrom.LAST_OFFSET,
        strategy=strategy,
        subscriptions=tuple(SubscriptionData(topic) for topic in topics or ("t",)),
        session_timeout_s=120.0,
    )
    return MemberReport(
        client_id=client_id, address=f"{client_id}:9", expires_in_s=expires_in_s, consumer=consumer, queues=queues
    )


def queue(broker: str, queue_id: int, topic: str = "t") -> MessageQueue:
    return MessageQueue(topic, broker, queue_id)


def report(broker: str, *members: MemberReport, queues: tuple[MessageQueue, ...] = (), version: int = 1) -> GroupReport:
    progress = tuple(
        QueueProgress(queue=each, min_offset=0, max_offset=0, committed=None, owner=None) for each in queues
    )
    return GroupReport(broker_name=broker, version=version, created_ms=version, members=members, queues=progress)


def target(reports: list[GroupReport], *routes: TopicRoute) -> dict[MessageQueue, tuple[str, ...]]:
    views = {
        each.broker_name: GroupView(
            group="g",
            version=each.version,
            members={m.client_id: tuple(s.topic for s in m.consumer.subscriptions) for m in each.members},
        )
        for each in reports
    }
    return compute_expected_owners(
        "g", merge_members(reports), {each.topic: each for each in routes}, views, STRATEGIES
    )


def test_members_are_put_together_from_what_every_broker_says() -> None:
    stale = member("c1", "old", expires_in_s=1.0, queues=(queue("a", 1),))
    fresh = member("c1", "t", "u", expires_in_s=50.0, queues=(queue("b", 0),))
    (one, two) = merge_members([report("a", stale), report("b", member("c2"), fresh)])
    assert (one.client_id, one.brokers, one.queues) == ("c1", ("a", "b"), (queue("a", 1), queue("b", 0)))
    assert [subscription.topic for subscription in one.subscriptions] == ["t", "u"]
    assert (two.client_id, two.brokers, two.expires_in_s) == ("c2", ("b",), 100.0)


def test_a_broker_that_misses_a_member_says_why_and_when_it_leaves_there() -> None:
    silent, closed = member("c1", expires_in_s=40.0), replace(member("c1", expires_in_s=0.26), address="")
    [merged] = merge_members([report("a", closed), report("b", silent), report("c", member("c1"))])
    assert merged.away_at == {
        "a": "its connection is closed, and it leaves in 0.3 s unless it comes back",
        "b": "no heartbeat for 80 s, and it leaves in 40 s unless it comes back",
    }


def test_the_target_is_what_the_members_strategies_give_them() -> None:
    reports = [report("a", member("c1"), member("c2")), report("b", member("c1"), member("c2"))]
    assert target(reports, route("t", "a", "b")) == {
        queue("a", 0): ("c1",),
        queue("a", 1): ("c1",),
        queue("b", 0): ("c2",),
        queue("b", 1): ("c2",),
    }


def test_each_member_is_computed_from_the_view_of_the_broker_that_it_asks() -> None:
    # Broker a has not heard of c2, and everybody who subscribes to t asks a, the first of its brokers.
    reports = [report("a", member("c1")), report("b", member("c1"), member("c2"))]
    assert set(target(reports, route("t", "a", "b")).values()) == {("c1",)}
    # Without an answer of a, they all ask b.
    assert set(target(reports[1:], route("t", "a", "b")).values()) == {("c1",), ("c2",)}


def test_a_broker_that_serves_only_the_retry_topic_is_no_ones_source() -> None:
    both = (member("c1", "%RETRY%g", "t"), member("c2", "%RETRY%g", "t"))
    found = target([report("a"), report("b", *both)], route("t", "b"), route("%RETRY%g", "a", "b", queues=1))
    assert found[queue("b", 0)] == ("c1",)
    assert found[queue("a", 0, "%RETRY%g")] == ("c1",)


def test_members_of_different_strategies_may_be_given_the_same_queue() -> None:
    reports = [report("a", member("c1"), member("c2", strategy="AVG_BY_CIRCLE"))]
    found = target(reports, route("t", "a", queues=4))
    assert found[queue("a", 1)] == ("c1", "c2")
    assert queue("a", 2) not in found


def test_a_member_without_the_topic_is_given_none_of_its_queues() -> None:
    reports = [report("a", member("c1"), member("c2", "u"))]
    assert set(target(reports, route("t", "a")).values()) == {("c1",)}


def test_broadcasting_members_each_read_every_queue() -> None:
    both = [member(client, model=MessageModel.BROADCASTING) for client in ("c1", "c2")]
    assert set(target([report("a", *both)], route("t", "a")).values()) == {("c1", "c2")}


def test_a_strategy_that_is_not_known_leaves_its_members_out_and_is_named() -> None:
    info = group_info(
        "g",
        [report("a", member("c1", strategy="MINE"), member("c2"), queues=(queue("a", 0), queue("a", 1)))],
        {"t": route("t", "a")},
        ["broker-z"],
        STRATEGIES,
    )
    assert info.unknown_strategies == ("MINE",)
    assert info.unreachable == ("broker-z",)
    assert {each.queue: each.targets for each in info.queues} == {queue("a", 0): (), queue("a", 1): ("c2",)}


def test_members_that_contradict_each_other_are_found_by_what_they_said_last() -> None:
    before, now = member("c1", strategy="OLD", expires_in_s=1.0), member("c1", expires_in_s=9.0)
    agreeing = group_info("g", [report("a", before, member("c2")), report("b", now, member("c2"))], {}, [], STRATEGIES)
    assert agreeing.disagreements == ()
    other = member("c3", strategy="AVG_BY_CIRCLE")
    split = group_info("g", [report("a", before, other), report("b", now)], {}, [], STRATEGIES)
    assert [str(each) for each in split.disagreements] == ["strategy: AVG (c1), AVG_BY_CIRCLE (c3)"]


def test_a_member_that_a_broker_lists_twice_takes_two_places_and_is_shown_once() -> None:
    twins = member("c1", queues=(queue("a", 0), queue("a", 1)))
    info = group_info(
        "g",
        [report("a", twins, twins, member("c2"), queues=tuple(queue("a", n) for n in range(6)))],
        {"t": route("t", "a", queues=6)},
        [],
        STRATEGIES,
    )
    assert [(each.client_id, each.brokers, len(each.queues)) for each in info.members] == [
        ("c1", ("a",), 2),
        ("c2", ("a",), 0),
    ]
    assert [each.targets for each in info.queues] == [("c1",), ("c1",), (), (), ("c2",), ("c2",)]
    assert info.stranded == (queue("a", 2), queue("a", 3))


def test_a_group_is_as_new_as_its_newest_version_and_as_old_as_its_oldest_birth() -> None:
    reports = [report("a", version=0), report("b", version=9), report("c", version=5, queues=(queue("c", 0),))]
    info = group_info("g", reports, {}, [], STRATEGIES)
    assert (info.version, info.created_ms) == (9, 5)
    assert group_info("g", [report("a", version=0)], {}, [], STRATEGIES).created_ms == 0


def test_queues_are_sorted_whatever_broker_they_are_of() -> None:
    reports = [report("b", queues=(queue("b", 1), queue("b", 0))), report("a", queues=(queue("a", 0),))]
    assert [each.queue for each in group_info("g", reports, {}, [], STRATEGIES).queues] == [
        queue("a", 0),
        queue("b", 0),
        queue("b", 1),
    ]


def test_the_newest_version_counts_and_modes_are_put_together() -> None:
    old = MemberAssignment(version=5, queues=(Q0, Q1))
    new = {
        "c1": MemberAssignment(version=7, queues=(Q0, POPPED), popped={"u": 2}),
        "c2": MemberAssignment(version=7, queues=(Q1, MessageQueue("u", "a", 0)), popped={"u": 2}),
    }
    info = newest_assignment(
        [
            ("a", 5, [[["c1", *old.to_wire()]], [["u", "POP", 2]]]),
            ("b", 7, [[[client_id, *share.to_wire()] for client_id, share in new.items()], [["t", "PULL", -1]]]),
            ("c", 0, [[], []]),
        ]
    )
    assert (info.coordinator, info.version, info.members) == ("b", 7, new)
    assert [(each.topic, each.mode) for each in info.modes] == [("t", RequestMode.PULL), ("u", RequestMode.POP)]
    assert info.targets() == {Q0: "c1", Q1: "c2"}
    assert info.popped == {"u"}


def test_no_one_has_made_one() -> None:
    assert newest_assignment([]) == NO_ASSIGNMENT
    assert newest_assignment([("a", 0, [[], []])]) == NO_ASSIGNMENT
