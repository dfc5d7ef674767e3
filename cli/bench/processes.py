"""Servers of a benchmark, each in a process of its own: they must not share an interpreter with what is measured.

A child says its address in one line on standard output and stops when its standard input ends. So it goes away with its
parent however that ends, and needs no signal: it stands in a session of its own, out of reach of the terminal's Ctrl-C.

    async with server_process("broker", name="a", data_dir="...", name_server="127.0.0.1:9876") as broker:
        broker.address, await broker.rss_bytes()
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import uvloop
from anyio.abc import Process

from broker.config import BrokerConfig
from broker.server import run_broker
from cli.bench.echo import run_echo_server
from client.admin import Admin
from model.errors import ConfigError
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server

LISTEN = "127.0.0.1:0"
_START_S = 30.0
_STOP_S = 20.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that runs in a child process.

    Attributes:
        address: `host:port` that it listens on.
        pid: its process id.
    """

    address: str
    pid: int

    async def rss_bytes(self) -> int:
        """Its resident memory. Cancellation: harmless."""
        status = anyio.Path(f"/proc/{self.pid}/status")
        if await status.exists():
            lines = (await status.read_text()).splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024
        # Not Linux. There `ps` is part of the system; in a slim container it may be missing.
        done = await anyio.run_process(["ps", "-o", "rss=", "-p", str(self.pid)])
        return int(done.stdout) * 1024


@asynccontextmanager
async def server_process(kind: str, **options: object) -> AsyncIterator[ServerProcess]:
    """Run a server in a child process while the block runs.

    Args:
        kind: a name of `_SERVERS`.
        **options: arguments of that function.

    Yields:
        The server, already listening.

    Raises:
        ConfigError: it did not start; what it had to say stands on standard error.

    Cancellation: the process is stopped before it goes on.
    """
    command = [sys.executable, "-m", "cli.bench.processes", kind, json.dumps(options)]
    process = await anyio.open_process(command, stderr=None, start_new_session=True)
    try:
        yield ServerProcess(await _address(process, kind), process.pid)
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


async def _address(process: Process, kind: str) -> str:
    assert process.stdout is not None, "a pipe was asked for"
    line = b""
    with anyio.move_on_after(_START_S):
        async for part in process.stdout:
            line += part
            if line.endswith(b"\n"):
                return line.decode().strip()
    raise ConfigError(f"the {kind} of the benchmark did not start")


async def _stop(process: Process) -> None:
    assert process.stdin is not None, "a pipe was asked for"
    await process.stdin.aclose()
    with anyio.move_on_after(_STOP_S) as scope:
        await process.wait()
    if scope.cancelled_caught:
        process.kill()
        await process.wait()
    await process.aclose()


@dataclass(frozen=True, slots=True)
class ClusterProcesses:
    """A name server and its brokers.

    Attributes:
        name_server: its address.
        brokers: in order of their names.
    """

    name_server: str
    brokers: tuple[ServerProcess, ...]


@asynccontextmanager
async def cluster_processes(
    topics: dict[str, int], *, brokers: int = 1, trace: bool = True
) -> AsyncIterator[ClusterProcesses]:
    """Run a cluster, each server in its own process, with files in a temporary folder.

    Args:
        topics: queues per broker, by the name of the topic to create.
        brokers: how many.
        trace: whether brokers record events.

    Yields:
        The cluster; every topic is in the route of its name server.

    Raises:
        ConfigError: a server did not start.
        RlabError: a topic could not be created.

    Cancellation: the servers are stopped and the folder removed.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlab-bench-")))
        name_server = (await stack.enter_async_context(server_process("namesrv"))).address
        running = []
        for number in range(brokers):
            name = f"broker-{chr(ord('a') + number)}"
            options = {"name": name, "data_dir": str(folder / name), "name_server": name_server, "trace": trace}
            running.append(await stack.enter_async_context(server_process("broker", **options)))
        async with Admin(name_server) as admin:
            # A broker registers in the background, and nothing announces that a name server has heard of it.
            while len(await admin.brokers()) < brokers:  # noqa: ASYNC110
                await anyio.sleep(_POLL_S)
            for topic, queues in topics.items():
                await admin.create_topic(topic, queues)
        yield ClusterProcesses(name_server, tuple(running))


# --- the child -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _name_server() -> AsyncIterator[str]:
    async with run_name_server(NameServerConfig(listen=LISTEN)) as server:
        yield server.address


@asynccontextmanager
async def _broker(*, name: str, data_dir: str, name_server: str, trace: bool) -> AsyncIterator[str]:
    config = BrokerConfig(name=name, data_dir=Path(data_dir), name_servers=(name_server,), listen=LISTEN, trace=trace)
    async with run_broker(config) as broker:
        yield broker.address


_SERVERS: dict[str, Callable[..., AbstractAsyncContextManager[str]]] = {
    "broker": _broker,
    "echo": run_echo_server,
    "namesrv": _name_server,
}


async def _serve(kind: str, options: dict[str, Any]) -> None:
    async with _SERVERS[kind](**options) as address:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], json.loads(sys.argv[2])))
