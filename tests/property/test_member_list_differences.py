"""Member lists that are brought up to date by differences, against whole lists, while members come, change and go."""

from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from broker.groups.table import GroupTable
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, GroupView, MessageModel
from model.limits import MAX_MEMBER_CHANGES
from model.subscription import make_subscription

GROUP = "g"
clients = st.sampled_from([f"c{number}" for number in range(12)])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), clients, st.sets(st.sampled_from("tuv"), min_size=1)),
        st.tuples(st.just("leave"), clients, st.just(set[str]())),
        st.tuples(st.just("ask"), st.sampled_from(["often", "seldom"]), st.just(set[str]())),
    ),
    max_size=60,
)


def consumer_data(topics: set[str], version: int) -> ConsumerData:
    return ConsumerData(
        group=GROUP,
        consume_type=ConsumeType.PASSIVELY,
        model=MessageModel.CLUSTERING,
        consume_from=ConsumeFrom.LAST_OFFSET,
        strategy="AVG",
        session_timeout_s=100.0,
        subscriptions=tuple(make_subscription(topic, "*", version) for topic in sorted(topics)),
    )


def test_a_version_that_the_broker_does_not_remember_gets_the_whole_list() -> None:
    table = GroupTable()
    for number in range(MAX_MEMBER_CHANGES + 2):
        table.heartbeat(f"c{number:06}", consumer_data({"t"}, 1), connection=number, cause="", now=0.0, now_ms=0)
    info = table.get(GROUP)
    assert info is not None
    assert info.changed_since(1) is None
    assert info.changed_since(info.version - 3) == [f"c{MAX_MEMBER_CHANGES + n:06}" for n in (-1, 0, 1)]
    assert info.changed_since(info.version) is None
    assert info.changed_since(info.version + 1) is None


@given(steps)
def test_a_list_brought_up_to_date_by_differences_is_the_list_of_the_broker(
    program: list[tuple[str, str, set[str]]],
) -> None:
    table = GroupTable()
    known: dict[str, GroupView] = {}
    for number, (verb, who, topics) in enumerate(program):
        if verb == "beat":
            table.heartbeat(who, consumer_data(topics, number), connection=number, cause="", now=0.0, now_ms=0)
        elif verb == "leave":
            table.unregister(GROUP, who, cause="", now=0.0)
        elif (info := table.get(GROUP)) is not None:
            old = known.get(who)
            changed = None if old is None else info.changed_since(old.version)
            if old is None or changed is None:
                new: GroupView | None = GroupView.from_wire(
                    GROUP, msgpack.unpackb(msgpack.packb(info.view().to_wire()))
                )
            else:
                new = old.changed(msgpack.unpackb(msgpack.packb(info.view().difference(changed))))
            assert new == info.view()
            assert list(new.members) == sorted(new.members)
            known[who] = new
