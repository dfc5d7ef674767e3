"""Parts of a swarm behind one interface: one part in this process, or several in their own processes."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import fields
from typing import NoReturn, Protocol

import anyio
from anyio.abc import AnyByteReceiveStream, AnyByteSendStream, Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from model.errors import ServiceNotAvailable
from process.children import MODULE, spawn
from remoting.tasks import background_tasks
from testbed.swarm.members import Swarm, SwarmOptions, SwarmSink, run_swarm
from testbed.swarm.wire import read_line

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line of a part; a line has the events of a twentieth of a second."""
START_TIMEOUT_S = 60.0
LEAVE_TIMEOUT_S = 15.0
"""Time for a part to leave before it is killed; its consumers have shorter limits for their own steps."""


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


class RemotePart:
    """A part elsewhere, run by `worker.py`. It receives commands, and sends lines."""

    def __init__(self, name: str, commands: AnyByteSendStream, lines: AnyByteReceiveStream, sink: SwarmSink) -> None:
        self.name = name
        self._commands = commands
        self._lines = BufferedByteReceiveStream(lines)
        self._sink = sink
        self._states: dict[str, anyio.Event] = {state: anyio.Event() for state in ("joined", "produce", "quiet")}
        self._ended = anyio.Event()

    async def listen(self) -> None:
        """Read its lines until it ends."""
        try:
            while True:
                state = read_line(await self._lines.receive_until(b"\n", MAX_LINE_BYTES), self._sink)
                if state:
                    self._states[state].set()
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            # Closed: `stop` has no other way to end a part that is elsewhere.
            await self.wait()
            for event in self._states.values():
                event.set()  # wake the tasks that wait for a state that will not come
            self._ended.set()

    async def wait(self) -> None:
        """Wait until its process or task has ended, after its last line."""

    def reason(self) -> str:
        """The reason why it has ended, if it is known in this process."""
        return "see above"

    async def ended(self) -> None:
        """Wait until it has ended and its last line has been read."""
        await self._ended.wait()

    async def reach(self, state: str) -> None:
        """Wait until it reports that it has reached a state, or has ended."""
        await self._states[state].wait()

    async def send(self, line: str) -> None:
        """Send a command."""
        # If it has ended, `_raise_when_one_ends` raises the error.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._commands.send(line.encode() + b"\n")

    async def send_options(self, options: SwarmOptions) -> None:
        """Send the options, which are the first line that a part reads."""
        values = {field.name: getattr(options, field.name) for field in fields(options) if field.name != "clock_ms"}
        await self.send(json.dumps(values))

    async def produce(self) -> None:
        """See `SwarmPart`."""
        await self.send("produce")
        await self.reach("produce")

    async def quiet(self) -> None:
        """See `SwarmPart`."""
        await self.send("quiet")
        await self.reach("quiet")

    async def leave(self) -> None:
        """Let its consumers leave and wait until they have left; stop it after `LEAVE_TIMEOUT_S`."""
        await self.end_commands()
        with anyio.move_on_after(LEAVE_TIMEOUT_S):
            await self._ended.wait()
        if not self._ended.is_set():
            logger.warning("%s did not leave within %g s, and was stopped", self.name, LEAVE_TIMEOUT_S)
            await self.stop()
        await self._ended.wait()  # `listen` reads to the end, so the part must not be closed before
        await self.close()

    async def end_commands(self) -> None:
        """End its commands; it leaves then."""
        await self._commands.aclose()

    async def stop(self) -> None:
        """End it although its consumers have not left."""

    async def close(self) -> None:
        """Release its process or connection."""


class ProcessPart(RemotePart):
    """A part in its own process."""

    def __init__(self, number: int, process: Process, sink: SwarmSink) -> None:
        assert process.stdin is not None, "its stdin is a pipe"
        assert process.stdout is not None, "its stdout is a pipe"
        super().__init__(f"part {number} of the swarm", process.stdin, process.stdout, sink)
        self.process = process

    async def wait(self) -> None:
        """See `RemotePart`."""
        await self.process.wait()

    def reason(self) -> str:
        """See `RemotePart`."""
        return f"exit code {self.process.returncode}"

    async def stop(self) -> None:
        """See `RemotePart`."""
        self.process.kill()

    async def close(self) -> None:
        """See `RemotePart`."""
        await self.process.aclose()


OpenParts = Callable[[list[SwarmOptions], SwarmSink, TaskGroup], AsyncGenerator[RemotePart]]
"""Starts parts elsewhere, one after the other, and yields each."""


@asynccontextmanager
async def run_parts(
    parts: list[SwarmOptions], sink: SwarmSink, elsewhere: OpenParts | None = None
) -> AsyncIterator[list[SwarmPart]]:
    """Run the parts of a swarm while the block runs: a single part in this process, several in their own processes.

    All consumers have joined when the block begins. If `elsewhere` is given, it opens all parts.

    Raises:
        ConnectFailed: no name server answers.
        ServiceNotAvailable: a process could not start, or ended by itself; the others are stopped.

    Cancellation: all consumers unregister.
    """
    if len(parts) == 1 and elsewhere is None:
        async with run_swarm(parts[0], sink) as swarm:
            yield [_HerePart(swarm)]
        return
    # Lines are read until all parts have left, even if one has failed and the block is being cancelled.
    async with background_tasks() as listening:
        running: list[RemotePart] = []
        try:
            async with aclosing((elsewhere or _processes)(parts, sink, listening)) as opening:
                async for part in opening:
                    running.append(part)
                    listening.start_soon(part.listen)
            for part, options in zip(running, parts, strict=True):
                await part.send_options(options)
            async with background_tasks() as watching:
                watching.start_soon(_raise_when_one_ends, running)
                await _all_joined(running)
                yield [*running]
        finally:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as leaving:
                    for part in running:
                        leaving.start_soon(part.leave)


async def _raise_when_one_ends(parts: list[RemotePart]) -> NoReturn:
    """Raise `ServiceNotAvailable` for the first part that ends by itself: several often end for one reason."""
    ended_parts: list[RemotePart] = []
    async with anyio.create_task_group() as waiting:

        async def wait(part: RemotePart) -> None:
            await part.ended()
            ended_parts.append(part)
            waiting.cancel_scope.cancel()

        for part in parts:
            waiting.start_soon(wait, part)
    raise ServiceNotAvailable(f"{ended_parts[0].name} ended by itself ({ended_parts[0].reason()})")


async def _all_joined(parts: list[RemotePart]) -> None:
    with anyio.move_on_after(START_TIMEOUT_S) as scope:
        for part in parts:
            await part.reach("joined")
    if scope.cancelled_caught:
        raise ServiceNotAvailable(f"the swarm did not join within {START_TIMEOUT_S:g} s")


async def _processes(parts: list[SwarmOptions], sink: SwarmSink, tasks: TaskGroup) -> AsyncGenerator[RemotePart]:
    for number in range(1, len(parts) + 1):
        yield ProcessPart(number, await spawn([*MODULE, "testbed.swarm.worker"]), sink)
