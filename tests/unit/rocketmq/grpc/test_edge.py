"""One connection of gRPC clients: calls, refusals of the edge itself, several clients, hostile peers."""

from __future__ import annotations

import pytest
from h2.settings import SettingCodes

from remoting.overload.peer_memory import PeerMemory
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES
from testbed.load.grpc import GrpcAnswer
from tests.unit.broker.harness import ROUND_TRIP_S, World, simulated
from tests.unit.rocketmq.grpc.grpc_client import (
    GrpcClient,
    message_of,
    read,
    receive_of,
    received,
    send_of,
    with_messages,
)


async def connected(world: World) -> GrpcClient:
    await world.start_broker()
    await world.peer("a").put_topic("t", read=1, write=1)
    return await GrpcClient.connect(world)


@simulated
async def test_an_rpc_that_is_not_served_is_refused_by_its_name(world: World) -> None:
    client = await connected(world)
    _, answer = client.begin("PullMessage", b"")
    await answer.ended
    assert answer.status == "12"
    assert answer.text.startswith("PullMessage is not served here: a broker serves QueryRoute, Telemetry")
    assert (await client.send()).status.code == proto.OK


@simulated
async def test_a_message_that_is_not_one_fails_its_call_alone(world: World) -> None:
    client = await connected(world)
    _, answer = client.begin("SendMessage", b"\xff\xff")
    await answer.ended
    assert (answer.status, "no SendMessageRequest" in answer.text) == ("13", True)
    assert (await client.send()).status.code == proto.OK


@simulated
async def test_a_call_takes_exactly_one_message(world: World) -> None:
    client = await connected(world)
    number = client.open("SendMessage")
    client.say(number, send_of(message_of()), end=False)
    answer = client.say(number, send_of(message_of()))
    await answer.ended
    assert (answer.status, answer.text) == ("13", "SendMessage takes one message, and 2 came")


@simulated
async def test_a_client_without_an_id_is_asked_for_it(world: World) -> None:
    client = await connected(world)
    [answer] = await client.call("SendMessage", send_of(message_of()), client_id="")
    assert answer.status.code == proto.CLIENT_ID_REQUIRED


@simulated
async def test_many_calls_at_a_time_are_each_answered(world: World) -> None:
    client = await connected(world)
    calls = [client.begin("SendMessage", send_of(message_of(message_id=f"{n:04}"))) for n in range(100)]
    for n, (_, answer) in enumerate(calls):
        await answer.ended
        [entry] = MESSAGES["SendMessageResponse"].FromString(answer.messages[0]).entries
        assert entry.message_id == f"{n:04}"


@simulated
async def test_garbage_is_answered_with_the_reason_and_the_connection_is_closed(world: World) -> None:
    client = await connected(world)
    await client.send()
    client.write(b"\xff" * 64)
    await client.closed
    assert client.goaway == "a frame of 16777215 bytes was announced, more than the 16384 allowed"


@simulated
async def test_a_flood_of_resets_is_cut_off_and_others_are_served(world: World) -> None:
    client, other = await connected(world), await GrpcClient.connect(world, "other")
    for _ in range(200):
        number, _ = client.begin("SendMessage", send_of(message_of()))
        client.cancel(number)
    await client.closed
    assert "more calls were reset than answered" in (client.goaway or "")
    assert (await other.send()).status.code == proto.OK


@simulated
async def test_a_flood_of_pings_is_cut_off(world: World) -> None:
    client = await connected(world)
    for _ in range(2_000):
        client.h2.ping(b"12345678")
    client.flush()
    await client.closed
    assert "frames without a call are too many" in (client.goaway or "")


@simulated
async def test_a_message_that_stops_in_its_middle_is_dropped_in_time(world: World) -> None:
    client = await connected(world)
    number = client.open("SendMessage")
    client.h2.send_data(number, b"\0\0\0\x10\0half")
    client.flush()
    began = world.now
    await client.closed
    assert world.now - began == pytest.approx(30, abs=1)


@simulated
async def test_calls_whose_messages_stop_are_dropped_although_others_go_on(world: World) -> None:
    client = await connected(world)
    settings = MESSAGES["TelemetryCommand"](settings=MESSAGES["Settings"](client_type=proto.PRODUCER))
    stream = client.say(client.open("Telemetry"), settings, end=False)
    silent, half = client.open("SendMessage"), client.open("SendMessage")
    client.h2.send_data(half, b"\0\0\0\x10\0half")
    began = world.now
    answers = [client.answer_of(silent), client.answer_of(half)]
    while not all(answer.status for answer in answers):
        await client.send()
        await world.sleep(1)
    assert 30 <= world.now - began <= 41
    assert [(answer.status, answer.text) for answer in answers] == [("4", "its message was not whole within 30 s")] * 2
    await world.sleep(3_600)
    assert not stream.status, "a stream may wait"


@simulated
async def test_answers_that_wait_for_windows_count_as_unread_and_the_slowest_reader_is_cut_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PeerMemory.__init__, "__defaults__", (100_000,))
    client, peer = await with_messages(world, 0), world.peer("a")
    for n in range(8):
        await client.send(bytes(20_000), message_id=f"1{n}")
    slow, other = await GrpcClient.connect(world, "slow"), await GrpcClient.connect(world, "other")
    slow.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    slow.flush()
    slow.begin("ReceiveMessage", receive_of(n=4))
    await world.sleep(1)
    assert not slow.closed.done()
    await received(other, n=2)
    slow.begin("ReceiveMessage", receive_of(n=4, poll_ms=0), client_id="stock@2")
    await world.sleep(1)
    assert slow.closed.done()
    assert not other.closed.done()
    assert peer.commands == []


@simulated
async def test_a_call_over_a_replaced_connection_needs_no_settings(world: World) -> None:
    client = await connected(world)
    client.close()
    again = await GrpcClient.connect(world)
    assert (await again.send()).status.code == proto.OK


# --- lifecycle --------------------------------------------------------------------------------------------------------


@simulated
async def test_a_server_that_stops_answers_receives_that_wait_as_empty_and_ends_streams(world: World) -> None:
    client = await connected(world)
    settings = MESSAGES["Settings"](client_type=proto.PRODUCER)
    stream = client.say(client.open("Telemetry"), MESSAGES["TelemetryCommand"](settings=settings), end=False)
    _, waiting = client.begin("ReceiveMessage", receive_of(poll_ms=20_000))
    await world.sleep(1)
    began = world.now
    await world.stop_broker()
    assert world.now - began == pytest.approx(2 * ROUND_TRIP_S, abs=ROUND_TRIP_S), "the client closed at once"
    [answer] = read(waiting)
    assert (waiting.status, answer.status.code) == ("0", proto.MESSAGE_NOT_FOUND)
    assert (stream.status, len(stream.messages)) == ("0", 1)
    assert client.goaway == "the server stops: call another one, or this one when it is back"
    assert client.closed.done()


@simulated
async def test_a_call_that_comes_after_the_end_was_announced_is_refused_before_anything_is_done(world: World) -> None:
    client = await connected(world)
    await client.send(b"first")
    late: list[GrpcAnswer] = []

    def call() -> None:
        assert client.goaway is None
        late.append(client.begin("SendMessage", send_of(message_of(b"late")))[1])

    world.simulation.loop.call_soon(call)
    await world.stop_broker()
    await late[0].ended
    assert late[0].status == "", "so a client makes the call again elsewhere"
    await world.start_broker()
    again = await GrpcClient.connect(world)
    assert (await again.send(b"second")).entries[0].offset == 1


@simulated
async def test_a_client_that_does_not_close_delays_the_stop_by_the_grace_alone(world: World) -> None:
    client = await connected(world)
    await client.send()
    hung = world.simulation.network.stall("stock")
    began = world.now
    await world.stop_broker()
    assert world.now - began == pytest.approx(1, abs=0.1)
    hung.heal()
    await client.closed


@simulated
async def test_the_connection_of_a_client_that_hangs_is_closed_after_a_ping(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connected(world)
    await client.send()
    began = world.now
    hung = world.simulation.network.stall("stock")
    while "nothing arrived within 20 s after a PING" not in caplog.text:
        await world.sleep(1)
    assert 30 <= world.now - began <= 42
    hung.heal()
    await client.closed


@simulated
async def test_a_client_that_only_acknowledges_pings_stays_connected(world: World) -> None:
    client = await connected(world)
    await client.send()
    await world.sleep(4 * 3_600)  # more PINGs than frames without a call are allowed
    assert not client.closed.done()
    await client.send()
