"""Servers of a benchmark, each in a process of its own: they must not share an interpreter with what is measured.

The name server and the brokers are the ordinary `rlab` daemons. Like them, every child tells its address in one line
and goes away with this process, however that ends (see `cli/cluster.py`).

    async with cluster_processes({"orders": 8}) as cluster, echo_process() as echo:
        cluster.name_server, echo.address, await rss_bytes(cluster.brokers[0])
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio

from cli.cluster import REGISTERED_POLL_S, START_TIMEOUT_S, Child
from client.admin import Admin
from model.errors import ServiceNotAvailable


@dataclass(frozen=True, slots=True)
class ClusterProcesses:
    """A name server and its broker.

    Attributes:
        name_server: its address.
        broker: its process.
    """

    name_server: str
    broker: Child


@asynccontextmanager
async def echo_process() -> AsyncIterator[Child]:
    """Run an echo server while the block runs; see `_child`."""
    async with _child("echo", "cli.bench.echo") as child:
        yield child


@asynccontextmanager
async def cluster_processes(topics: Mapping[str, int], *, trace: bool = True) -> AsyncIterator[ClusterProcesses]:
    """Run a name server and a broker while the block runs, with files in a temporary folder.

    Args:
        topics: queues by the name of the topic to create.
        trace: whether the broker keeps events, as it does by default.

    Yields:
        The cluster; the name server shows every topic.

    Raises:
        ServiceNotAvailable: a server did not start.
        RlabError: a topic could not be created.

    Cancellation: the servers are stopped and the folder removed.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rlab-bench-"))
        daemon = ("--listen", "127.0.0.1:0", "--json", "--exit-with-stdin")
        name_server = await stack.enter_async_context(_child("namesrv", "cli.main", "namesrv", *daemon))
        options = ["--namesrv", name_server.address, "--data", folder, "--trace-topic" if trace else "--no-trace-topic"]
        broker = await stack.enter_async_context(_child("broker", "cli.main", "broker", *daemon, *options))
        async with Admin(name_server.address) as admin:
            with anyio.move_on_after(START_TIMEOUT_S) as scope:
                # Nothing tells when a name server has heard of a broker.
                while not await admin.brokers():  # noqa: ASYNC110
                    await anyio.sleep(REGISTERED_POLL_S)
            if scope.cancelled_caught:
                raise ServiceNotAvailable(f"the broker did not register within {START_TIMEOUT_S:g} s")
            for topic, queues in topics.items():
                await admin.create_topic(topic, queues)
        yield ClusterProcesses(name_server.address, broker)


@asynccontextmanager
async def _child(name: str, *command: str) -> AsyncIterator[Child]:
    """Run a module as a child while the block runs.

    Raises:
        ServiceNotAvailable: it did not start; it has said why on standard error.

    Cancellation: it is stopped before it goes on.
    """
    process = await anyio.open_process([sys.executable, "-P", "-m", *command], stderr=None, start_new_session=True)
    child = Child(name, process)
    try:
        with anyio.move_on_after(START_TIMEOUT_S) as scope:
            await child.wait_ready()
        if scope.cancelled_caught:
            raise ServiceNotAvailable(f"{name} did not start in {START_TIMEOUT_S:g} s")
        yield child
    finally:
        with anyio.CancelScope(shield=True):
            await child.stop()


async def rss_bytes(child: Child) -> int:
    """Resident memory of a child. Cancellation: harmless."""
    pid = child.process.pid
    status = anyio.Path(f"/proc/{pid}/status")
    if await status.exists():
        lines = (await status.read_text()).splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024
    # Not Linux. There `ps` is part of the system; in a slim container it may be missing.
    done = await anyio.run_process(["ps", "-o", "rss=", "-p", str(pid)])
    return int(done.stdout) * 1024
