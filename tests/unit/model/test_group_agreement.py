"""What members of a group contradict each other in is found, told in a bounded line, and counted as they come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.group_agreement import SettingsTally, describe, disagreements
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, MessageModel
from model.subscription import SubscriptionData


def member(
    strategy: str = "AVG",
    model: MessageModel = MessageModel.CLUSTERING,
    consume_type: ConsumeType = ConsumeType.PASSIVELY,
    **filters: str,
) -> ConsumerData:
    return ConsumerData(
        group="g",
        consume_type=consume_type,
        model=model,
        consume_from=ConsumeFrom.LAST_OFFSET,
        strategy=strategy,
        subscriptions=tuple(SubscriptionData(topic, filters[topic]) for topic in sorted(filters)),
        session_timeout_s=30.0,
    )


def found(**members: ConsumerData) -> list[str]:
    return [str(each) for each in disagreements(members)]


def test_members_that_say_the_same_agree_and_so_does_no_one() -> None:
    assert found(A=member(t="red || blue"), B=member(t="blue||red")) == []
    assert found(A=member()) == found() == []


def test_members_with_different_topics_agree() -> None:
    assert found(A=member(a="*", b="*"), B=member(b="*", c="red")) == []


def test_strategies_models_and_filters_that_differ_are_named_with_who_says_what_most_said_first() -> None:
    assert found(A=member(t="*"), B=member("CIRCLE", t="red"), C=member("CIRCLE", t="*"), D=member("CIRCLE")) == [
        "filter of t: * (A, C), red (B)",
        "strategy: CIRCLE (B, C, D), AVG (A)",
    ]
    assert found(A=member(), B=member(model=MessageModel.BROADCASTING)) == ["model: BROADCASTING (B), CLUSTERING (A)"]


def test_a_member_that_is_served_by_pop_contradicts_one_that_holds_queues() -> None:
    pulls, polls, pops = (
        member(consume_type=each) for each in (ConsumeType.PASSIVELY, ConsumeType.ACTIVELY, ConsumeType.POP)
    )
    assert found(A=pulls, B=polls) == []
    assert found(A=pulls, B=pops) == ["delivery: POP (B), PULL (A)"]


def test_broadcasting_members_may_filter_as_they_like() -> None:
    everybody, some = (member(model=MessageModel.BROADCASTING, t=tags) for tags in ("*", "red"))
    assert found(A=everybody, B=some, C=replace(some, strategy="CIRCLE")) == []


def test_a_line_reports_what_comes_of_it() -> None:
    both = {"A": member(t="*"), "B": member("CIRCLE", t="red")}
    assert describe(disagreements(both)) == (
        "filter of t: * (A), red (B): a message that only some members want is skipped where another one has its "
        "queue; strategy: AVG (A), CIRCLE (B): no member consumes some of the queues"
    )
    assert describe([]) == ""


def test_members_that_leave_it_to_a_broker_beside_others_leave_no_queue_lying() -> None:
    (mixed,) = disagreements({"A": member("BROKER"), "B": member("AVG"), "C": member("AVG")})
    assert mixed.consequence.startswith("the broker assigns all queues and its members get those that no other")


def test_a_line_stays_short_however_much_is_wrong() -> None:
    def loud(number: int) -> ConsumerData:
        topics = tuple(SubscriptionData(f"t{topic:04}", f"tag{number}" * 100) for topic in range(50))
        return replace(member("s" * 250 + str(number)), subscriptions=topics)

    line = describe(disagreements({f"{'c' * 250}@{number}": loud(number % 40) for number in range(400)}))
    assert line.endswith("and 48 more")
    assert len(line) < 12_000
    assert "and 7 more), " in line
    assert "and 36 more: a message" in line


data = st.builds(
    member,
    strategy=st.sampled_from(["AVG", "CIRCLE"]),
    model=st.sampled_from(MessageModel),
    consume_type=st.sampled_from(ConsumeType),
    a=st.sampled_from(["*", "x", "x||y", "y || x"]),
    b=st.sampled_from(["*", "x"]),
)


@given(st.lists(st.tuples(st.sampled_from("ABCD"), st.none() | data), max_size=30))
def test_the_tally_splits_where_the_members_disagree(steps: list[tuple[str, ConsumerData | None]]) -> None:
    tally, members = SettingsTally(), dict[str, ConsumerData]()
    for client_id, now in steps:
        before = members.pop(client_id, None)
        if before is not None:
            tally.remove(before)
        if now is not None:
            members[client_id] = now
            tally.add(now)
        expected = tuple(
            (each.what, tuple(sorted(side.value for side in each.sides))) for each in disagreements(members)
        )
        assert tally.split() == expected
        for model in MessageModel:
            assert tally.has("model", model.value) == any(each.model is model for each in members.values())
    for left in members.values():
        tally.remove(left)
    assert (tally.split(), tally._counts) == ((), {})


@pytest.mark.parametrize("count", [2, 5])
def test_the_split_is_the_same_when_more_members_take_the_same_sides(count: int) -> None:
    tally = SettingsTally()
    for number in range(2 * count):
        tally.add(member("AVG" if number % 2 else "CIRCLE"))
    assert tally.split() == (("strategy", ("AVG", "CIRCLE")),)
