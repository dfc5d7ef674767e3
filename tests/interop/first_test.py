"""The servers of three systems as servers of a test: how soon its first message arrives, and what they weigh.

    python -m tests.interop.first_test 5

Each run starts servers anew in an empty folder, then creates a topic, sends one message and receives it in a group, as
the first test of a project does. The systems take turns, so many times: `rlab cluster` of this project; name server and
broker of RocketMQ, and a node of Kafka, both from Maven as `rlab bench` starts them (`make peers` gets Kafka). It
prints a row of each for the README: the medians, and the least and the most. Linux only: /proc has memory and CPU time,
of which the second hardly depends on what else the machine does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import anyio

from client import Admin, ConsumeFrom, Message, Producer, PushConsumer
from testbed.bench.peers.systems.aiokafka_peer import AioKafka
from tests.interop.servers import RLAB, ROCKETMQ_VERSIONS, broker_of_rocketmq, jars_of, say

TOPIC, GROUP, BODY, TIMEOUT_S = "first", "first-group", b"hello", 60.0
Servers = Callable[[Path], AbstractAsyncContextManager[str]]
"""Runs servers with their files in a folder; yields the address for clients."""


class Run(NamedTuple):
    """The figures of one run of one system."""

    first_s: float
    cpu_s: float
    """The CPU time of all processes until then, the client's included."""
    memory_bytes: int


@contextmanager
def _ours(folder: Path) -> Iterator[str]:
    command = [*RLAB, "cluster", "--brokers", "1", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield [process.stdout.readline() for _ in range(2)][-1].split()[-1]
        process.terminate()


@contextmanager
def _rocketmq(jars: str, _folder: Path) -> Iterator[str]:
    with broker_of_rocketmq(jars) as broker:
        yield broker.name_server


def _awaited(servers: Callable[[Path], AbstractContextManager[str]]) -> Servers:
    @asynccontextmanager
    async def awaited(folder: Path) -> AsyncIterator[str]:
        with servers(folder) as address:
            yield address

    return awaited


async def _first_message(address: str, dialect: str) -> None:
    arrived = anyio.Event()

    async def on_messages(messages: object) -> None:
        arrived.set()

    async with Admin(address, dialect=dialect) as admin:
        await admin.create_topic(TOPIC, queues=4)
    async with Producer(address, dialect=dialect) as producer:
        await producer.send(Message(TOPIC, BODY))
    consumer = PushConsumer(address, GROUP, consume_from=ConsumeFrom.FIRST_OFFSET, dialect=dialect)
    await consumer.subscribe(TOPIC, on_messages)
    async with consumer:
        await arrived.wait()


async def _first_record(address: str, _dialect: str) -> None:
    kafka, arrived = AioKafka(), anyio.Event()
    await kafka.create(address, TOPIC)
    async with kafka.sender(address, TOPIC) as sender, anyio.create_task_group() as tasks:
        await sender.send(BODY)
        tasks.start_soon(kafka.consume, address, TOPIC, GROUP, 1, lambda _records: arrived.set())
        await arrived.wait()
        tasks.cancel_scope.cancel()


def _children() -> tuple[float, int]:
    """The CPU time in seconds and the memory of all processes below this one; shared pages are counted once."""
    parents, cpu_s = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        words = status.read_text().rpartition(")")[2].split()
        process = int(status.parent.name)
        parents[process] = int(words[1])
        cpu_s[process] = sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")
    below, found = {os.getpid()}, 0
    while len(below) > found:
        found = len(below)
        below |= {child for child, parent in parents.items() if parent in below}
    below.remove(os.getpid())
    pages = [Path(f"/proc/{each}/smaps_rollup").read_text() for each in below]
    return sum(cpu_s[each] for each in below), sum(1024 * int(each.partition("\nPss:")[2].split()[0]) for each in pages)


def _own_cpu_s() -> float:
    """The CPU time of this process, and of its children that have ended."""
    return sum(os.times()[:4])


async def _run(servers: Servers, dialect: str) -> Run:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        began, had_cpu_s = time.perf_counter(), _own_cpu_s()
        async with servers(Path(folder)) as address:
            with anyio.fail_after(TIMEOUT_S):
                await (_first_record if dialect == "kafka" else _first_message)(address, dialect)
            took_s = time.perf_counter() - began
            cpu_s, memory_bytes = _children()
            return Run(took_s, cpu_s + _own_cpu_s() - had_cpu_s, memory_bytes)


def main() -> None:
    """Measure, and print a row of each system."""
    with tempfile.TemporaryDirectory() as directory:
        systems: dict[str, tuple[Servers, str]] = {"rebalance-lab": (_awaited(_ours), "rlab")}
        newest = ROCKETMQ_VERSIONS[-1]
        if (jars := jars_of("servers.xml", newest, Path(directory))) is not None:
            systems[f"RocketMQ {newest}"] = (_awaited(partial(_rocketmq, jars)), "rocketmq")
        systems["Kafka"] = (AioKafka().serve, "kafka")
        runs: dict[str, list[Run]] = {name: [] for name in systems}
        for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
            for name, (servers, dialect) in systems.items():
                runs[name].append(anyio.run(_run, servers, dialect))
                say(f"{name}: {runs[name][-1]}")
        for name, figures in runs.items():
            cells = map(_cell, zip(*figures, strict=True), (1.0, 1.0, 1e6), ("s", "s", "MB"))
            say(f"| {name} | {' | '.join(cells)} |")


def _cell(values: Sequence[float], unit: float, word: str) -> str:
    middle, least, most = (f"{each(values) / unit:.3g}" for each in (median, min, max))
    return f"{middle} {word} ({least} to {most})"


if __name__ == "__main__":
    main()
