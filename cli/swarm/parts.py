"""Parts of a swarm behind one interface: one in this process, or several in processes of their own."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from typing import NoReturn, Protocol

import anyio
from anyio.abc import Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from cli.servers.children import MODULE, spawn
from cli.swarm.wire import read_line
from model.errors import ServiceNotAvailable
from remoting.tasks import background_tasks
from simulation.swarm.swarm import Swarm, SwarmOptions, SwarmSink, run_swarm

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line of a part; a line holds the events of a twentieth of a second."""
START_TIMEOUT_S = 60.0
LEAVE_TIMEOUT_S = 15.0
"""Time for a part to leave before it is killed; its consumers bound their own steps to less."""


class SwarmPart(Protocol):
    """A part whose consumers have joined."""

    async def produce(self) -> None:
        """Start its producers."""

    async def quiet(self) -> None:
        """Stop its producers; returns when pending sends are acknowledged or have failed."""


class _HerePart:
    """A part in this process."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm

    async def produce(self) -> None:
        self._swarm.start_producing()

    async def quiet(self) -> None:
        await self._swarm.fall_quiet()


class _ProcessPart:
    """A part in a process of its own."""

    def __init__(self, number: int, process: Process, sink: SwarmSink) -> None:
        self.name = f"part {number} of the swarm"
        self.process = process
        self._sink = sink
        self._states: dict[str, anyio.Event] = {state: anyio.Event() for state in ("joined", "produce", "quiet")}
        self._ended = anyio.Event()

    async def listen(self) -> None:
        """Read its lines until it ends."""
        assert self.process.stdout is not None, "its stdout is a pipe"
        lines = BufferedByteReceiveStream(self.process.stdout)
        try:
            while True:
                state = read_line(await lines.receive_until(b"\n", MAX_LINE_BYTES), self._sink)
                if state:
                    self._states[state].set()
        except (anyio.EndOfStream, anyio.IncompleteRead):
            await self.process.wait()
            for event in self._states.values():
                event.set()  # release those who wait for a state that will not come
            self._ended.set()

    async def wait_failed(self) -> NoReturn:
        """Wait until it ends without a request to end, and raise `ServiceNotAvailable` then."""
        await self._ended.wait()
        raise ServiceNotAvailable(f"{self.name} ended by itself (exit code {self.process.returncode})")

    async def reach(self, state: str) -> None:
        await self._states[state].wait()

    async def send(self, line: str) -> None:
        assert self.process.stdin is not None, "its stdin is a pipe"
        # If it has ended, `wait_failed` raises.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.process.stdin.send(line.encode() + b"\n")

    async def produce(self) -> None:
        await self.send("produce")
        await self.reach("produce")

    async def quiet(self) -> None:
        await self.send("quiet")
        await self.reach("quiet")

    async def leave(self) -> None:
        assert self.process.stdin is not None, "its stdin is a pipe"
        await self.process.stdin.aclose()
        with anyio.move_on_after(LEAVE_TIMEOUT_S):
            await self.process.wait()
        if self.process.returncode is None:
            logger.warning("%s did not leave within %g s, and was killed", self.name, LEAVE_TIMEOUT_S)
            self.process.kill()
        await self._ended.wait()  # `listen` reads the pipe to its end, and must not have it closed meanwhile
        await self.process.aclose()


@asynccontextmanager
async def run_parts(parts: list[SwarmOptions], sink: SwarmSink) -> AsyncIterator[list[SwarmPart]]:
    """Run the parts of a swarm while the block runs: a single one in this process, several in processes of their own.

    All consumers have joined when the block begins.

    Raises:
        ConnectFailed: no name server answers.
        ServiceNotAvailable: a process could not start, or ended by itself; the others are stopped.

    Cancellation: all consumers unregister.
    """
    if len(parts) == 1:
        async with run_swarm(parts[0], sink) as swarm:
            yield [_HerePart(swarm)]
        return
    # Lines are read until all parts have left, also when one has failed and the block is being cancelled.
    async with background_tasks() as listening:
        running: list[_ProcessPart] = []
        try:
            for number, options in enumerate(parts, 1):
                running.append(await _start(number, options, sink, listening))
            async with background_tasks() as watching:
                for part in running:
                    watching.start_soon(part.wait_failed)
                await _all_joined(running)
                yield [*running]
        finally:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as leaving:
                    for part in running:
                        leaving.start_soon(part.leave)


async def _all_joined(parts: list[_ProcessPart]) -> None:
    with anyio.move_on_after(START_TIMEOUT_S) as scope:
        for part in parts:
            await part.reach("joined")
    if scope.cancelled_caught:
        raise ServiceNotAvailable(f"the swarm did not join within {START_TIMEOUT_S:g} s")


async def _start(number: int, options: SwarmOptions, sink: SwarmSink, tasks: TaskGroup) -> _ProcessPart:
    part = _ProcessPart(number, await spawn([*MODULE, "cli.swarm.worker"]), sink)
    tasks.start_soon(part.listen)
    values = {field.name: getattr(options, field.name) for field in fields(options) if field.name != "clock_ms"}
    await part.send(json.dumps(values))
    return part
