"""When a pass runs, what its target is, and which way leads there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from client.allocate import AllocateMessageQueueAveragely
from client.rebalance.plan import Plan, StrategyError, allocate_target, plan_rebalance
from model.errors import UsageError
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue

AVG = AllocateMessageQueueAveragely()
A = [MessageQueue("a", "broker", i) for i in range(4)]
B = [MessageQueue("b", "broker", i) for i in range(2)]
VIEW = GroupView(group="g", version=3, members={"m1": ("a",), "m2": ("a", "b"), "m3": ("b",)})


class FakeStrategy:
    """Returns or raises what it is given."""

    name = "FAKE"

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome  # type: ignore[return-value]


# --- the plan --------------------------------------------------------------------------------------------------------
def test_a_plan_sorts_queues_into_revoke_keep_and_acquire() -> None:
    assert plan_rebalance([A[3], A[1], A[0]], [A[2], A[0], B[0]]) == Plan(
        revoke=(A[1], A[3]), keep=(A[0],), acquire=(A[2], B[0])
    )


def test_a_plan_for_a_balanced_member_keeps_everything() -> None:
    assert plan_rebalance(reversed(A), A) == Plan(revoke=(), keep=tuple(A), acquire=())


# --- the target ------------------------------------------------------------------------------------------------------
def test_each_topic_is_shared_among_the_members_that_subscribe_to_it() -> None:
    queues_of = {"a": A, "b": B}
    targets = {
        cid: allocate_target(AVG, "g", cid, MessageModel.CLUSTERING, topics, queues_of, VIEW)
        for cid, topics in VIEW.members.items()
    }
    assert targets == {"m1": A[:2], "m2": A[2:] + B[:1], "m3": B[1:]}


def test_queues_are_sorted_before_the_strategy_sees_them() -> None:
    queues_of = {"a": A[::-1]}
    assert allocate_target(AVG, "g", "m1", MessageModel.CLUSTERING, ["a"], queues_of, VIEW) == A[:2]


def test_broadcasting_owns_every_queue_and_asks_no_strategy() -> None:
    strategy = FakeStrategy(RuntimeError("must not be asked"))
    target = allocate_target(strategy, "g", "m", MessageModel.BROADCASTING, ["b", "a"], {"a": A, "b": B}, None)
    assert target == B + A


def test_a_topic_without_queues_gives_nothing_and_asks_no_strategy() -> None:
    strategy = FakeStrategy(RuntimeError("must not be asked"))
    assert allocate_target(strategy, "g", "m1", MessageModel.CLUSTERING, ["a", "x"], {"a": []}, VIEW) == []


def test_a_group_without_members_gives_nothing_and_asks_no_strategy() -> None:
    strategy = FakeStrategy(RuntimeError("must not be asked"))
    empty = GroupView(group="g", version=1, members={})
    assert allocate_target(strategy, "g", "m1", MessageModel.CLUSTERING, ["a"], {"a": A}, empty) == []


def test_clustering_without_a_view_is_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="group g"):
        allocate_target(AVG, "g", "m1", MessageModel.CLUSTERING, ["a"], {"a": A}, None)


@pytest.mark.parametrize(
    ("outcome", "offence"),
    [
        (KeyError("oops"), "raised KeyError('oops') for 4 queues, 2 members"),
        (None, "raised TypeError"),
        ([A[0], B[0]], "returned MessageQueue(topic='b', broker_name='broker', queue_id=0) which it was not given"),
        ([A[1], A[0], A[1]], "returned MessageQueue(topic='a', broker_name='broker', queue_id=1) twice"),
        ([("a", "broker", 0)], "returned ('a', 'broker', 0) which it was not given"),
        ([["a"]], "returned ['a'] which it was not given"),
    ],
)
def test_a_strategy_that_misbehaves_is_named_with_its_topic_and_offence(outcome: object, offence: str) -> None:
    with pytest.raises(StrategyError) as caught:
        allocate_target(FakeStrategy(outcome), "g", "m1", MessageModel.CLUSTERING, ["a"], {"a": A}, VIEW)
    assert str(caught.value).startswith(f"strategy FAKE of group g, topic a: {offence}")
    assert isinstance(caught.value, UsageError)


def test_what_a_strategy_raised_is_chained() -> None:
    cause = KeyError("oops")
    with pytest.raises(StrategyError) as caught:
        allocate_target(FakeStrategy(cause), "g", "m1", MessageModel.CLUSTERING, ["a"], {"a": A}, VIEW)
    assert caught.value.__cause__ is cause


class FakeGroupStrategy(FakeStrategy):
    """Is asked for all topics at once; `allocate` must not be called."""

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> list[MessageQueue]:
        raise AssertionError("asked topic by topic")

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: Mapping[str, Sequence[MessageQueue]],
        topics_of: Mapping[str, Collection[str]],
    ) -> list[MessageQueue]:
        self.asked = (consumer_group, current_cid, dict(queues_of), dict(topics_of))
        return super().allocate(consumer_group, current_cid, [], [])


def test_a_group_wide_strategy_is_asked_once_with_all_topics_of_all_members() -> None:
    strategy = FakeGroupStrategy([B[1], A[3], B[0]])
    target = allocate_target(
        strategy, "g", "m2", MessageModel.CLUSTERING, ["a", "b"], {"b": B[::-1], "a": A, "x": []}, VIEW
    )
    assert target == [A[3], B[1], B[0]]
    assert strategy.asked == ("g", "m2", {"b": B, "a": A}, VIEW.members)


def test_a_group_wide_strategy_may_give_a_member_only_queues_of_its_topics_and_none_twice() -> None:
    for outcome, offence in [
        ([A[0], B[0]], "returned MessageQueue(topic='b', broker_name='broker', queue_id=0) which it was not given"),
        ([A[0], A[0]], "returned MessageQueue(topic='a', broker_name='broker', queue_id=0) twice"),
        (KeyError("oops"), "raised KeyError('oops') for 4 queues, 3 members"),
    ]:
        with pytest.raises(StrategyError) as caught:
            allocate_target(
                FakeGroupStrategy(outcome), "g", "m1", MessageModel.CLUSTERING, ["a"], {"a": A, "b": B}, VIEW
            )
        assert str(caught.value) == f"strategy FAKE of group g, all topics: {offence}"


def test_of_a_topic_that_was_abandoned_since_the_view_nothing_is_wanted() -> None:
    strategy = FakeGroupStrategy([A[0], B[0]])
    assert allocate_target(strategy, "g", "m2", MessageModel.CLUSTERING, ["a"], {"a": A, "b": B}, VIEW) == [A[0]]


def test_a_group_wide_strategy_is_not_asked_when_there_is_nothing_to_have() -> None:
    strategy = FakeGroupStrategy(RuntimeError("must not be asked"))
    for client_id, queues_of in [("m1", {"b": B}), ("stranger", {"a": A})]:
        assert allocate_target(strategy, "g", client_id, MessageModel.CLUSTERING, ["a"], queues_of, VIEW) == []


class ConsumingStrategy:
    """Works on the very lists and mappings it is given: takes out what it returns, or puts in what it wants to have."""

    name = "CONSUMING"

    def __init__(self, wanted: MessageQueue | None = None) -> None:
        self.wanted = wanted

    def allocate(
        self, consumer_group: str, current_cid: str, mq_all: list[MessageQueue], cid_all: list[str]
    ) -> list[MessageQueue]:
        cid_all.clear()
        if self.wanted is not None:
            mq_all.append(self.wanted)
            return mq_all[-1:]
        return [mq_all.pop(), mq_all.pop()]


class ConsumingGroupStrategy(ConsumingStrategy):
    """The same for all topics at once."""

    def allocate_group(
        self,
        consumer_group: str,
        current_cid: str,
        queues_of: dict[str, list[MessageQueue]],
        topics_of: dict[str, tuple[str, ...]],
    ) -> list[MessageQueue]:
        topics = topics_of.pop(current_cid)
        return self.allocate(consumer_group, current_cid, queues_of.pop(topics[0]), [*topics_of])


@pytest.mark.parametrize("kind", [ConsumingStrategy, ConsumingGroupStrategy])
def test_a_strategy_may_use_up_what_it_is_given_and_no_one_else_misses_it(kind: type[ConsumingStrategy]) -> None:
    strategy: Any = kind()
    view = GroupView(group="g", version=3, members=dict(VIEW.members))
    queues_of = {"a": list(A), "b": list(B)}
    for _ in range(2):
        assert allocate_target(strategy, "g", "m1", MessageModel.CLUSTERING, ["a"], queues_of, view) == [A[3], A[2]]
    assert (view, view.members_of("a"), queues_of) == (VIEW, ["m1", "m2"], {"a": A, "b": B})


@pytest.mark.parametrize("kind", [ConsumingStrategy, ConsumingGroupStrategy])
def test_a_queue_that_a_strategy_put_in_itself_was_not_given_to_it(kind: type[ConsumingStrategy]) -> None:
    strategy: Any = kind(B[0])
    with pytest.raises(StrategyError, match=r"topic='b'.* which it was not given"):
        allocate_target(strategy, "g", "m1", MessageModel.CLUSTERING, ["a"], {"a": A, "b": B}, VIEW)
