"""The requests of the register over the wire, in virtual time; `RemoteRegister` has its own tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import msgpack
import pytest

from model.errors import IllegalOperation, InvalidParameter, RequestCodeNotSupported
from model.replica_set import ReplicaSet
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from remoting.client import RemotingClient
from remoting.command import Command
from remoting.request_code import RequestCode
from replica.sets import create
from testbed.simulation.kernel.run import Simulation, run_simulation

ADDRESS = "10.0.0.1:9876"
ROW = create("broker-a", "h1:1", set_id=7)
Scenario = Callable[[RemotingClient], Awaitable[None]]


def serve(scenario: Scenario, elections: Path | None) -> None:
    async def main(_: Simulation) -> None:
        config = NameServerConfig(listen=ADDRESS, elections=elections, rng=Random(1))
        async with run_name_server(config) as server, RemotingClient() as client:
            assert (server.elections is None) == (elections is None)
            await scenario(client)

    run_simulation(main)


async def put(client: RemotingClient, row: ReplicaSet, expected_version: int, name: str = "broker-a") -> Command:
    header = {"broker_name": name, "expected_version": expected_version}
    return await client.request(ADDRESS, RequestCode.PUT_REPLICA_SET, header, row.to_wire())


def test_a_row_is_put_and_got_and_a_late_put_gets_the_newer_row(tmp_path: Path) -> None:
    async def scenario(client: RemotingClient) -> None:
        answer = await put(client, ROW, 0)
        assert answer.header["written"] is True
        stored = ReplicaSet.from_wire(answer.body or b"")
        for header in ({"broker_name": "broker-a"}, {}):
            got = await client.request(ADDRESS, RequestCode.GET_REPLICA_SET, header)
            assert got.header["register_id"] == stored.register_id
            assert msgpack.unpackb(got.body or b"") == [stored.to_wire()]
        late = await put(client, ROW, 0)
        assert late.header["written"] is False
        assert late.body == stored.to_wire()

    serve(scenario, tmp_path / "elections")


def test_a_set_without_a_row_has_an_empty_answer(tmp_path: Path) -> None:
    async def scenario(client: RemotingClient) -> None:
        got = await client.request(ADDRESS, RequestCode.GET_REPLICA_SET, {"broker_name": "broker-a"})
        assert msgpack.unpackb(got.body or b"") == []
        missing = await put(client, ROW, 3)
        assert missing.header["written"] is False
        assert not missing.body

    serve(scenario, tmp_path / "elections")


def test_a_row_of_the_expected_version_is_removed_and_its_name_is_free(tmp_path: Path) -> None:
    async def remove(client: RemotingClient, version: int) -> Command:
        header = {"broker_name": "broker-a", "expected_version": version}
        return await client.request(ADDRESS, RequestCode.REMOVE_REPLICA_SET, header)

    async def scenario(client: RemotingClient) -> None:
        stored = (await put(client, ROW, 0)).body
        late = await remove(client, 2)
        assert (late.header["removed"], late.body) == (False, stored)
        assert (await remove(client, 1)).header["removed"] is True
        again = await remove(client, 1)
        assert again.header["removed"] is False
        assert not again.body
        assert (await put(client, replace(ROW, set_id=8), 0)).header["written"] is True

    serve(scenario, tmp_path / "elections")


def test_a_row_of_another_name_than_that_of_the_request_is_refused(tmp_path: Path) -> None:
    async def scenario(client: RemotingClient) -> None:
        with pytest.raises(InvalidParameter, match="the row is of set broker-a, the request names 'broker-b'"):
            await put(client, ROW, 0, name="broker-b")
        header = {"broker_name": "broker-a", "expected_version": 0}
        with pytest.raises(InvalidParameter, match="a replica set must be"):
            await client.request(ADDRESS, RequestCode.PUT_REPLICA_SET, header, b"\xc1")
        got = await client.request(ADDRESS, RequestCode.GET_REPLICA_SET, {})
        assert msgpack.unpackb(got.body or b"") == []

    serve(scenario, tmp_path / "elections")


def test_a_row_that_goes_back_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def scenario(client: RemotingClient) -> None:
        stored = ReplicaSet.from_wire((await put(client, replace(ROW, epoch=4), 0)).body or b"")
        with pytest.raises(IllegalOperation, match="its epoch 3 is lower than 4"):
            await put(client, replace(stored, epoch=3), 1)

    serve(scenario, tmp_path / "elections")


def test_a_name_server_without_elections_refuses_as_an_earlier_version_does(tmp_path: Path) -> None:
    async def scenario(client: RemotingClient) -> None:
        with pytest.raises(RequestCodeNotSupported, match="keeps no elections: start one name server"):
            await client.request(ADDRESS, RequestCode.GET_REPLICA_SET, {})
        with pytest.raises(RequestCodeNotSupported, match="keeps no elections"):
            await put(client, ROW, 0)

    serve(scenario, None)
