from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvloop

from client.allocate import AllocateMessageQueueAveragely
from client.config import wall_clock_ms
from process.lines import read_lines
from remoting.tasks import background_tasks
from testbed.demo.cluster import run_cluster
from testbed.swarm.members import SwarmOptions
from testbed.swarm.observer import SwarmObserver
from testbed.swarm.wire import read_line
from testbed.swarm.worker import work

pytestmark = pytest.mark.tcp


class Boss:
    """The other end of a worker's pipes."""

    def __init__(self, options: SwarmOptions, stdin: int, stdout: int) -> None:
        self.observer = SwarmObserver("g", "t", AllocateMessageQueueAveragely())
        self._stdin = stdin
        self._lines = read_lines(stdout)
        reported = {field.name: getattr(options, field.name) for field in fields(options) if field.name != "clock_ms"}
        self.say(json.dumps(reported))

    def say(self, line: str) -> None:
        os.write(self._stdin, line.encode() + b"\n")

    def leave(self) -> None:
        os.close(self._stdin)

    async def receive_a_line(self) -> None:
        async for _, line in self._lines:
            read_line(line, self.observer)
            return

    async def receive(self, state: str = "") -> None:
        """Read until a state, or until the end."""
        async for _, line in self._lines:
            if read_line(line, self.observer) == state != "":
                return


@asynccontextmanager
async def worker(tmp_path: Path, **options: Any) -> AsyncIterator[Boss]:
    stdin, boss_out = os.pipe()
    boss_in, stdout = os.pipe()

    async def run() -> None:
        try:
            await work(stdin, stdout)
        finally:
            os.close(stdin)
            os.close(stdout)

    async with run_cluster(tmp_path, 1, lambda event: None, wall_clock_ms) as cluster:
        route = await cluster.admin.create_topic("t", 4)
        reported = SwarmOptions(
            name_servers=cluster.name_server, topic="t", group="g", run=1, prefix="w", rate=200.0, **options
        )
        async with background_tasks() as tasks:
            tasks.start_soon(run)
            boss = Boss(reported, boss_out, boss_in)
            boss.observer.set_queues(route.subscribe_queues(), wall_clock_ms())
            yield boss
        os.close(boss_in)


def test_a_worker_joins_produces_falls_quiet_and_leaves_as_it_is_reported(tmp_path: Path) -> None:
    async def main() -> None:
        with anyio.fail_after(20):
            async with worker(tmp_path, consumers=2, producers=1) as boss:
                await boss.receive("joined")
                while not boss.observer.balanced or boss.observer.summary().consumers < 2:
                    await boss.receive_a_line()
                boss.say("produce")
                await boss.receive("produce")
                while boss.observer.check.received_unique < 20:
                    await boss.receive_a_line()
                boss.say("quiet")
                await boss.receive("quiet")
                boss.leave()
                await boss.receive()
                summary = boss.observer.summary()
                assert summary.sent >= 20
                assert summary.lost == summary.duplicates == 0
                assert (summary.consumers, summary.ok) == (0, True)

    uvloop.run(main())


def test_a_worker_whose_boss_is_gone_before_it_began_ends() -> None:
    async def main() -> None:
        stdin, boss_out = os.pipe()
        os.close(boss_out)
        with anyio.fail_after(5):
            await work(stdin, stdout=-1)
        os.close(stdin)

    uvloop.run(main())
