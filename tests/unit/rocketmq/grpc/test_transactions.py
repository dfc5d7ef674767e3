"""Transactions of producers over gRPC: half messages, ends, checks, and who is asked."""

from __future__ import annotations

from typing import Any

from model.events import EventKind
from remoting.request_code import RequestCode
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, to_duration
from testbed.load.grpc import GrpcAnswer
from tests.unit.broker.harness import Peer, World, simulated, unpacked
from tests.unit.broker.transactions.test_checks import asked, join
from tests.unit.broker.transactions.test_service import COMMIT, DONE, end, half, stored
from tests.unit.rocketmq.grpc.grpc_client import GrpcClient, message_of, received, send_of


async def begin(world: World) -> tuple[GrpcClient, Peer]:
    await world.start_broker()
    ours = world.peer("a")
    await ours.put_topic("t", read=1, write=1)
    return await GrpcClient.connect(world), ours


async def send_half(client: GrpcClient, message_id: str, client_id: str = "stock@1", **more: Any) -> str:
    """Send a half message; returns the id of its transaction."""
    system = {"message_type": proto.TRANSACTION, "message_id": message_id, **more}
    sent = send_of(message_of(message_id.encode(), properties={"mine": "x"}, **system))
    [answer] = await client.call("SendMessage", sent, client_id=client_id)
    assert answer.status.code == proto.OK, answer.status
    [entry] = answer.entries
    assert (entry.message_id, entry.status.code) == (message_id, proto.OK)
    return str(entry.transaction_id)


def end_of(transaction_id: str, message_id: str, resolution: int, **more: Any) -> Any:
    named = {"topic": MESSAGES["Resource"](name="t"), "transaction_id": transaction_id, "message_id": message_id}
    return MESSAGES["EndTransactionRequest"](**{**named, "resolution": resolution, **more})


async def ended(client: GrpcClient, *named: Any, client_id: str = "stock@1", **more: Any) -> Any:
    """The status of an end."""
    [answer] = await client.call("EndTransaction", end_of(*named, **more), client_id=client_id)
    return answer.status


async def publishing(
    world: World, client: GrpcClient, client_id: str, topics: tuple[str, ...] = ("t",)
) -> tuple[int, GrpcAnswer]:
    """Open the stream of a producer, and send its settings."""
    named = [MESSAGES["Resource"](name=each) for each in topics]
    settings = MESSAGES["Settings"](client_type=proto.PRODUCER, publishing=MESSAGES["Publishing"](topics=named))
    number = client.open("Telemetry", client_id)
    answer = client.say(number, MESSAGES["TelemetryCommand"](settings=settings), end=False)
    await world.sleep(0.1)
    assert MESSAGES["TelemetryCommand"].FromString(answer.messages[0]).status.code == proto.OK
    return number, answer


def checks(answer: GrpcAnswer) -> list[Any]:
    """The checks that have come over a stream."""
    commands = [MESSAGES["TelemetryCommand"].FromString(each) for each in answer.messages]
    return [
        each.recover_orphaned_transaction_command
        for each in commands
        if each.HasField("recover_orphaned_transaction_command")
    ]


@simulated
async def test_a_half_message_is_published_by_its_commit_and_never_by_a_rollback(world: World) -> None:
    client, ours = await begin(world)
    await received(client, poll_ms=0)
    x, y = await send_half(client, "01X", tag="red"), await send_half(client, "01Y")
    assert await stored(ours) == []
    assert (await ended(client, y, "01Y", proto.ROLLBACK)).code == proto.OK
    assert (await ended(client, x, "01X", proto.COMMIT)).code == proto.OK
    [message] = await received(client)
    assert (message.body, message.system_properties.tag) == (b"01X", "red")
    assert (message.system_properties.message_id, dict(message.user_properties)) == ("01X", {"mine": "x"})
    assert len(world.broker.transactions.table) == 0


@simulated
async def test_an_end_that_is_repeated_because_its_answer_was_lost_changes_nothing(world: World) -> None:
    client, ours = await begin(world)
    x = await send_half(client, "01X")
    for resolution in (proto.COMMIT, proto.COMMIT, proto.ROLLBACK):
        assert (await ended(client, x, "01X", resolution)).code == proto.OK
    assert len(await stored(ours)) == 1


@simulated
async def test_an_end_that_names_no_half_message_of_this_broker_is_refused(world: World) -> None:
    client, ours = await begin(world)
    x = await send_half(client, "01X")
    beyond = "AQAAAAAAAAPoYnJva2VyLWE="  # offset 1000
    for transaction, message_id, code in (
        (x, "01Y", proto.INVALID_TRANSACTION_ID),
        (x, "", proto.ILLEGAL_MESSAGE_ID),
        ("", "01X", proto.INVALID_TRANSACTION_ID),
        (beyond, "01X", proto.INVALID_TRANSACTION_ID),
    ):
        status = await ended(client, transaction, message_id, proto.COMMIT)
        assert (status.code, bool(status.message)) == (code, True), (transaction, message_id, status)
    other = await ended(client, x, "01X", proto.COMMIT, topic=MESSAGES["Resource"](name="u"))
    assert other.code == proto.INVALID_TRANSACTION_ID
    assert await stored(ours) == []
    assert (await ended(client, x, "01X", proto.COMMIT)).code == proto.OK


@simulated
async def test_the_id_of_a_transaction_outlives_a_restart_of_the_broker(world: World) -> None:
    client, _ = await begin(world)
    x = await send_half(client, "01X")
    await world.stop_broker()
    await world.start_broker()
    client = await GrpcClient.connect(world)
    assert (await ended(client, x, "01X", proto.COMMIT)).code == proto.OK
    assert len(await stored(world.peer("b"))) == 1


@simulated
async def test_a_transaction_that_stays_open_is_checked_over_the_stream_and_the_answer_ends_it(world: World) -> None:
    client, ours = await begin(world)
    _, answer = await publishing(world, client, "stock@1")
    x = await send_half(client, "01X", tag="red", orphaned_transaction_recovery_duration=to_duration(2_000))
    assert (await ended(client, x, "01X", 0)).code == proto.OK
    await world.sleep(1.9)
    assert checks(answer) == []
    await world.sleep(0.2)
    [check] = checks(answer)
    system = check.message.system_properties
    assert (check.transaction_id, check.message.body, check.message.topic.name) == (x, b"01X", "t")
    assert (system.message_id, system.tag, system.message_type) == ("01X", "red", proto.TRANSACTION)
    assert system.body_digest.checksum
    assert dict(check.message.user_properties) == {"mine": "x"}
    await world.sleep(30)
    assert len(checks(answer)) == 2, "an end without a decision left it open"
    answered = await ended(client, x, "01X", proto.COMMIT, source=proto.SERVER_CHECK)
    assert (answered.code, len(await stored(ours))) == (proto.OK, 1)
    assert not any(world.broker.transactions.unanswered.values())


@simulated
async def test_the_half_message_of_a_producer_that_is_gone_is_checked_at_another_producer_of_the_topic(
    world: World,
) -> None:
    client, _ = await begin(world)
    await publishing(world, client, "stock@1")
    other = await GrpcClient.connect(world, "other")
    _, of_another_topic = await publishing(world, other, "other@1", ("u",))
    _, of_the_topic = await publishing(world, other, "other@2", ("u", "t"))
    x = await send_half(client, "01X")
    client.close()
    await world.sleep(7)
    assert checks(of_another_topic) == []
    [check] = checks(of_the_topic)
    assert (check.transaction_id, check.message.body) == (x, b"01X")


@simulated
async def test_clients_that_share_a_connection_are_each_asked_about_their_own_half_messages(world: World) -> None:
    client, _ = await begin(world)
    streams = {name: (await publishing(world, client, name))[1] for name in ("one", "two")}
    sent = {name: await send_half(client, f"01{name}", name) for name in streams}
    heartbeat = MESSAGES["HeartbeatRequest"](group=MESSAGES["Resource"](name="g"), client_type=proto.SIMPLE_CONSUMER)
    await received(client, "three", poll_ms=0)
    await client.call("Heartbeat", heartbeat, client_id="three")
    await world.sleep(7)
    assert {name: [check.transaction_id for check in checks(answer)] for name, answer in streams.items()} == {
        name: [transaction] for name, transaction in sent.items()
    }
    by_client = {event.client: event.offset for event in world.events if event.kind == EventKind.TRANSACTION_CHECKED}
    assert by_client == {"one": 0, "two": 1}


@simulated
async def test_a_producer_whose_stream_has_ended_is_not_asked(world: World) -> None:
    client, _ = await begin(world)
    number, gone = await publishing(world, client, "stock@1")
    await send_half(client, "01X")
    client.cancel(number)
    await world.sleep(60)
    assert checks(gone) == []
    assert world.broker.transactions.table.waiting() == {"t": 1}, "no check was used up"
    _, again = await publishing(world, client, "stock@1")
    await world.sleep(0.1)
    assert len(checks(again)) == 1


@simulated
async def test_a_producer_that_named_no_topics_is_asked_about_those_of_its_half_messages(world: World) -> None:
    client, _ = await begin(world)
    _, answer = await publishing(world, client, "stock@1", ())
    await send_half(client, "01X")
    await world.sleep(7)
    assert len(checks(answer)) == 1
    found = await world.peer("admin").call(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"group": "t"})
    members, halves, n_open = unpacked(found)
    assert ([row[0] for row in members], [row[0] for row in halves], n_open) == (["stock@1"], ["01X"], 1)


@simulated
async def test_a_producer_that_says_goodbye_is_in_no_group(world: World) -> None:
    client, _ = await begin(world)
    await publishing(world, client, "stock@1")
    assert list(world.broker.groups.checkers) == ["t"]
    await client.one("NotifyClientTermination", MESSAGES["NotifyClientTerminationRequest"]())
    assert world.broker.groups.checkers == {}


@simulated
async def test_producers_of_both_kinds_answer_for_each_other(world: World) -> None:
    client, ours = await begin(world)
    _, answer = await publishing(world, client, "stock@1")
    await join(ours, "t")
    await send_half(client, "01X")
    offset = await half(ours, "y", group="t")
    await world.sleep(7)
    assert ([check.message.body for check in checks(answer)], asked(ours)) == ([b"01X"], [(offset, 1)])
    await world.sleep(30)
    [_, of_ours] = checks(answer)
    assert asked(ours) == [(offset, 1), (0, 2)]
    assert await end(ours, (0, "01X", COMMIT), group="t") == [DONE]
    assert (await ended(client, of_ours.transaction_id, "y", proto.COMMIT)).code == proto.OK
    assert len(await stored(ours)) == 2


@simulated
async def test_several_half_messages_of_a_send_have_a_transaction_each_and_no_other_message_with_them(
    world: World,
) -> None:
    client, ours = await begin(world)
    halves = [message_of(b"m", message_id=f"0{n}", message_type=proto.TRANSACTION) for n in range(3)]
    answer = await client.one("SendMessage", send_of(*halves))
    ids = [entry.transaction_id for entry in answer.entries]
    assert len(set(ids)) == 3
    assert (await ended(client, ids[1], "01", proto.COMMIT)).code == proto.OK
    assert len(await stored(ours)) == 1
    mixed = await client.one("SendMessage", send_of(halves[0], message_of()))
    assert (mixed.status.code, "sent by themselves" in mixed.status.message) == (proto.BAD_REQUEST, True)
