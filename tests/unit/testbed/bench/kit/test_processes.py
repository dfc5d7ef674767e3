from __future__ import annotations

import os

import anyio
import pytest

from client import Message, Producer
from testbed.bench.kit.echo import connect_echo
from testbed.bench.kit.processes import (
    cluster_processes,
    echo_process,
    kill,
    open_descriptors,
    peak_rss_bytes,
    rss_bytes,
)

pytestmark = [pytest.mark.process, pytest.mark.tcp]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cluster_in_processes_of_its_own_has_its_topics_and_is_gone_afterwards() -> None:
    async def main() -> None:
        async with cluster_processes({"orders": 3}) as cluster:
            async with Producer(cluster.name_server) as producer:
                assert len(await producer.queues("orders")) == 3
                await producer.send(Message("orders", b"x"))
            assert cluster.broker.process.pid != os.getpid()
            assert 5 << 20 < await rss_bytes(cluster.broker) <= await peak_rss_bytes(cluster.broker) < 1 << 30
            assert (await open_descriptors(cluster.broker) or 5) > 4  # the standard three, the log, the port
        assert not is_alive(cluster.broker.process.pid)

    anyio.run(main)


def test_a_killed_broker_is_gone_at_once_and_the_block_ends_as_usual() -> None:
    async def main() -> None:
        async with cluster_processes({}) as cluster:
            await kill(cluster.broker)
            assert not is_alive(cluster.broker.process.pid)

    anyio.run(main)


def test_the_echo_runs_in_a_process_of_its_own_and_is_gone_afterwards() -> None:
    async def main() -> None:
        async with echo_process() as echo, connect_echo(echo.address) as client:
            assert (await client.request())[3] == 1
        assert not is_alive(echo.process.pid)

    anyio.run(main)
