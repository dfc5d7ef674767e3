"""A Kafka broker from the jars of `make peers`: one KRaft node, broker and controller in one process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from model.errors import ServiceNotAvailable
from testbed.bench.peers.systems.server import server_process
from testbed.cluster.ports import free_port

JARS = Path(sys.prefix) / "peers" / "kafka"
"""The folder to which `make peers` copies the jars."""
PARTITIONS = 8
"""Partitions of a topic that a client creates by writing to it."""
SETTINGS = (
    "one KRaft node, heap 1 GiB, 8 partitions, one replica, log flush by default (the system's), no initial delay"
)
_CLUSTER_ID = "cmViYWxhbmNlLWxhYi1iZQ"
_HEAP = ("-Xms1g", "-Xmx1g")


@asynccontextmanager
async def kafka_process(folder: Path, jars: Path = JARS) -> AsyncIterator[str]:
    """Format a folder and run a broker there while the block runs; yields its address.

    Raises:
        ServiceNotAvailable: it does not start.
    """
    port, controller = free_port(), free_port()
    config = folder / "server.properties"
    config.write_text(_properties(port, controller, folder / "log"))
    java = ["java", *_HEAP, "-cp", f"{jars}/*"]
    format_folder = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)]
    done = await anyio.run_process(format_folder, check=False)
    if done.returncode:
        raise ServiceNotAvailable(f"kafka cannot format its folder: {done.stderr.decode(errors='replace')[-500:]}")
    async with server_process("kafka", [*java, "kafka.Kafka", str(config)], port, folder) as address:
        yield address


def _properties(port: int, controller: int, folder: Path) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder),
        "num.partitions": str(PARTITIONS),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
