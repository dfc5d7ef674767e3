"""Faults of the calls of gRPC clients: single calls and answers are lost and late, and their connection goes on."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from model.errors import ConnectionLost, RequestTimeout
from remoting.address import parse_address
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES
from testbed.load.grpc import GrpcClientConnection
from tests.simulation.conftest import Simulate
from tests.simulation.test_connection_faults import Bench, on_a_bench
from tests.unit.rocketmq.grpc.grpc_client import ack_of, message_of, receive_of, send_of

pytestmark = pytest.mark.simulation


def test_a_receive_that_is_handled_twice_brings_the_messages_of_the_first_answer_alone(simulate: Simulate) -> None:
    async def scenario(bench: Bench) -> None:
        host, port = parse_address(bench.cluster.brokers["broker-a"].address)
        client, other = [await GrpcClientConnection.to_server(host, port) for _ in range(2)]
        await bench.cluster.create_topic("t", queues=1)

        async def receive(connection: GrpcClientConnection, client_id: str, n: int) -> list[Any]:
            request = receive_of(n=n, poll_ms=0, auto_renew=True)
            return [each.message for each in (await connection.ask("ReceiveMessage", request, client_id, 3.0))[1:-1]]

        assert await receive(client, "stock@1", 1) == []
        for body in (b"one", b"two", b"three"):
            await client.ask("SendMessage", send_of(message_of(body, "t")), "stock@1", 3.0)
        bench.begin(do="duplicate", rpc="ReceiveMessage", n=1)
        [first] = await receive(client, "stock@1", 1)
        await anyio.sleep(0.1)
        others = await receive(other, "stock@2", 32)
        assert sorted(each.body for each in [first, *others]) == sorted([b"one", b"two", b"three"])
        assert [each.system_properties.delivery_attempt for each in others] == [1, 1], "nobody had the second answer"
        await anyio.sleep(60)
        assert await receive(other, "stock@2", 32) == [], "each message stays with the client that has it"
        [done] = await client.ask("AckMessage", ack_of(first), "stock@1", 3.0)
        assert done.entries[0].status.code == proto.OK

    on_a_bench(simulate, scenario)


def test_calls_of_grpc_clients_and_their_answers_are_lost_and_late_and_their_connection_goes_on(
    simulate: Simulate,
) -> None:
    async def scenario(bench: Bench) -> None:
        host, port = parse_address(bench.cluster.brokers["broker-a"].address)
        client = await GrpcClientConnection.to_server(host, port)

        async def send(body: bytes) -> Any:
            [answer] = await client.ask("SendMessage", send_of(message_of(body, "orders")), "stock@1", 3.0)
            return answer.status.code

        assert await send(b"one") == proto.OK
        bench.begin(do="drop", rpc="SendMessage", n=1)
        producer = await bench.cluster.start_producer()
        await producer.send("orders", b"ours")
        with pytest.raises(RequestTimeout):
            await send(b"lost")
        bench.begin(do="drop", rpc="SendMessage", direction="to_client", n=1)
        with pytest.raises(RequestTimeout):
            await send(b"unanswered")
        assert await send(b"two") == proto.OK
        late = bench.begin(do="delay", rpc="SendMessage", direction="to_client", by_s=2.0)
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, b"late")
            beat = MESSAGES["HeartbeatRequest"](client_type=proto.PRODUCER)
            await client.ask("Heartbeat", beat, "stock@1", 1.0)
        assert anyio.current_time() - began == pytest.approx(2.0, abs=0.1)
        bench.hook.heal(late)
        everything = bench.begin(do="drop", direction="to_client", client="stock@1")
        with pytest.raises(RequestTimeout):
            await send(b"unanswered too")
        bench.hook.heal(everything)
        assert await send(b"three") == proto.OK
        await anyio.sleep(1)
        received = {*bench.one.bodies, *bench.two.bodies}
        assert received == {b"one", b"ours", b"unanswered", b"two", b"late", b"unanswered too", b"three"}
        bench.begin(do="cut", rpc="SendMessage", n=1)
        with pytest.raises(ConnectionLost):
            await send(b"cut")

    on_a_bench(simulate, scenario)
