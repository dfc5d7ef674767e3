"""Servers of a benchmark, each in a process of its own, so that they share no interpreter with the measuring client.

The name server and the brokers are the ordinary `rlab` daemons. Like them, every child announces its address in one
line and ends with this process; see `process/children.py`, also for errors and cancellation.

    async with cluster_processes({"orders": 8}) as cluster, echo_process() as echo:
        cluster.name_server, echo.address, await rss_bytes(cluster.brokers[0])
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

import anyio

from client.admin.admin import Admin
from client.options import ConsumeOrder
from process.children import DAEMON, Child, module_process
from testbed.cluster.registered import wait_registered

_DAEMON = ("--listen", "127.0.0.1:0", *DAEMON)


@dataclass(frozen=True, slots=True)
class ClusterProcesses:
    """A name server and its broker."""

    name_server: str
    broker: Child


@asynccontextmanager
async def echo_process() -> AsyncIterator[Child]:
    """Run an echo server while the block runs."""
    async with module_process("echo", "testbed.bench.kit.echo") as child:
        yield child


@asynccontextmanager
async def cluster_processes(
    topics: Mapping[str, int],
    *options: str,
    entry: Sequence[str] = ("rlab", "broker"),
    both: Sequence[str] = (),
) -> AsyncIterator[ClusterProcesses]:
    """Run a name server and a broker while the block runs, with files in a temporary folder.

    `topics` has the number of queues of each topic to create, `both` are options of both servers; for the others see
    `broker_process`. The name server lists every topic when the block begins.
    """
    async with (
        temporary_folder() as folder,
        name_server_process(*both) as name_server,
        broker_process(name_server, folder, *both, *options, entry=entry) as broker,
    ):
        await create_topics(name_server, topics)
        yield ClusterProcesses(name_server, broker)


@asynccontextmanager
async def temporary_folder() -> AsyncIterator[Path]:
    """Make a folder for the data of a broker, and remove it after the block."""
    with tempfile.TemporaryDirectory(prefix="rlab-bench-") as folder:
        yield Path(folder)


@asynccontextmanager
async def name_server_process(*options: str, quiet: bool = False) -> AsyncIterator[str]:
    """Run a name server while the block runs, with options of `rlab namesrv`; yields its address.

    `quiet` drops its warnings about brokers that are going to be killed.
    """
    stderr = DEVNULL if quiet else None
    async with module_process("namesrv", "rlab", "namesrv", *_DAEMON, *options, stderr=stderr) as child:
        yield child.address


@asynccontextmanager
async def broker_process(
    name_server: str, folder: Path, *options: str, entry: Sequence[str] = ("rlab", "broker")
) -> AsyncIterator[Child]:
    """Run a broker while the block runs.

    `options` are those of `rlab broker`; `entry` is another module, with arguments, to start in its place. The name
    server lists the broker when the block begins.
    """
    placed = ("--namesrv", name_server, "--data", str(folder))
    module, *arguments = entry
    async with module_process("broker", module, *arguments, *_DAEMON, *placed, *options) as child:
        async with Admin(name_server) as admin:
            await wait_registered(admin, [child.address])
        yield child


@asynccontextmanager
async def member_process(
    name_server: str,
    group: str,
    instance_name: str,
    session_timeout_s: float,
    order: ConsumeOrder = ConsumeOrder.QUEUE,
    file: Path | None = None,
) -> AsyncIterator[Child]:
    """Run a consumer while the block runs; its `address` is its client id, `file` gets the bodies that it consumes."""
    arguments = (name_server, group, instance_name, str(session_timeout_s), order, *((str(file),) if file else ()))
    async with module_process("member", "testbed.bench.kit.member", *arguments) as child:
        yield child


async def create_topics(name_server: str, topics: Mapping[str, int]) -> None:
    """Create topics, queues by name, on every broker that the name server knows."""
    async with Admin(name_server) as admin:
        for topic, queues in topics.items():
            await admin.create_topic(topic, queues)


async def kill(child: Child) -> None:
    """Kill a child with SIGKILL and wait until it has ended. Cancellation: it is killed nevertheless."""
    child.process.kill()
    await child.process.wait()


async def rss_bytes(child: Child) -> int:
    """Resident memory of a child. Cancellation: harmless."""
    resident = await _status_bytes(child, "VmRSS")
    if resident is not None:
        return resident
    # Not Linux. There `ps` is part of the system; in a slim container it may be missing.
    done = await anyio.run_process(["ps", "-o", "rss=", "-p", str(child.process.pid)])
    return int(done.stdout) * 1024


async def peak_rss_bytes(child: Child) -> int:
    """Peak resident memory of a child; on other systems than Linux the current one. Cancellation: harmless."""
    peak = await _status_bytes(child, "VmHWM")
    return await rss_bytes(child) if peak is None else peak


async def cpu_s(child: Child) -> float | None:
    """CPU seconds that a child has used; None if the system does not show them. Cancellation: harmless."""
    stat = anyio.Path(f"/proc/{child.process.pid}/stat")
    if not await stat.exists():
        return None
    user, system = (await stat.read_text()).rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def open_descriptors(child: Child) -> int | None:
    """Number of open file descriptors of a child; None if the system does not show them. Cancellation: harmless."""
    folder = anyio.Path(f"/proc/{child.process.pid}/fd")
    return len([entry async for entry in folder.iterdir()]) if await folder.exists() else None


async def _status_bytes(child: Child, field: str) -> int | None:
    status = anyio.Path(f"/proc/{child.process.pid}/status")
    if not await status.exists():
        return None
    lines = (await status.read_text()).splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) * 1024
