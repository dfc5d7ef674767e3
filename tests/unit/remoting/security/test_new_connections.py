"""Connections without a request are closed, and the others are not."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from model.limits import FIRST_REQUEST_S
from remoting.client import RemotingClient
from remoting.codec import CODEC
from remoting.server import RemotingServer
from testbed.simulation.kernel.run import Simulation
from tests.unit.remoting.test_server import ADDRESS, STATE, Service, served


@served
async def test_a_connection_that_asks_for_nothing_is_closed_and_one_that_has_asked_once_is_not(
    simulation: Simulation, service: Service, server: RemotingServer, client: RemotingClient
) -> None:
    started = asyncio.get_running_loop().time()
    reader, writer = await asyncio.open_connection("10.0.0.1", 9876)
    await client.request(ADDRESS, STATE)
    [error] = CODEC.decoder().feed(await reader.read())
    writer.close()
    assert error.header["remark"] == "no request arrived within 30 s"
    assert asyncio.get_running_loop().time() - started == pytest.approx(FIRST_REQUEST_S, abs=0.1)
    await anyio.sleep(10 * FIRST_REQUEST_S)
    assert len(server.connections) == 1
    await client.request(ADDRESS, STATE)
