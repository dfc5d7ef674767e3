"""Settings, heartbeats and farewells."""

from __future__ import annotations

import json
from typing import Any

import pytest

from model.grpc_limits import MAX_GRPC_CLIENTS
from model.limits import MAX_BODY_BYTES
from model.response_code import ResponseCode
from remoting.request_code import RequestCode
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, duration_ms
from rocketmq.message import Host, offset_message_id
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.grpc.grpc_client import GROUP, GrpcClient, bodies, received, with_messages
from tests.unit.rocketmq.stock_client import StockClient, messages_of


def producer_settings() -> Any:
    topics = [MESSAGES["Resource"](name="t")]
    return MESSAGES["Settings"](client_type=proto.PRODUCER, publishing=MESSAGES["Publishing"](topics=topics))


def last_of(messages: list[bytes]) -> Any:
    return MESSAGES["TelemetryCommand"].FromString(messages[-1])


@simulated
async def test_a_producer_gets_the_settings_without_which_stock_clients_fail(world: World) -> None:
    await world.start_broker()
    client = await GrpcClient.connect(world)
    number = client.open("Telemetry")
    command = MESSAGES["TelemetryCommand"](settings=producer_settings())
    client.say(number, command, end=False)
    await world.sleep(300)  # then a client sends them again, over the same stream
    answer = client.say(number, command, end=False)
    await world.sleep(1)
    assert len(answer.messages) == 2
    found = last_of(answer.messages)
    assert found.status.code == proto.OK
    settings = found.settings
    assert settings.client_type == proto.PRODUCER
    assert settings.publishing.max_body_size == MAX_BODY_BYTES
    assert settings.publishing.validate_message_type
    assert [topic.name for topic in settings.publishing.topics] == ["t"]
    backoff = settings.backoff_policy
    assert backoff.max_attempts == 3
    exponential = backoff.exponential_backoff
    assert [duration_ms(exponential.initial), duration_ms(exponential.max)] == [10, 1_000]
    assert settings.HasField("metric")
    client.h2.end_stream(number)
    client.flush()
    await answer.ended
    assert answer.status == "0"


def consumer_settings(kind: int = proto.PUSH_CONSUMER) -> Any:
    entry = MESSAGES["SubscriptionEntry"](
        topic=MESSAGES["Resource"](name="t"), expression=MESSAGES["FilterExpression"](type=proto.TAG, expression="a||b")
    )
    subscription = MESSAGES["Subscription"](group=GROUP, subscriptions=[entry])
    return MESSAGES["TelemetryCommand"](settings=MESSAGES["Settings"](client_type=kind, subscription=subscription))


def members(world: World) -> dict[str, list[str]]:
    """Client id -> topics of the members of the group."""
    info = world.broker.groups.table.get("g")
    return {} if info is None else {name: sorted(each.subscriptions) for name, each in info.members.items()}


@simulated
async def test_a_consumer_gets_the_settings_of_its_group(world: World) -> None:
    await world.start_broker()
    operator = world.peer("operator")
    client = await GrpcClient.connect(world)
    number = client.open("Telemetry")
    answer = client.say(number, consumer_settings(), end=False)
    await world.sleep(1)
    settings = last_of(answer.messages).settings
    assert (settings.client_type, settings.subscription.group.name) == (proto.PUSH_CONSUMER, "g")
    assert settings.backoff_policy.max_attempts == 16
    pauses = [duration_ms(each) for each in settings.backoff_policy.customized_backoff.next]
    assert pauses[:3] == [10_000, 30_000, 60_000]
    assert (settings.subscription.receive_batch_size, settings.subscription.fifo) == (32, False)
    assert duration_ms(settings.subscription.long_polling_timeout) == 20_000
    assert settings.subscription.subscriptions[0].expression.expression == "a||b"
    assert settings.HasField("metric")
    await operator.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"group": "g", "max_attempts": 2})
    client.say(number, consumer_settings(), end=False)
    await world.sleep(1)
    assert last_of(answer.messages).settings.backoff_policy.max_attempts == 3


@simulated
async def test_a_consumer_with_a_wrong_filter_gets_settings_and_the_reason(world: World) -> None:
    await world.start_broker()
    await world.peer("a").put_topic("t")
    client = await GrpcClient.connect(world)
    command = consumer_settings()
    expression = command.settings.subscription.subscriptions[0].expression
    expression.type, expression.expression = proto.SQL, "a >>> 3"
    answer = client.say(client.open("Telemetry"), command, end=False)
    await world.sleep(0.1)
    found = last_of(answer.messages)
    assert (found.status.code, found.settings.backoff_policy.max_attempts) == (proto.ILLEGAL_FILTER, 16)
    assert "a >>> 3" in found.status.message
    assert members(world) == {}


@simulated
async def test_a_new_group_receives_what_is_sent_after_the_settings_of_its_consumer(world: World) -> None:
    await world.start_broker()
    await world.peer("a").put_topic("t")
    client = await GrpcClient.connect(world)
    await client.send(b"before")
    await world.sleep(1)
    answer = client.say(client.open("Telemetry"), consumer_settings(), end=False)
    await world.sleep(0.1)
    assert len(answer.messages) == 1, "the consumer has started"
    assert members(world) == {"stock@1": ["t"]}
    await client.send(b"after")
    await world.sleep(1)
    assert bodies(await received(client)) == [b"after"]


@simulated
async def test_a_consumer_is_a_member_from_its_settings_until_its_farewell(world: World) -> None:
    await world.start_broker()
    await world.peer("a").put_topic("t")
    client = await GrpcClient.connect(world)
    beat = MESSAGES["HeartbeatRequest"](group=GROUP, client_type=proto.PUSH_CONSUMER)
    assert (await client.one("Heartbeat", beat)).status.code == proto.OK
    assert members(world) == {}, "nobody knows what it reads"
    client.say(client.open("Telemetry"), consumer_settings(), end=False)
    await world.sleep(0.1)
    assert members(world) == {"stock@1": ["t"]}
    await world.sleep(29)
    await client.one("Heartbeat", beat)
    await world.sleep(29)
    assert members(world) == {"stock@1": ["t"]}
    gone = MESSAGES["NotifyClientTerminationRequest"](group=GROUP)
    assert (await client.one("NotifyClientTermination", gone)).status.code == proto.OK
    assert members(world) == {}


@simulated
async def test_after_a_restart_a_consumer_is_a_member_by_what_it_receives(world: World) -> None:
    await world.start_broker()
    await world.peer("a").put_topic("t")
    client = await GrpcClient.connect(world)
    await received(client, poll_ms=0)
    await client.one("Heartbeat", MESSAGES["HeartbeatRequest"](group=GROUP, client_type=proto.SIMPLE_CONSUMER))
    assert members(world) == {"stock@1": ["t"]}


@simulated
async def test_clients_of_one_process_share_a_connection_and_are_members_each(world: World) -> None:
    await world.start_broker()
    await world.peer("a").put_topic("t")
    client = await GrpcClient.connect(world)
    beat = MESSAGES["HeartbeatRequest"](group=GROUP, client_type=proto.SIMPLE_CONSUMER)
    for client_id in ("one@1", "two@1"):
        await received(client, client_id, poll_ms=0)
        await client.call("Heartbeat", beat, client_id=client_id)
    assert members(world) == {"one@1": ["t"], "two@1": ["t"]}
    gone = MESSAGES["NotifyClientTerminationRequest"](group=GROUP)
    await client.call("NotifyClientTermination", gone, client_id="one@1")
    assert list(members(world)) == ["two@1"]
    client.close()
    await world.sleep(1)
    assert members(world) == {}


@simulated
async def test_the_clients_that_a_connection_remembers_are_limited(world: World) -> None:
    await world.start_broker()
    await world.peer("a").put_topic("t")
    client = await GrpcClient.connect(world)
    for number in range(MAX_GRPC_CLIENTS + 1):
        await received(client, f"{number}@1", poll_ms=0)
    beat = MESSAGES["HeartbeatRequest"](group=GROUP, client_type=proto.SIMPLE_CONSUMER)
    for number in (0, 1, MAX_GRPC_CLIENTS):
        await client.call("Heartbeat", beat, client_id=f"{number}@1")
    assert list(members(world)) == ["1@1", f"{MAX_GRPC_CLIENTS}@1"]


@simulated
async def test_clients_of_other_kinds_are_refused_by_name(world: World) -> None:
    await world.start_broker()
    client = await GrpcClient.connect(world)
    answer = client.say(client.open("Telemetry"), consumer_settings(5), end=False)
    await world.sleep(1)
    assert last_of(answer.messages).status.code == proto.UNRECOGNIZED_CLIENT_TYPE
    beat = await client.one("Heartbeat", MESSAGES["HeartbeatRequest"](group=GROUP, client_type=5))
    assert beat.status.code == proto.UNRECOGNIZED_CLIENT_TYPE


@simulated
async def test_a_producer_is_answered_while_it_lives_and_when_it_goes(world: World) -> None:
    await world.start_broker()
    client = await GrpcClient.connect(world)
    beat = await client.one("Heartbeat", MESSAGES["HeartbeatRequest"](client_type=proto.PRODUCER))
    gone = await client.one("NotifyClientTermination", MESSAGES["NotifyClientTerminationRequest"]())
    assert [beat.status.code, gone.status.code] == [proto.OK, proto.OK]


# --- requests of operators -------------------------------------------------------------------------------------------


async def asked_member(world: World) -> tuple[GrpcClient, int, Any, StockClient]:
    """A consumer with its stream, and a tool of RocketMQ's."""
    client = await with_messages(world, 1, tags="a")
    number = client.open("Telemetry", x_mq_language="JAVA", x_mq_client_version="5.2.0")
    answer = client.say(number, consumer_settings(), end=False)
    await client.one("Heartbeat", heartbeat_of())
    return client, number, answer, await StockClient.connect(world, "tool")


def heartbeat_of() -> Any:
    return MESSAGES["HeartbeatRequest"](group=GROUP, client_type=proto.PUSH_CONSUMER)


def result_of(nonce: str, code: int, **more: Any) -> Any:
    status = MESSAGES["Status"](code=code, message="why")
    return MESSAGES["TelemetryCommand"](
        status=status, **(more or {"verify_message_result": MESSAGES["VerifyMessageResult"](nonce=nonce)})
    )


@pytest.mark.parametrize(
    ("code", "result"), [(proto.OK, "CR_SUCCESS"), (proto.FAILED_TO_CONSUME, "CR_LATER"), (proto.NOT_IMPLEMENTED, "")]
)
@simulated
async def test_an_operator_has_a_consumer_consume_a_message_now(world: World, code: int, result: str) -> None:
    client, number, answer, tool = await asked_member(world)
    found = await tool.call(12, {"topic": "t", "key": "00", "maxNum": 1, "_UNIQUE_KEY_QUERY": "true"})
    [stored] = messages_of(found)
    message_id = offset_message_id(Host.of("10.0.0.1", 10911), stored["physical"])
    reported = tool.begin(309, {"consumerGroup": "g", "clientId": "stock@1", "msgId": message_id})
    await world.sleep(0.1)
    command = last_of(answer.messages).verify_message_command
    system = command.message.system_properties
    assert (command.message.body, system.message_id, system.tag, system.delivery_attempt) == (b"0", "00", "a", 1)
    client.say(number, result_of("999999 g", code), end=False)  # of no request
    client.say(number, result_of(command.nonce, code), end=False)
    frame = await reported
    if result:
        assert json.loads(frame.body or b"")["consumeResult"] == result
    else:
        assert (frame.code, "the client answered 50100 why" in (frame.remark or "")) == (1, True)


@simulated
async def test_an_operator_gets_the_stacks_of_a_consumer_and_its_subscriptions_without_them(world: World) -> None:
    client, number, answer, tool = await asked_member(world)
    asked = {"consumerGroup": "g", "clientId": "stock@1", "jstackEnable": "false"}
    info = json.loads((await tool.call(307, asked)).body or b"")
    assert info["properties"]["PROP_CLIENT_VERSION"] == "JAVA 5.2.0"
    assert info["subscriptionSet"] == [{"topic": "t", "subString": "a||b", "subVersion": 0, "expressionType": "TAG"}]
    reported = tool.begin(307, {**asked, "jstackEnable": "true"})
    await world.sleep(0.1)
    nonce = last_of(answer.messages).print_thread_stack_trace_command.nonce
    trace = MESSAGES["ThreadStackTrace"](nonce=nonce, thread_stack_trace="main at x")
    client.say(number, result_of(nonce, proto.OK, thread_stack_trace=trace), end=False)
    assert json.loads((await reported).body or b"")["jstack"] == "main at x"
    silent = await tool.call(307, {**asked, "jstackEnable": "true"})
    assert (silent.code, "did not answer" in (silent.remark or "")) == (ResponseCode.SYSTEM_BUSY, True)


@simulated
async def test_a_consumer_whose_stream_has_ended_cannot_be_asked_and_the_operator_is_answered_so(world: World) -> None:
    client, number, _, tool = await asked_member(world)
    client.cancel(number)
    await world.sleep(0.1)
    frame = await tool.call(307, {"consumerGroup": "g", "clientId": "stock@1", "jstackEnable": "true"})
    assert frame.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert "has no open Telemetry stream" in (frame.remark or "")
