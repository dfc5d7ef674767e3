"""A request of one code is lost or late, and everything else on the connection comes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from model.errors import RlabError
from remoting.client import RemotingClient
from remoting.connection import INTERPOSED, Connection
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.faults.request_filters import RequestFilters
from testbed.simulation.kernel.run import Simulation, run_simulation

CODE = RequestCode.GET_BROKER_RUNTIME_INFO


def test_requests_of_one_code_are_lost_or_late_until_the_fault_is_healed(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster, RemotingClient() as client:
            address = cluster.brokers["broker-a"].address

            async def took_s(code: RequestCode = CODE) -> float:
                began = simulation.loop.time()
                with simulation.on_host("asker"):
                    await client.request(address, code, {}, timeout_s=2.0)
                return round(simulation.loop.time() - began, 1)

            with RequestFilters(simulation.loop) as filters:
                assert await took_s() == 0.0
                with filters.add(CODE, target="broker-a"):
                    with pytest.raises(RlabError):
                        await took_s()
                    assert await took_s(RequestCode.GET_GROUP_LIST) == 0.0
                with filters.add(CODE, source="asker", by_s=0.5):
                    assert await took_s() == 0.5
                with filters.add(CODE, source="somebody else"), filters.add(CODE, target="broker-b"):
                    assert await took_s() == 0.0
                with filters.add(CODE, target="broker-a", one_in=2):
                    assert await took_s() == 0.0
                    with pytest.raises(RlabError):
                        await took_s()
                    assert await took_s() == 0.0
                assert await took_s() == 0.0
                open_ones: list[asyncio.BaseProtocol] = []
                simulation.loop.follow_protocols(open_ones.append)
                assert any(isinstance(each, Connection) for each in open_ones)
                assert all(vars(each).keys().isdisjoint(INTERPOSED) for each in open_ones)

    run_simulation(main)


def test_answers_without_an_error_are_watched_beside_rules(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, tmp_path, brokers=1) as cluster, RemotingClient() as client:
            seen: list[tuple[str, int]] = []
            filters = RequestFilters(simulation.loop, lambda host, request: seen.append((host, request.code)))

            async def ask(code: RequestCode) -> None:
                with simulation.on_host("asker"):
                    await client.request(cluster.brokers["broker-a"].address, code, {}, timeout_s=2.0)

            with filters:
                await ask(CODE)
                with filters.add(CODE, target="broker-a"):
                    with pytest.raises(RlabError):
                        await ask(CODE)
                    await ask(RequestCode.GET_GROUP_LIST)
                await ask(CODE)
            await ask(CODE)
            answered = [code for host, code in seen if host == "broker-a"]
            assert [code for code in answered if code in (CODE, RequestCode.GET_GROUP_LIST)] == [
                *(CODE, RequestCode.GET_GROUP_LIST, CODE)
            ]

    run_simulation(main)
