from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvloop
from anyio.abc import TaskGroup

from client.config import wall_clock_ms
from model.errors import ServiceNotAvailable
from testbed.demo.cluster import run_cluster
from testbed.swarm.members import SwarmOptions, SwarmSink
from testbed.swarm.observer import SwarmSummary
from testbed.swarm.parts import RemotePart, run_parts
from testbed.swarm.run import SwarmRun, split_options
from testbed.swarm.wire import Bunch
from tests.unit.testbed.swarm.small import small_swarm

pytestmark = [pytest.mark.tcp, pytest.mark.process]


@pytest.mark.parametrize("processes", [1, 2])
def test_parts_here_or_in_processes_make_one_swarm(tmp_path: Path, processes: int) -> None:
    async def main() -> SwarmSummary | None:
        async with run_cluster(tmp_path, 1, lambda event: None, wall_clock_ms) as cluster:
            swarm_run = SwarmRun(small_swarm(cluster.name_server, processes))
            with anyio.fail_after(60):
                await swarm_run.run()
            return swarm_run.summary

    summary = uvloop.run(main())
    assert summary is not None
    assert summary.ok
    assert summary.sent == summary.received_unique > 100
    assert (summary.duplicates, summary.double_owner_ms, summary.queues) == (0, 0, 6)
    assert summary.rebalances >= 3


def test_a_part_that_dies_ends_the_swarm_with_an_error_that_names_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with run_cluster(tmp_path, 1, lambda event: None, wall_clock_ms) as cluster:
            await cluster.admin.create_topic("t", 6)
            with anyio.fail_after(60):
                async with run_parts(split_options(small_swarm(cluster.name_server, 2), run=1), Bunch()) as parts:
                    victim: Any = parts[0]
                    os.kill(victim.process.pid, signal.SIGKILL)
                    await anyio.sleep_forever()

    with pytest.raises(ServiceNotAvailable, match=r"part 1 of the swarm ended by itself \(exit code -9\)"):
        uvloop.run(main())


def test_a_part_that_cannot_start_ends_the_swarm() -> None:
    async def main() -> None:
        with anyio.fail_after(60):
            async with run_parts(split_options(small_swarm("127.0.0.1:1", 2), run=1), Bunch()):
                raise AssertionError("not reached")

    with pytest.raises(ServiceNotAvailable, match=r"part [12] of the swarm ended by itself \(exit code 1\)"):
        uvloop.run(main())


def test_parts_that_end_at_the_same_time_end_the_swarm_with_one_error() -> None:
    """A group of errors, one for each part, would pass any `except ServiceNotAvailable`."""

    streams = ExitStack()

    async def two(parts: list[SwarmOptions], sink: SwarmSink, _tasks: TaskGroup) -> AsyncGenerator[RemotePart]:
        for number in range(len(parts)):
            commands, taken = anyio.create_memory_object_stream[bytes](9)
            said, lines = anyio.create_memory_object_stream[bytes](1)
            said.close()
            streams.enter_context(taken)
            streams.enter_context(lines)
            yield RemotePart(f"part {number + 1}", commands, lines, sink)

    async def main() -> None:
        async with run_parts(split_options(small_swarm("127.0.0.1:1", 2), run=1), Bunch(), two):
            await anyio.sleep_forever()

    with streams, pytest.raises(ServiceNotAvailable, match=r"part [12] ended by itself"):
        uvloop.run(main())
