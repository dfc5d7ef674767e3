"""A broker that has more to do than it can, in virtual time: each request takes it a service time."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from model.errors import ConnectionLost, RlabError, SystemBusy
from model.events import EventKind
from model.limits import LATE_S, MIN_SLICE_REQUESTS
from remoting.client import RemotingClient
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import serve
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.simulation.conftest import Simulate
from tests.simulation.slow_server import SlowServer, make_servers_slow

pytestmark = pytest.mark.simulation

SERVICE_S = 0.004
CAPACITY = 1 / SERVICE_S
SESSION_S = 6.0
LOAD_S = 8.0
CLIENTS = 40


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> type[SlowServer]:
    return make_servers_slow(monkeypatch.setattr)


async def load(cluster: SimulatedCluster, code: RequestCode, header: dict[str, Any], rate: float) -> int:
    """Send requests at a rate, whatever becomes of them, each tried three times; return how many were answered."""
    done, refusals = 0, list[float]()

    async def ask(client: RemotingClient) -> None:
        nonlocal done
        for _ in range(3):
            try:
                await client.request(cluster.brokers["broker-a"].address, code, header, b"x", 1.0)
            except RlabError as error:
                if isinstance(error, SystemBusy):
                    refusals.append(error.retry_after_s)
                await anyio.sleep(0.05)
            else:
                done += 1
                return

    with cluster.simulation.on_host("load"):
        async with AsyncExitStack() as stack:
            clients = [RemotingClient(rng=cluster.simulation.random) for _ in range(CLIENTS)]
            for client in clients:
                await stack.enter_async_context(client)
                await client.connect(cluster.brokers["broker-a"].address)
            with anyio.move_on_after(LOAD_S + 5.0):
                async with anyio.create_task_group() as tasks:
                    begin = anyio.current_time()
                    for n in range(int(rate * LOAD_S)):
                        tasks.start_soon(ask, clients[n % CLIENTS])
                        await anyio.sleep_until(begin + n / rate)
                    await anyio.sleep_until(begin + LOAD_S)
                    tasks.cancel_scope.cancel()
    assert all(wait_s > 0 for wait_s in refusals)
    return done


SEND = (RequestCode.SEND_MESSAGE, {"topic": "load", "queue_id": 0, "tag_hash": 0})
LIST = (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"group": "billing", "known_version": -1})


@pytest.mark.parametrize(("code", "header"), [SEND, LIST], ids=["sends", "lists"])
def test_at_four_times_the_load_work_is_done_no_one_expires_and_a_member_that_joins_has_its_queues_soon_after(
    simulate: Simulate, slow: type[SlowServer], code: RequestCode, header: dict[str, Any]
) -> None:
    def done_at(rate: float) -> int:
        async def scenario(cluster: SimulatedCluster) -> int:
            slow.service_s = 0.0
            await cluster.create_topic("orders", queues=8)
            await cluster.create_topic("load", queues=1)
            for _ in range(4):
                await cluster.start_consumer("billing", "orders", session_timeout_s=SESSION_S)
            await cluster.wait_converged(5.0)
            slow.service_s = SERVICE_S
            done = 0

            async def put_under_load() -> None:
                nonlocal done
                done = await load(cluster, code, header, rate)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(put_under_load)
                await anyio.sleep(LOAD_S - 1.0)
                tasks.start_soon(cluster.start_consumer, "billing", "orders")
            await cluster.wait_converged(5.0)
            assert len(cluster.consumers) == 5
            assert cluster.events_of(EventKind.MEMBER_LEAVE) == []
            return done

        return simulate(scenario, brokers=1, seed=4)

    peak = done_at(0.8 * CAPACITY)
    assert done_at(4 * CAPACITY) >= 0.7 * peak


STATE = RequestCode.GET_SERVER_STATE


def test_a_late_server_serves_heartbeats_first_and_nothing_of_a_client_that_is_gone(slow: type[SlowServer]) -> None:
    served: list[int] = []

    def handle(connection: Connection, request: Command) -> Reply:
        served.append(request.code)
        return Reply({})

    async def main(simulation: Simulation) -> None:
        slow.service_s = LATE_S * 1.1
        async with (
            serve(dict.fromkeys((STATE, RequestCode.HEART_BEAT), handle), "10.0.0.1:1"),
            RemotingClient() as client,
        ):
            connection = await client.connect("10.0.0.1:1")
            asked = [connection.request(STATE)]  # makes it late
            await anyio.sleep(0.01)
            slow.service_s = 0.001
            asked += [connection.request(STATE) for _ in range(5 * MIN_SLICE_REQUESTS)]
            asked.append(connection.request(RequestCode.HEART_BEAT))
            await anyio.sleep(0.06)
            connection.close()  # while the first slice is served
            assert {type(each.exception()) for each in asked if each.done()} == {type(None), ConnectionLost}
            await anyio.sleep(5.0)

    run_simulation(main)
    assert served == [STATE, RequestCode.HEART_BEAT] + [STATE] * (3 * MIN_SLICE_REQUESTS)
