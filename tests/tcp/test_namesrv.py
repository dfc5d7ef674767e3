"""A name server on a real socket, on the loop that its daemon runs on."""

from __future__ import annotations

import asyncio

import anyio
import msgpack
import pytest
import uvloop
from anyio.lowlevel import checkpoint

from model.errors import TopicNotExist
from model.topic_route import TopicRoute
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from tests.unit.namesrv.registrations import broker, wire

pytestmark = pytest.mark.tcp

PATIENCE_S = 20.0


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_broker_registers_is_found_closes_its_connection_and_is_gone(
    loop_factory: type[asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with run_name_server(NameServerConfig(listen="127.0.0.1:0")) as server, RemotingClient() as client:
                code, header = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}
                async with RemotingClient() as its_connection:
                    registration = wire(broker("broker-a", "orders", newcomer=True))
                    await its_connection.request(server.address, RequestCode.REGISTER_BROKER, *registration)
                    answer = await client.request(server.address, code, header)
                    assert len(TopicRoute.from_wire(msgpack.unpackb(answer.body or b"")).publish_queues()) == 4
                while server.table.topics():
                    await checkpoint()
                with pytest.raises(TopicNotExist):
                    await client.request(server.address, code, header)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_silent_broker_expires_by_the_real_clock(loop_factory: type[asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        with anyio.fail_after(PATIENCE_S):
            lost = anyio.Event()
            async with (
                run_name_server(NameServerConfig(listen="127.0.0.1:0")) as server,
                RemotingClient(on_lost=lambda address: lost.set()) as client,
            ):
                registration = wire(broker("broker-a", "orders", expiry_s=0.05))
                await client.request(server.address, RequestCode.REGISTER_BROKER, *registration)
                await lost.wait()
                assert server.table.topics() == []

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
