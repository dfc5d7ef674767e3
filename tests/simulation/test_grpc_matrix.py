"""Every call of RocketMQ 5's clients, by the users of `test_matrix.py`, with the results that it has to get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import anyio
import pytest

from rocketmq.edge import ServerFacts
from rocketmq.grpc import proto
from rocketmq.grpc.dialect import broker_grpc, name_server_grpc
from rocketmq.grpc.handles import Handle, TransactionId
from rocketmq.grpc.proto import MESSAGES, to_duration
from testbed.load.grpc import GrpcAnswer
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.signed import connected, grpc_headers
from tests.simulation.test_matrix import RECALL, ROLES, USERS, WITH_USERS, Case, started, take_rights
from tests.unit.rocketmq.grpc.grpc_client import GrpcClient, message_of, send_of

pytestmark = [pytest.mark.simulation, pytest.mark.walk]

RESULTS = {
    "ok": proto.OK,
    "key": proto.UNAUTHORIZED,
    "no": proto.FORBIDDEN,
    "own": proto.BAD_REQUEST,  # the id of the client is another user's
    "dead": proto.INVALID_RECEIPT_HANDLE,
    "no-half": proto.INVALID_TRANSACTION_ID,
    "gone": proto.MESSAGE_NOT_FOUND,
}
TOPIC, GROUP = MESSAGES["Resource"](name="orders"), MESSAGES["Resource"](name="g")
HANDLE = Handle("broker-a", "orders", 0, 0, 1).text()
SUBSCRIBED = MESSAGES["Subscription"](group=GROUP, subscriptions=[MESSAGES["SubscriptionEntry"](topic=TOPIC)])


class Call(NamedTuple):
    """One call, and its results in the order of `ROLES`."""

    rpc: str
    message: Any
    results: str
    to: str = "broker"


def settings(client_type: int, **more: Any) -> Any:
    return MESSAGES["TelemetryCommand"](settings=MESSAGES["Settings"](client_type=client_type, **more))


def request(name: str, **fields: Any) -> Any:
    return MESSAGES[f"{name}Request"](**fields)


MATRIX = (
    Call("QueryRoute", request("QueryRoute", topic=TOPIC), "key key no ok no ok ok"),
    Call("QueryRoute", request("QueryRoute", topic=TOPIC), "key key no ok no ok ok", to="name server"),
    Call("Telemetry", settings(proto.PRODUCER), "key key ok ok ok ok own"),
    Call("Telemetry", settings(proto.PUSH_CONSUMER, subscription=SUBSCRIBED), "key key ok no no ok ok"),
    Call(
        "Heartbeat",
        request("Heartbeat", group=GROUP, client_type=proto.PUSH_CONSUMER),
        "key key no no no ok own",
    ),
    Call("Heartbeat", request("Heartbeat", client_type=proto.PRODUCER), "key key ok ok ok ok own"),
    Call("SendMessage", send_of(message_of(topic="orders")), "key key no ok no ok ok"),
    # The group of its producers has the name of the topic, so the right is to that group.
    Call(
        "EndTransaction",
        request(
            "EndTransaction",
            topic=MESSAGES["Resource"](name="p"),
            message_id="01AA",
            transaction_id=TransactionId("broker-a", 0).text(),
            resolution=proto.COMMIT,
        ),
        "key key no-half no no no-half own",
    ),
    Call("RecallMessage", request("RecallMessage", topic=TOPIC, recall_handle=RECALL), "key key no gone no gone gone"),
    Call(
        "RecallMessage",
        request("RecallMessage", topic=TOPIC, recall_handle=RECALL),
        "key key no gone no gone gone",
        to="name server",
    ),
    Call("QueryAssignment", request("QueryAssignment", topic=TOPIC, group=GROUP), "key key no ok no ok ok"),
    Call(
        "ReceiveMessage",
        request(
            "ReceiveMessage",
            group=GROUP,
            message_queue=MESSAGES["MessageQueue"](topic=TOPIC),
            invisible_duration=to_duration(10_000),
            long_polling_timeout=to_duration(0),
        ),
        "key key no no no ok own",
    ),
    Call(
        "AckMessage",
        request("AckMessage", group=GROUP, topic=TOPIC, entries=[MESSAGES["AckMessageEntry"](receipt_handle=HANDLE)]),
        "key key dead no no dead own",
    ),
    Call(
        "ChangeInvisibleDuration",
        request("ChangeInvisibleDuration", group=GROUP, topic=TOPIC, receipt_handle=HANDLE),
        "key key dead no no dead own",
    ),
    Call(
        "ForwardMessageToDeadLetterQueue",
        request("ForwardMessageToDeadLetterQueue", group=GROUP, topic=TOPIC, receipt_handle=HANDLE),
        "key key ok no no ok own",
    ),
    Call("NotifyClientTermination", request("NotifyClientTermination", group=GROUP), "key key ok no no ok own"),
)


async def first_message(answer: GrpcAnswer) -> bytes:
    """The first message of the answer to a call; a stream goes on behind it."""
    with anyio.fail_after(10):
        while not answer.messages:
            assert not answer.ended.done(), answer.text
            await anyio.sleep(0.01)
    return answer.messages[0]


def test_each_grpc_call_gets_the_result_that_the_rights_of_its_user_say(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        addresses = await started(cluster)
        clients: dict[tuple[str, str], GrpcClient] = {}

        async def ask(call: Call, role: str) -> int:
            client = clients.get((call.to, role))
            if client is None:
                client = await connected(cluster, addresses[call.to], GrpcClient())
                if role in USERS:
                    clients[call.to, role] = client
            headers = {"stranger": {}, "wrong": grpc_headers("owner", "another")}.get(role, grpc_headers(role))
            number = client.open(call.rpc, Case.text_of("c-{id}", role), **headers)
            answer = client.say(number, call.message, end=call.rpc != "Telemetry")
            answered = MESSAGES["TelemetryCommand" if call.rpc == "Telemetry" else f"{call.rpc}Response"]
            found = answered.FromString(await first_message(answer))
            status = found.status
            if call.rpc == "Telemetry" and status.code == proto.FORBIDDEN:
                assert found.settings.backoff_policy.max_attempts == 16, "clients wait for settings, some for ever"
            if role not in USERS:
                client.close()
            if status.code == proto.BAD_REQUEST:
                assert "belongs to another user" in status.message, status
            return int(status.code)

        for call in MATRIX[:-1]:  # what the user was allowed is remembered
            assert await ask(call, "removed") not in (proto.UNAUTHORIZED, proto.FORBIDDEN), call
        take_rights(cluster)
        wrong_answers = []
        for call in MATRIX:
            for role, word in zip(ROLES, call.results.split(), strict=True):
                code = await ask(call, role)
                if code != RESULTS[word]:
                    wrong_answers.append((call.rpc, call.to, role, word, code))
        for client in clients.values():
            client.close()
        assert not wrong_answers, "\n".join(map(str, wrong_answers))

    served = {(rpc, "broker") for rpc in broker_grpc(ServerFacts()).rpcs}
    served |= {(rpc, "name server") for rpc in name_server_grpc(ServerFacts()).rpcs}
    assert {(call.rpc, call.to) for call in MATRIX} == served
    simulate(scenario, brokers=1, **WITH_USERS)


def signed_over_one_connection(
    simulate: Simulate, play: Callable[[GrpcClient, SimulatedCluster], Any], **options: Any
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        client = await connected(cluster, (await started(cluster))["broker"], GrpcClient())
        await play(client, cluster)
        client.close()

    simulate(scenario, brokers=1, **{**WITH_USERS, **options})


def test_a_call_without_a_signature_is_ended_at_its_headers_and_its_message_takes_no_memory(
    simulate: Simulate,
) -> None:
    async def play(client: GrpcClient, cluster: SimulatedCluster) -> None:
        number = client.open("SendMessage")
        client.flush()
        answer = client.answer_of(number)
        await answer.ended
        [message] = answer.messages
        status = MESSAGES["SendMessageResponse"].FromString(message).status
        assert (status.code, answer.status) == (proto.UNAUTHORIZED, "0")
        assert status.message == (
            "access key and signature are missing: this server has access control, give the client a user's name and "
            "rocketmq_secret (docs/security.md)"
        )

    signed_over_one_connection(simulate, play)


def test_clients_of_two_users_over_one_connection_get_the_reason(simulate: Simulate) -> None:
    async def play(client: GrpcClient, cluster: SimulatedCluster) -> None:
        sent = send_of(message_of(topic="orders"))
        assert (await client.one("SendMessage", sent, **grpc_headers("owner"))).status.code == proto.OK
        refused = (await client.one("SendMessage", sent, **grpc_headers("twin"))).status
        assert (refused.code, "run its clients in separate processes" in refused.message) == (proto.UNAUTHORIZED, True)
        assert (await client.one("SendMessage", sent, **grpc_headers("owner"))).status.code == proto.OK

    signed_over_one_connection(simulate, play)


def test_a_producer_without_a_right_to_the_group_of_its_topic_starts_and_no_refusal_is_reported(
    simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(client: GrpcClient, cluster: SimulatedCluster) -> None:
        number = client.open("Telemetry", "c-no-group", **grpc_headers("no-group"))
        publishing = MESSAGES["Publishing"](topics=[TOPIC])
        answer = client.say(number, settings(proto.PRODUCER, publishing=publishing), end=False)
        command = MESSAGES["TelemetryCommand"].FromString(await first_message(answer))
        assert command.status.code == proto.OK
        assert command.settings.publishing.topics[0].name == "orders"

    signed_over_one_connection(simulate, play)
    assert "refused" not in caplog.text


def test_a_connection_whose_calls_are_not_signed_is_closed_after_five_seconds(simulate: Simulate) -> None:
    async def play(client: GrpcClient, cluster: SimulatedCluster) -> None:
        sent = send_of(message_of(topic="orders"))
        refused = (await client.one("SendMessage", sent, **grpc_headers("owner", "another"))).status
        assert (refused.code, "are wrong" in refused.message) == (proto.UNAUTHORIZED, True)
        with anyio.fail_after(6):
            await client.closed
        assert "no key was proved within 5 s" in (client.goaway or "")

    signed_over_one_connection(simulate, play)
