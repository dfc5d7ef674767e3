"""Laws of the target that an observer computes: it is what the members themselves come to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.admin.expected_owners import compute_expected_owners
from client.admin.records import GroupMemberInfo
from client.allocate.registry import BUILT_IN_STRATEGIES, strategy_named
from model.heartbeat import ConsumeType, GroupView, MessageModel
from model.subscription import SubscriptionData
from model.topic_route import READ_WRITE, BrokerData, QueueData, TopicRoute

TOPICS = ("t", "u")
clients = st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=6).map(sorted)
subscriptions = st.lists(st.sampled_from(TOPICS), unique=True, min_size=1).map(sorted)


def route(topic: str, queues: dict[str, int]) -> TopicRoute:
    return TopicRoute(
        topic=topic,
        queues=tuple(
            QueueData(broker_name=name, read_queue_nums=n, write_queue_nums=n, perm=READ_WRITE)
            for name, n in sorted(queues.items())
        ),
        brokers=tuple(BrokerData(cluster="c", broker_name=name, addresses={0: f"{name}:1"}) for name in sorted(queues)),
    )


routes = st.dictionaries(st.sampled_from("ab"), st.integers(1, 5), min_size=1)


@given(
    ids=clients,
    wanted=st.lists(subscriptions, min_size=6, max_size=6),
    queues=st.fixed_dictionaries({topic: routes for topic in TOPICS}),
    strategy=st.sampled_from(sorted(BUILT_IN_STRATEGIES)),
)
def test_when_all_see_one_view_each_queue_of_a_wanted_topic_has_one_target_that_wants_it(
    ids: list[str], wanted: list[list[str]], queues: dict[str, dict[str, int]], strategy: str
) -> None:
    topics_of = dict(zip(ids, wanted, strict=False))
    members = [
        GroupMemberInfo(
            client_id=client_id,
            address="",
            subscriptions=tuple(SubscriptionData(topic) for topic in topics),
            strategy=strategy,
            model=MessageModel.CLUSTERING,
            consume_type=ConsumeType.PASSIVELY,
            expires_in_s=1.0,
            queues=(),
            brokers=("a", "b"),
        )
        for client_id, topics in topics_of.items()
    ]
    view = GroupView(group="g", version=1, members={cid: tuple(topics) for cid, topics in topics_of.items()})
    made = {topic: route(topic, queues[topic]) for topic in TOPICS}

    target = compute_expected_owners("g", members, made, {"a": view, "b": view}, {strategy: strategy_named(strategy)})

    consumed = {topic for topics in topics_of.values() for topic in topics}
    assert sorted(target) == sorted(queue for topic in consumed for queue in made[topic].subscribe_queues())
    for queue, targets in target.items():
        assert len(targets) == 1
        assert queue.topic in topics_of[targets[0]]
