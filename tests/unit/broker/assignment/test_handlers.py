"""A broker shares the queues of a group out: who is told, what is stored, and who is refused."""

from __future__ import annotations

from typing import Any

import pytest

from broker.assignment import group_assignments
from model.assignment import ALL_QUEUES, BROKER_STRATEGY, AssignmentQuery, MemberAssignment
from model.errors import GroupNotExist, IllegalOperation, InvalidParameter, SystemBusy, SystemError_, TopicNotExist
from model.events import EventKind
from model.heartbeat import MessageModel
from model.limits import NOTIFY_WINDOW_S
from model.message_queue import MessageQueue
from remoting.request_code import RequestCode
from tests.unit.broker.harness import Peer, World, consumer, simulated, unpacked

QUEUES = tuple(MessageQueue("t", "broker-a", number) for number in range(4))
NOTHING = MemberAssignment(version=0, queues=())


async def join(peer: Peer, **changes: Any) -> None:
    await peer.heartbeat(consumer(**{"strategy": BROKER_STRATEGY, **changes}))


async def ask(peer: Peer, known: MemberAssignment = NOTHING, queues: int = 4) -> MemberAssignment | dict[str, Any]:
    """The share; or the header of an answer without one."""
    asked = AssignmentQuery(
        version=known.version, queues=known.queues, popped=known.popped, routes={"t": (("broker-a", queues),)}
    )
    header = {"group": "g", "client_id": peer.client_id, "version": known.version}
    answer = await peer.call(RequestCode.QUERY_ASSIGNMENT, header, asked.to_wire())
    return answer.header if not answer.body else MemberAssignment.from_wire(answer.header["version"], unpacked(answer))


async def share_of(peer: Peer, known: MemberAssignment = NOTHING, queues: int = 4) -> MemberAssignment:
    share = await ask(peer, known, queues)
    assert isinstance(share, MemberAssignment), share
    return share


async def set_mode(peer: Peer, mode: str, share: int = -1, topic: str = "t") -> None:
    header = {"group": "g", "topic": topic, "mode": mode, "pop_share_queue_num": share}
    await peer.call(RequestCode.SET_MESSAGE_REQUEST_MODE, header)


@simulated
async def test_members_have_all_queues_between_them_and_move_what_a_new_member_needs(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await join(a)
    alone = await share_of(a)
    assert alone.queues == QUEUES
    assert (await ask(a, alone))["unchanged"]  # type: ignore[index]
    await join(b)
    of_a, of_b = await share_of(a, alone), await share_of(b)
    assert of_a.version == of_b.version > alone.version
    assert sorted(of_a.queues + of_b.queues) == list(QUEUES)
    made = world.of_kind(EventKind.ASSIGNMENT_MADE)
    assert [(event.version, event.n) for event in made] == [(alone.version, 0), (of_a.version, 2)]


@simulated
async def test_anyone_who_waited_is_notified_when_there_is_an_assignment(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await join(a)
    await join(b)
    assert (await ask(a))["wait"]  # type: ignore[index]
    await world.sleep(NOTIFY_WINDOW_S * 2)
    reported = len(a.versions())
    assert len((await share_of(b)).queues) == 2
    await world.sleep(NOTIFY_WINDOW_S * 2)
    assert len(a.versions()) > reported
    assert len((await share_of(a)).queues) == 2


@simulated
async def test_a_new_queue_that_one_member_sees_is_reported_to_the_others(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await join(a)
    await join(b)
    await ask(a)
    of_b = await share_of(b)
    await world.sleep(1)
    reported = len(b.versions())
    await share_of(a, queues=6)
    await world.sleep(1)
    assert len(b.versions()) > reported
    assert (await share_of(b, of_b)).version > of_b.version


@simulated
async def test_only_members_that_leave_it_to_the_broker_are_answered(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    with pytest.raises(GroupNotExist):
        await ask(a)
    await a.heartbeat(consumer())
    with pytest.raises(IllegalOperation, match="has the strategy AVG"):
        await ask(a)
    await a.heartbeat(consumer(strategy=BROKER_STRATEGY, model=MessageModel.BROADCASTING))
    with pytest.raises(IllegalOperation):
        await ask(a)
    await join(a)
    header = {"group": "g", "client_id": a.client_id, "version": 0}
    for body in (b"", b"\xc1", [1, 2]):
        with pytest.raises(InvalidParameter):
            await a.call(RequestCode.QUERY_ASSIGNMENT, header, body)


@simulated
async def test_others_with_a_strategy_of_their_own_are_given_nothing(world: World) -> None:
    await world.start_broker()
    a, b = world.peer("a"), world.peer("b")
    await join(a)
    await b.heartbeat(consumer())
    assert (await share_of(a)).queues == QUEUES


@simulated
async def test_a_mode_is_reported_at_once_and_outlives_a_restart_but_not_the_group(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await join(a)
    pulled = await share_of(a)
    await world.sleep(1)
    reported = len(a.versions())
    await set_mode(a, "POP")
    await world.sleep(1)
    assert len(a.versions()) == reported + 1
    popped = await share_of(a, pulled)
    assert popped.queues == (MessageQueue("t", "broker-a", ALL_QUEUES),)
    assert popped.popped == {"t": -1}
    await set_mode(a, "POP")
    await world.sleep(1)
    assert len(a.versions()) == reported + 1, "nothing changed"
    await world.stop_broker()
    await world.start_broker()
    await world.sleep(1)
    await join(a)
    assert (await share_of(a, popped)).popped == {"t": -1}
    await a.unregister("g")
    await a.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"group": "g"})
    await world.stop_broker()
    broker = await world.start_broker()
    assert broker.assignment.assignments.modes_of("g") == {}


@simulated
async def test_an_operator_sees_the_assignment_and_the_modes(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    with pytest.raises(GroupNotExist):
        await a.call(RequestCode.GET_GROUP_ASSIGNMENT, {"group": "g"})
    await set_mode(a, "PULL", 3)
    await join(a)
    share = await share_of(a)
    answer = await a.call(RequestCode.GET_GROUP_ASSIGNMENT, {"group": "g"})
    assert answer.header["version"] == share.version
    assert unpacked(answer) == [[[a.client_id, *share.to_wire()]], [["t", "PULL", 3]]]


@simulated
async def test_a_mode_that_is_none_and_that_of_a_retry_topic_are_refused(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    with pytest.raises(InvalidParameter, match="PULL or POP"):
        await set_mode(a, "PUSH")
    with pytest.raises(IllegalOperation, match="retry topic"):
        await set_mode(a, "POP", topic="%RETRY%g")


@simulated
async def test_modes_are_bounded_and_those_of_a_group_that_never_was_go_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_assignments, "MAX_REQUEST_MODES", 2)
    broker = await world.start_broker()
    a = world.peer("a")
    await set_mode(a, "POP", topic="t")
    await set_mode(a, "POP", topic="u")
    with pytest.raises(SystemBusy, match="delete groups"):
        await set_mode(a, "POP", topic="v")
    await set_mode(a, "PULL", topic="u")
    assert list(broker.assignment.assignments.modes_of("g")) == ["t", "u"]
    await a.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"group": "g"})
    await set_mode(a, "POP", topic="v")
    assert list(broker.assignment.assignments.modes_of("g")) == ["v"]


@simulated
async def test_nothing_is_remembered_of_a_group_that_everyone_left(world: World) -> None:
    broker = await world.start_broker()
    a = world.peer("a")
    await join(a)
    await share_of(a)
    await a.unregister("g")
    assert broker.assignment.assignments.assignments_of("g") == (0, {})


async def of_topic(peer: Peer, topic: str = "t", strategy: str = "AVG") -> tuple[str, list[int]]:
    header = {"group": "g", "client_id": peer.client_id, "topic": topic, "strategy": strategy}
    answer = await peer.call(RequestCode.QUERY_TOPIC_ASSIGNMENT, header)
    assert {name for name, _ in unpacked(answer)} <= {"broker-a"}
    return answer.header["mode"], [queue_id for _, queue_id in unpacked(answer)]


@simulated
async def test_the_queues_of_one_topic_are_computed_from_the_route_for_members_that_want_it(world: World) -> None:
    await world.start_broker(name_servers=(await world.start_name_server(),))
    a, b, other = world.peer("a"), world.peer("b"), world.peer("other")
    await a.put_topic("t", read=5)
    with pytest.raises(GroupNotExist):
        await of_topic(a)
    for peer in (a, b):
        await peer.heartbeat(consumer())
    await other.heartbeat(consumer("g", "another"))
    await world.sleep(0.1)  # the name server has heard of the topic
    assert [await of_topic(peer) for peer in (a, b)] == [("PULL", [0, 1, 2]), ("PULL", [3, 4])]
    assert await of_topic(b, strategy="AVG_BY_CIRCLE") == ("PULL", [1, 3])
    await set_mode(a, "POP")
    assert await of_topic(b) == ("POP", [ALL_QUEUES])
    with pytest.raises(GroupNotExist, match="not a member of group 'g' that subscribes to 't'"):
        await of_topic(other)
    with pytest.raises(TopicNotExist):
        await of_topic(other, "another")


@simulated
async def test_a_broker_without_name_servers_cannot_say_the_queues_of_a_topic(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    await join(a)
    with pytest.raises(SystemError_, match="no name server to ask"):
        await of_topic(a)
