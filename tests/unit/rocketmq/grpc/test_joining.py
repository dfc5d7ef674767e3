"""Settings, heartbeats and farewells."""

from __future__ import annotations

from typing import Any

from model.limits import MAX_BODY_BYTES
from rocketmq.grpc import words
from rocketmq.grpc.words import WORDS, duration_ms
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.grpc.grpc_client import GrpcClient


def producer_settings() -> Any:
    topics = [WORDS["Resource"](name="t")]
    return WORDS["Settings"](client_type=words.PRODUCER, publishing=WORDS["Publishing"](topics=topics))


def last_of(messages: list[bytes]) -> Any:
    return WORDS["TelemetryCommand"].FromString(messages[-1])


@simulated
async def test_a_producer_gets_the_settings_without_which_stock_clients_fail(world: World) -> None:
    await world.start_broker()
    client = await GrpcClient.connect(world)
    number = client.open("Telemetry")
    command = WORDS["TelemetryCommand"](settings=producer_settings())
    client.say(number, command, end=False)
    await world.sleep(300)  # then a client sends them again, over the same stream
    answer = client.say(number, command, end=False)
    await world.sleep(1)
    assert len(answer.messages) == 2
    found = last_of(answer.messages)
    assert found.status.code == words.OK
    settings = found.settings
    assert settings.client_type == words.PRODUCER
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


@simulated
async def test_consumers_are_refused_by_name(world: World) -> None:
    await world.start_broker()
    client = await GrpcClient.connect(world)
    settings = WORDS["Settings"](client_type=words.PUSH_CONSUMER, subscription=WORDS["Subscription"]())
    answer = client.say(client.open("Telemetry"), WORDS["TelemetryCommand"](settings=settings), end=False)
    await world.sleep(1)
    assert last_of(answer.messages).status.code == words.UNRECOGNIZED_CLIENT_TYPE
    beat = await client.one("Heartbeat", WORDS["HeartbeatRequest"](client_type=words.SIMPLE_CONSUMER))
    assert beat.status.code == words.UNRECOGNIZED_CLIENT_TYPE


@simulated
async def test_a_producer_is_answered_while_it_lives_and_when_it_goes(world: World) -> None:
    await world.start_broker()
    client = await GrpcClient.connect(world)
    beat = await client.one("Heartbeat", WORDS["HeartbeatRequest"](client_type=words.PRODUCER))
    gone = await client.one("NotifyClientTermination", WORDS["NotifyClientTerminationRequest"]())
    assert [beat.status.code, gone.status.code] == [words.OK, words.OK]
