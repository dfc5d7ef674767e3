"""Heartbeats and group views: nothing is lost on the wire, and no peer can crash a broker with one."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, GroupView, HeartbeatData, MessageModel
from model.limits import MAX_FIELD_CHARS, MAX_GROUPS_OF_CLIENT, MAX_SUBSCRIPTIONS_PER_MEMBER
from model.names import retry_topic
from model.subscription import SubscriptionData

CONSUMER = ConsumerData(
    group="g",
    consume_type=ConsumeType.PASSIVELY,
    model=MessageModel.CLUSTERING,
    consume_from=ConsumeFrom.TIMESTAMP,
    strategy="AVG",
    subscriptions=(SubscriptionData("orders", "a||b", 3), SubscriptionData("%RETRY%g")),
    session_timeout_s=120.0,
    consume_timestamp_ms=1_700_000_000_000,
    group_created_ms=1_600_000_000_000,
)
HEARTBEAT = HeartbeatData(
    client_id="10.0.0.5@1", consumers=(CONSUMER,), producer_groups=("p",), cause="10.0.0.5@1/7", run_id="7f"
)


def over_the_wire(value: Any) -> Any:
    """What the peer gets."""
    return msgpack.unpackb(msgpack.packb(value), strict_map_key=False)


def wire_of(heartbeat: HeartbeatData) -> dict[str, Any]:
    """A body that a test may damage."""
    wire: dict[str, Any] = over_the_wire(heartbeat.to_wire())
    return wire


def test_a_heartbeat_survives_the_wire_with_its_subscriptions_sorted() -> None:
    by_topic = tuple(sorted(CONSUMER.subscriptions, key=lambda subscription: subscription.topic))
    assert by_topic != CONSUMER.subscriptions
    expected = replace(HEARTBEAT, consumers=(replace(CONSUMER, subscriptions=by_topic),))
    assert HeartbeatData.from_wire(wire_of(HEARTBEAT)) == expected
    assert HeartbeatData.from_wire(wire_of(expected)) == expected


def test_the_flat_form_keeps_its_length_and_added_fields_survive_the_wire_and_the_table_of_members() -> None:
    away = replace(CONSUMER, subscriptions=(SubscriptionData("t"),), suspended=True, rejoin_within_s=5.0)
    wire = wire_of(replace(HEARTBEAT, consumers=(away,)))
    assert len(wire["consumers"][0]) == 9
    assert HeartbeatData.from_wire(wire).consumers == (away,)
    assert ConsumerData.from_stored(over_the_wire(away.to_stored())) == away


def test_a_member_without_added_fields_is_stored_in_the_form_of_the_first_brokers() -> None:
    plain = replace(CONSUMER, subscriptions=(SubscriptionData("t"),))
    assert plain.to_stored() == plain.to_wire()
    assert ConsumerData.from_stored(plain.to_wire()) == plain


def test_a_heartbeat_of_a_newer_client_with_fields_that_are_not_known_here_is_read() -> None:
    wire = wire_of(HEARTBEAT)
    known = HeartbeatData.from_wire(wire)
    assert HeartbeatData.from_wire({**wire, "added": {"g": {"weight": 3}}, "mood": "good"}) == known


def test_a_heartbeat_of_an_older_client_has_no_added_fields() -> None:
    wire = wire_of(replace(HEARTBEAT, consumers=(replace(CONSUMER, suspended=True),)))
    del wire["added"]
    assert not HeartbeatData.from_wire(wire).consumers[0].suspended


def test_a_heartbeat_without_a_run_id_is_that_of_a_client_that_has_none() -> None:
    wire = wire_of(HEARTBEAT)
    del wire["epoch"]
    assert HeartbeatData.from_wire(wire).run_id == ""


def test_of_a_cause_that_is_longer_than_a_text_of_a_header_the_begin_is_kept() -> None:
    heartbeat = HeartbeatData.from_wire(wire_of(HEARTBEAT) | {"cause": "x" * 1_000_000})
    assert heartbeat.cause == "x" * MAX_FIELD_CHARS


def test_a_heartbeat_without_groups_is_that_of_a_bare_client() -> None:
    bare = HeartbeatData(client_id="c", consumers=())
    assert HeartbeatData.from_wire(wire_of(bare)) == bare


@pytest.mark.parametrize("name", ["client_id", "producers", "consumers"])
def test_a_heartbeat_without_a_part_is_refused(name: str) -> None:
    wire = wire_of(HEARTBEAT)
    del wire[name]
    with pytest.raises(InvalidParameter, match=name):
        HeartbeatData.from_wire(wire)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client_id", "a b"),
        ("client_id", 5),
        ("epoch", "a b"),
        ("epoch", 5),
        ("epoch", "e" * 256),
        ("producers", ["a b"]),
        ("producers", None),
        ("consumers", [[]]),
        ("added", []),
        ("added", {"g": None}),
        ("added", {"g": {"rejoin_within_s": -1}}),
    ],
)
def test_a_heartbeat_with_a_wrong_part_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidParameter):
        HeartbeatData.from_wire({**wire_of(HEARTBEAT), name: value})


@pytest.mark.parametrize("session_timeout_s", [0.1, 3600])
def test_a_session_timeout_is_allowed_up_to_its_limits(session_timeout_s: float) -> None:
    heartbeat = replace(HEARTBEAT, consumers=(replace(CONSUMER, session_timeout_s=session_timeout_s),))
    assert HeartbeatData.from_wire(wire_of(heartbeat)).consumers[0].session_timeout_s == session_timeout_s


@pytest.mark.parametrize("session_timeout_s", [0.0, 0.09, 3600.1, -1.0, float("nan"), float("inf")])
def test_a_session_timeout_out_of_range_is_refused(session_timeout_s: float) -> None:
    heartbeat = replace(HEARTBEAT, consumers=(replace(CONSUMER, session_timeout_s=session_timeout_s),))
    with pytest.raises(InvalidParameter, match=r"must be 0\.1 to 3600 s"):
        HeartbeatData.from_wire(wire_of(heartbeat))


def test_subscriptions_are_allowed_up_to_the_limit() -> None:
    def heartbeat_with(count: int) -> dict[str, Any]:
        subscriptions = tuple(SubscriptionData(f"t{number:05}") for number in range(count))
        return wire_of(replace(HEARTBEAT, consumers=(replace(CONSUMER, subscriptions=subscriptions),)))

    at_limit = HeartbeatData.from_wire(heartbeat_with(MAX_SUBSCRIPTIONS_PER_MEMBER))
    assert len(at_limit.consumers[0].subscriptions) == MAX_SUBSCRIPTIONS_PER_MEMBER
    with pytest.raises(InvalidParameter, match=f"{MAX_SUBSCRIPTIONS_PER_MEMBER + 1} subscriptions"):
        HeartbeatData.from_wire(heartbeat_with(MAX_SUBSCRIPTIONS_PER_MEMBER + 1))
    # No user has subscribed to the retry topic of the group itself.
    of_user = at_limit.consumers[0].subscriptions
    for topic, is_own in ((retry_topic(CONSUMER.group), True), (retry_topic("other"), False)):
        consumer = replace(CONSUMER, subscriptions=(*of_user, SubscriptionData(topic)))
        with nullcontext() if is_own else pytest.raises(InvalidParameter, match="subscriptions, more than"):
            HeartbeatData.from_wire(wire_of(replace(HEARTBEAT, consumers=(consumer,))))


@pytest.mark.parametrize("part", ["producers", "checkers", "consumers"])
def test_groups_of_a_client_are_allowed_up_to_the_limit(part: str) -> None:
    wire = wire_of(replace(HEARTBEAT, consumers=()))
    names = [f"g{number}" for number in range(MAX_GROUPS_OF_CLIENT + 1)]
    rows = [replace(CONSUMER, group=name).to_wire() for name in names] if part == "consumers" else names
    HeartbeatData.from_wire(wire | {part: rows[:-1]})
    with pytest.raises(InvalidParameter, match=f"has {MAX_GROUPS_OF_CLIENT + 1} {part}, more than"):
        HeartbeatData.from_wire(wire | {part: rows})


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, -1, 1.5, True, "1"])
@pytest.mark.parametrize("place", ["consume_timestamp_ms", "group_created_ms", "version"])
def test_a_number_that_no_table_can_store_is_refused_by_name(place: str, value: Any) -> None:
    wire = wire_of(HEARTBEAT)
    *_, topics = consumer = wire["consumers"][0]
    if place == "version":
        topics[0][2] = value
    else:
        consumer[consumer.index(getattr(CONSUMER, place))] = value
    with pytest.raises(InvalidParameter, match=f"{place} of a heartbeat must be a whole number"):
        HeartbeatData.from_wire(wire)


def test_the_largest_number_that_a_table_can_store_is_read() -> None:
    largest = replace(CONSUMER, consume_timestamp_ms=2**63 - 1, group_created_ms=0)
    assert HeartbeatData.from_wire(wire_of(replace(HEARTBEAT, consumers=(largest,)))).consumers[0] == replace(
        largest, subscriptions=tuple(sorted(largest.subscriptions, key=lambda each: each.topic))
    )


@pytest.mark.parametrize(
    "change",
    [{"group": "DEFAULT_CONSUMER"}, {"group": "a b"}, {"subscriptions": (SubscriptionData("t", "||"),)}],
)
def test_a_group_with_an_illegal_name_or_expression_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        HeartbeatData.from_wire(wire_of(replace(HEARTBEAT, consumers=(replace(CONSUMER, **change),))))


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def damaged(wire: Any, path: list[int], value: Any) -> Any:
    """The body with one value somewhere inside replaced."""
    if not path or not isinstance(wire, list | dict) or not wire:
        return value
    keys = list(wire) if isinstance(wire, dict) else list(range(len(wire)))
    chosen = keys[path[0] % len(keys)]
    copy = wire.copy()
    copy[chosen] = damaged(wire[chosen], path[1:], value)
    return copy


@given(st.lists(st.integers(0, 9), max_size=5), anything)
def test_a_heartbeat_that_is_damaged_anywhere_is_read_or_refused(path: list[int], value: object) -> None:
    with suppress(InvalidParameter):
        HeartbeatData.from_wire(damaged(wire_of(HEARTBEAT), path, value))


VIEW = GroupView(group="g", version=9, members={"c1": ("a", "b"), "c2": ("b",), "c3": ()})


def test_a_view_survives_the_wire() -> None:
    read = GroupView.from_wire("g", over_the_wire(VIEW.to_wire()))
    assert read == VIEW
    assert list(read.members) == ["c1", "c2", "c3"]


def test_members_are_sorted_however_their_topics_group_them() -> None:
    topics_of: dict[str, tuple[str, ...]] = {"c1": ("a",), "c2": ("b",), "c3": ("a",), "c4": ("b",)}
    view = GroupView(group="g", version=9, members=topics_of, copies={"c2": 2})
    assert view.to_wire()[1] == [[["a"], ["c1", "c3"]], [["b"], ["c2", "c2", "c4"]]]
    read = GroupView.from_wire("g", over_the_wire(view.to_wire()))
    assert read == view
    assert list(read.members) == ["c1", "c2", "c3", "c4"]


def test_a_difference_that_does_not_lead_to_the_list_of_the_broker_is_refused() -> None:
    old = GroupView(group="g", version=9, members={"c1": ("a",)})
    new = GroupView(group="g", version=11, members={"c1": ("a",), "c2": ("a",), "c3": ("a",)})
    assert old.changed(over_the_wire(new.difference(["c2", "c3"]))) == new
    assert old.changed(over_the_wire(new.difference(["c3"]))) is None


def test_a_view_of_no_one_survives_the_wire() -> None:
    no_member = GroupView(group="g", version=0, members={})
    assert GroupView.from_wire("g", over_the_wire(no_member.to_wire())) == no_member


def test_a_client_id_that_is_listed_twice_counts_twice() -> None:
    view = GroupView(group="g", version=9, members={"c1": ("a",), "c2": ("a",)}, copies={"c1": 2})
    assert view.to_wire()[1] == [[["a"], ["c1", "c1", "c2"]]]
    assert GroupView.from_wire("g", over_the_wire(view.to_wire())) == view
    assert view.members_of("a") == ["c1", "c1", "c2"]


def test_a_strategy_is_named_in_so_many_characters() -> None:
    longest = replace(HEARTBEAT, consumers=(replace(CONSUMER, strategy="s" * 255),))
    assert HeartbeatData.from_wire(wire_of(longest)).consumers[0].strategy == "s" * 255
    with pytest.raises(InvalidParameter, match="strategy of group 'g' has a name of 256 characters"):
        HeartbeatData.from_wire(wire_of(replace(HEARTBEAT, consumers=(replace(CONSUMER, strategy="s" * 256),))))


def test_a_topic_is_shared_by_the_members_that_subscribe_to_it() -> None:
    assert [VIEW.members_of(topic) for topic in ("a", "b", "x")] == [["c1"], ["c1", "c2"], []]


def test_the_members_of_a_topic_are_the_callers_to_change() -> None:
    view = GroupView(group="g", version=1, members={"a": ("t",), "b": ("t", "u")})
    view.members_of("t").reverse()
    assert view.members_of("t") == ["a", "b"]
    assert view == GroupView(group="g", version=1, members={"a": ("t",), "b": ("t", "u")})
