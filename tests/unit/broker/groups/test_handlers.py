"""Membership over the wire: who is told of what, when, and in how many bytes."""

from __future__ import annotations

import msgpack
import pytest

from model.errors import InvalidParameter, SystemBusy
from model.events import EventKind
from model.grpc_limits import MAX_GRPC_CLIENTS
from model.heartbeat import MessageModel
from model.limits import LEASE_CLOSE_GRACE_S, NOTIFY_WINDOW_S
from model.quirks import Quirk
from model.subscription import SubscriptionData
from remoting.codec import CODEC
from remoting.command import RESPONSE
from remoting.request_code import RequestCode
from tests.unit.broker.harness import LATENCY_S, Peer, World, consumer, simulated, unpacked

JOINS_AND_LEAVES = (EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE)


async def group_of(world: World, *hosts: str, **options: object) -> list[Peer]:
    """Start a broker with members of `g` on these hosts, all of whom have been told everything."""
    await world.start_broker(**options)
    peers = [world.peer(host) for host in hosts]
    for peer in peers:
        await peer.heartbeat(consumer(session_timeout_s=20.0))
    await world.sleep(1)
    for peer in peers:
        peer.pushes.clear()
    world.events.clear()
    return peers


# --- joining ---------------------------------------------------------------------------------------------------------
@simulated
async def test_a_heartbeat_answers_with_version_and_age_of_each_group(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    joined_ms = world.simulation.clock_ms()
    groups = await a.heartbeat(consumer("g"), consumer("h"))
    assert list(groups) == ["g", "h"]
    for version, created_ms, joined in groups.values():
        assert version == created_ms + 1
        assert 0 <= created_ms - joined_ms <= 5
        assert joined
    again = await a.heartbeat(consumer("g"), consumer("h"))
    assert again == {group: [*answer[:2], False] for group, answer in groups.items()}


@simulated
async def test_everyone_is_notified_of_a_new_member_and_a_repeated_heartbeat_notifies_no_one(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    c = world.peer("c")
    groups = await c.heartbeat(consumer())
    version = groups["g"][0]
    await world.sleep(1)
    assert [peer.versions() for peer in (a, b, c)] == [[version], [version], [version]]
    await c.heartbeat(consumer())
    await world.sleep(1)
    assert a.versions() == [version]


@simulated
async def test_a_notification_names_the_event_that_it_goes_back_to(world: World) -> None:
    [a] = await group_of(world, "a")
    b = world.peer("b")
    await b.heartbeat(consumer(), cause="b@1/1")
    [reported] = a.pushed(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    assert (reported["group"], reported["cause"]) == ("g", "b@1/1")
    c = world.peer("c")
    await c.heartbeat(consumer("h"))
    [join] = [event for event in world.of_kind(EventKind.MEMBER_JOIN) if event.group == "h"]
    [reported] = c.pushed(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    assert reported["cause"] == join.cause == join.id


@simulated
async def test_a_notification_brings_what_changed_since_the_last_one(world: World) -> None:
    a, *_ = await group_of(world, "a", "b", "c", "d")
    await world.sleep(1)
    e = world.peer("e")
    await e.heartbeat(consumer())
    before, reported = a.notifications()[-2:]
    version = reported.header["version"]
    assert reported.header["since"] == before.header["version"]
    assert unpacked(reported) == [version, 5, [[["t"], [e.client_id]]], []]
    await world.sleep(1)
    await e.unregister("g")
    assert unpacked(a.notifications()[-1]) == [version + 1, 4, [], [e.client_id]]


@simulated
async def test_the_first_notification_of_a_group_brings_nothing(world: World) -> None:
    [a] = await group_of(world, "a")
    [reported] = a.notifications()
    assert "since" not in reported.header
    assert not reported.body


@simulated
async def test_a_heartbeat_over_a_new_connection_replaces_the_old_one_and_notifies_no_one(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    twin = world.peer("a2")
    twin.client_id = a.client_id
    await twin.heartbeat(consumer(session_timeout_s=20.0))
    assert await b.members() == [a.client_id, b.client_id]
    await a.close()
    await world.sleep(1)
    assert await b.members() == [a.client_id, b.client_id]
    assert (b.versions(), world.of_kind(*JOINS_AND_LEAVES)) == ([], [])
    await b.unregister("g")
    await world.sleep(1)
    assert len(twin.versions()) == 1


@simulated
async def test_the_first_heartbeat_makes_the_retry_topic_of_its_group(world: World) -> None:
    broker = await world.start_broker()
    await world.peer("a").heartbeat(consumer())
    config = broker.topics.table.existing("%RETRY%g").config
    assert (config.read_queue_nums, config.write_queue_nums) == (1, 1)


@simulated
async def test_a_changed_subscription_is_reported_and_a_changed_expression_only_noted(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    before = (await a.heartbeat(consumer(session_timeout_s=20.0)))["g"][0]
    changed = await a.heartbeat(consumer("g", "t", "u", session_timeout_s=20.0))
    assert changed["g"][0] == before + 1
    await world.sleep(1)
    assert b.versions() == [before + 1]
    red = (SubscriptionData("t", "red", 1), SubscriptionData("u"))
    same = await a.heartbeat(consumer(subscriptions=red, session_timeout_s=20.0))
    await world.sleep(1)
    assert (same["g"][0], b.versions()) == (before + 1, [before + 1])
    assert [event.detail for event in world.of_kind(EventKind.SUBSCRIPTION_CHANGE)] == ["t=* u=*", "t=red u=*"]


@simulated
async def test_a_group_that_was_deleted_leaves_no_list_of_members_to_its_next_one(world: World) -> None:
    await world.start_broker(clock_ms=lambda: 1_000.0)  # the next one begins with the same version
    a, b = world.peer("a"), world.peer("b")
    first = await a.heartbeat(consumer())
    assert await a.members() == [a.client_id]
    await a.unregister("g")
    await a.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"group": "g"})
    assert await b.heartbeat(consumer()) == first
    assert await b.members() == [b.client_id]


@simulated
async def test_members_of_a_broadcasting_group_are_notified_nothing(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    for peer in (a, b):
        await peer.heartbeat(consumer(model=MessageModel.BROADCASTING))
    await world.sleep(1)
    assert (a.pushes, b.pushes) == ([], [])
    assert await a.members() == [a.client_id, b.client_id]


# --- leaving ---------------------------------------------------------------------------------------------------------
@simulated
async def test_a_member_that_unregisters_is_gone_at_once_and_the_others_are_notified(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    left_at = world.now
    await a.unregister("g")
    assert await b.members() == [b.client_id]
    assert [moment for moment, _, _ in b.pushes] == [left_at + 2 * LATENCY_S]
    [leave] = world.of_kind(EventKind.MEMBER_LEAVE)
    assert (leave.client, leave.detail, leave.n) == (a.client_id, "unregister", 1)


@simulated
async def test_a_member_whose_connection_closes_is_gone_after_a_grace_and_the_others_are_notified_then(
    world: World,
) -> None:
    a, b = await group_of(world, "a", "b")
    cut_at = world.now
    world.simulation.network.cut("a")
    await world.sleep(1)
    assert [moment for moment, _, _ in b.pushes] == [pytest.approx(cut_at + LEASE_CLOSE_GRACE_S + LATENCY_S)]
    assert [event.detail for event in world.of_kind(EventKind.MEMBER_LEAVE)] == ["close"]
    assert a.remoting.connected("10.0.0.1:10911") is None


@simulated
async def test_a_silent_member_is_gone_at_its_expiry_and_the_others_are_notified_then_and_not_later(
    world: World,
) -> None:
    a, b = await group_of(world, "a", "b")
    sent_at = world.now
    await a.heartbeat(consumer(session_timeout_s=20.0))
    world.simulation.network.stall("a")
    await world.sleep(10)
    await b.heartbeat(consumer(session_timeout_s=20.0))
    await world.sleep(11)
    assert [moment for moment, _, _ in b.pushes] == [sent_at + LATENCY_S + 20 + LATENCY_S]
    assert [event.detail for event in world.of_kind(EventKind.MEMBER_LEAVE)] == ["expiry"]
    assert await b.members() == [b.client_id]


@simulated
async def test_under_the_quirk_a_silent_member_is_gone_and_no_one_is_notified(world: World) -> None:
    a, b = await group_of(world, "a", "b", quirks=frozenset({Quirk.SILENT_EXPIRY}))
    world.simulation.network.stall("a")
    await world.sleep(10)
    await b.heartbeat(consumer(session_timeout_s=20.0))
    await world.sleep(11)
    assert (await b.members(), b.versions()) == ([b.client_id], [])
    await b.unregister("g")
    assert [event.detail for event in world.of_kind(EventKind.MEMBER_LEAVE)] == ["expiry", "unregister"]
    assert a.versions() == []


@simulated
async def test_anyone_who_leaves_a_group_that_it_is_not_in_changes_nothing(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    await world.peer("c").unregister("g", "nowhere")
    await world.sleep(1)
    assert (a.pushes, b.pushes, world.events) == ([], [], [])


@pytest.mark.parametrize("groups", [[1], [["g"]], ["g", None]])
@simulated
async def test_a_malformed_farewell_is_refused(world: World, groups: list[object]) -> None:
    [a] = await group_of(world, "a")
    header = {"client_id": a.client_id, "groups": groups}
    with pytest.raises(InvalidParameter, match="'groups'"):
        await a.call(RequestCode.UNREGISTER_CLIENT, header)


# --- how often -------------------------------------------------------------------------------------------------------
@simulated
async def test_many_joins_at_once_are_reported_at_the_first_one_and_when_they_pause(world: World) -> None:
    [a] = await group_of(world, "a")
    began = world.now
    for n in range(50):
        await world.peer(f"joiner{n}").heartbeat(consumer())  # each takes two round trips: about 4 ms
    last = world.now
    await world.sleep(1)
    moments = [moment for moment, _, _ in a.pushes]
    assert moments == pytest.approx([began + 4 * LATENCY_S, last + NOTIFY_WINDOW_S / 2])
    assert a.versions()[-1] == (await a.heartbeat(consumer()))["g"][0]
    sent = world.of_kind(EventKind.NOTIFY_SENT)
    assert len(sent) == len(moments)
    assert sent[-1].n == 51


@simulated
async def test_the_groups_before_a_refused_one_are_notified_all_the_same(world: World) -> None:
    [a] = await group_of(world, "a")
    b = world.peer("b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker.groups.capacity.MAX_GROUPS", 1)
        with pytest.raises(SystemBusy, match="1 groups"):
            await b.heartbeat(consumer("g"), consumer("h"))
    await world.sleep(1)
    assert len(a.versions()) == 1
    assert await a.members() == [a.client_id, b.client_id]


@simulated
async def test_a_member_that_is_refused_a_retry_topic_has_not_joined(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker.topics.table.MAX_TOPICS", 2)
        with pytest.raises(SystemBusy, match="2 topics"):
            await a.heartbeat(consumer())
    assert await a.members() == []
    groups = await a.heartbeat(consumer())
    assert await a.members() == [a.client_id]
    await world.sleep(1)
    assert a.versions() == [groups["g"][0]]


@simulated
async def test_a_notification_has_no_version_under_its_quirk(world: World) -> None:
    a, b = await group_of(world, "a", "b", quirks=frozenset({Quirk.NOTIFY_WITHOUT_VERSION}))
    await a.unregister("g")
    await world.sleep(1)
    assert b.versions() == [-1]


# --- the member list -------------------------------------------------------------------------------------------------
@simulated
async def test_the_member_list_names_everyone_with_his_topics(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await b.heartbeat(consumer("g", "u", "t"))
    groups = await a.heartbeat(consumer("g", "v"))
    answer = await a.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": "g", "known_version": -1})
    version, members = unpacked(answer)
    assert answer.header["version"] == version == groups["g"][0]
    assert members == [[["v"], [a.client_id]], [["t", "u"], [b.client_id]]]


@simulated
async def test_a_list_that_has_not_changed_costs_a_few_bytes(world: World) -> None:
    await world.start_broker()
    peers = [world.peer(f"a-host-with-a-long-name-{n}") for n in range(100)]
    for peer in peers:
        await peer.heartbeat(consumer())
    version = (await peers[0].heartbeat(consumer()))["g"][0]
    answer = await peers[0].call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": "g", "known_version": version})
    frame = CODEC.encode(RESPONSE, answer.code, answer.opaque, answer.header, answer.body)
    assert len(frame) < 64
    for known in (version - 1, version + 1):
        answer = await peers[0].call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": "g", "known_version": known})
        ((_, client_ids),) = unpacked(answer)[1]
        assert len(client_ids) == 100


@simulated
async def test_the_list_is_encoded_again_when_the_group_has_changed(world: World) -> None:
    a, b = await group_of(world, "a", "b")
    assert await a.members() == [a.client_id, b.client_id]
    await b.unregister("g")
    assert await a.members() == [a.client_id]


@simulated
async def test_an_unknown_group_has_no_members_and_an_illegal_name_is_refused(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    assert await a.members("nobody") == []
    with pytest.raises(InvalidParameter, match="group name"):
        await a.members("no group")


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93", msgpack.packb([]), msgpack.packb({"client_id": "a"})])
@simulated
async def test_a_malformed_heartbeat_is_refused_and_the_connection_goes_on(world: World, body: bytes) -> None:
    await world.start_broker()
    a = world.peer("a")
    with pytest.raises(InvalidParameter):
        await a.call(RequestCode.HEART_BEAT, {}, body)
    await a.heartbeat(consumer())
    assert await a.members() == [a.client_id]


@simulated
async def test_clients_that_share_a_connection_are_kept_side_by_side_and_leave_with_it(world: World) -> None:
    await world.start_broker()
    peer = world.peer("a")
    for name in ("one", "two"):
        peer.client_id = name
        await peer.heartbeat(producer_groups=("p", name), checkers=("p", name))
    groups = world.broker.groups
    assert {client.client_id: client.checkers for client in groups.clients.values()} == {
        "one": ("p", "one"),
        "two": ("p", "two"),
    }
    assert len(groups.checkers["p"]) == 2
    peer.client_id = "one"
    await peer.heartbeat()
    assert sorted(groups.checkers) == ["p", "two"]
    await peer.close()
    await world.sleep(0.1)
    assert (groups.clients, groups.checkers) == ({}, {})


@simulated
async def test_of_too_many_clients_on_a_connection_the_one_with_the_oldest_heartbeat_is_forgotten(world: World) -> None:
    await world.start_broker()
    peer = world.peer("a")
    for n in range(MAX_GRPC_CLIENTS + 1):
        peer.client_id = f"c{n}"
        await peer.heartbeat(producer_groups=("p",), checkers=("p",))
    groups = world.broker.groups
    kept = {client.client_id for client in groups.clients.values()}
    assert kept == {f"c{n}" for n in range(MAX_GRPC_CLIENTS + 1)} - {"c1"}
    assert len(groups.checkers["p"]) == MAX_GRPC_CLIENTS
