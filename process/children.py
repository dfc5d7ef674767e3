"""Starts child processes that run our own modules, waits until they announce their address, and stops them with us.

A child never outlives this process: it holds the reading end of a pipe and stops when the pipe is closed, which also
happens when this process is killed. A signal from the terminal reaches only this process, because each child has its
own session; this process then stops the children in the right order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import IO, Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from model.errors import InvalidParameter, ServiceNotAvailable
from model.limits import MAX_ORDER_BYTES
from process.output import print_note

MODULE = (sys.executable, "-P", "-m")
"""Start of a command that runs one of our modules. -P: a folder "cli" in the working directory must not shadow ours."""
DAEMON = ("--json", "--exit-with-stdin")
"""Options of a daemon that is a child: it announces itself as JSON, and stops when its standard input is closed."""
START_TIMEOUT_S = 30.0
"""Time limit for children to start; a broker with a large log first reads the end of it."""
ORDER_TIMEOUT_S = 5.0
"""Time limit for a child to answer an order."""
STOP_TIMEOUT_S = 15.0
"""Time limit for a child to stop before it is killed; the limits of its own shutdown steps are shorter."""
_MAX_LINE_BYTES = 4096


def broker_name(index: int) -> str:
    """The name of a broker among several: 0 -> broker-a, 25 -> broker-z, 26 -> broker-aa."""
    letters, rest = "", index + 1
    while rest:
        rest, letter = divmod(rest - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return f"broker-{letters}"


Start = Callable[[Sequence[str]], Awaitable[Process]]
"""Starts the process of a command, as `spawn` does."""


async def spawn(command: Sequence[str], *, stderr: int | IO[bytes] | None = None) -> Process:
    """Start a command in its own session; by default it writes to our standard error."""
    return await anyio.open_process(command, stderr=stderr, start_new_session=True)


class Child:
    """A daemon in a child process.

    `address`, `host:port`, is empty until the daemon has announced it; `announced` is the whole JSON document.
    """

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.address = ""
        self.announced: dict[str, Any] = {}
        self._lines: BufferedByteReceiveStream | None = None
        self._asking = anyio.Lock()
        self._orders = 0

    async def wait_ready(self) -> None:
        """Wait for the line in which the child announces its address.

        Raises:
            ServiceNotAvailable: the child ended instead. The reason is on its standard error.
        """
        assert self.process.stdout is not None, "its stdout is a pipe"
        try:
            self._lines = BufferedByteReceiveStream(self.process.stdout)
            line = await self._lines.receive_until(b"\n", _MAX_LINE_BYTES)
        except (anyio.EndOfStream, anyio.IncompleteRead):
            code = await self.process.wait()
            raise ServiceNotAvailable(f"{self.name} did not start (exit code {code})") from None
        self.announced = json.loads(line)
        self.address = self.announced["address"]

    async def ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Send the daemon one of the orders that `orders.py` lists; returns its answer.

        Raises:
            ServiceNotAvailable: the daemon does not answer, because it has ended or hangs.
            InvalidParameter: the daemon refuses the order.

        Cancellation: the order may have been carried out.
        """
        assert self._lines is not None, "it has announced itself"
        assert self.process.stdin is not None, "its stdin is a pipe"
        try:
            async with self._asking:
                with anyio.fail_after(ORDER_TIMEOUT_S):
                    self._orders += 1
                    await self.process.stdin.send(json.dumps({"order": self._orders, **order}).encode() + b"\n")
                    answer: dict[str, Any] = {}
                    while answer.get("order") != self._orders:  # skip answers that came after their timeout
                        answer = json.loads(await self._lines.receive_until(b"\n", MAX_ORDER_BYTES))
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise ServiceNotAvailable(f"{self.name} has ended") from None
        except TimeoutError:
            raise ServiceNotAvailable(f"{self.name} does not answer: is it paused?") from None
        if "error" in answer:
            raise InvalidParameter(answer["error"])
        return answer

    async def stop(self) -> None:
        """Stop the child with SIGTERM, and kill it after `STOP_TIMEOUT_S`. Idempotent."""
        if self.process.returncode is None:
            self.process.terminate()
            with anyio.move_on_after(STOP_TIMEOUT_S):
                await self.process.wait()
        if self.process.returncode is None:
            print_note(f"{self.name} does not stop and is killed")
            self.process.kill()
        await self.process.aclose()


@asynccontextmanager
async def children(
    commands: Iterable[tuple[str, Sequence[str]]],
    start: Start = spawn,
    then: Iterable[tuple[str, Sequence[str]]] = (),
) -> AsyncIterator[list[Child]]:
    """Run commands, each with a name, as children while the block runs; all start, and later stop, at the same time.

    Those of `then` start when the others are ready.

    Raises:
        ServiceNotAvailable: a child did not start.

    Cancellation: all children are stopped.
    """
    started: list[Child] = []
    try:
        await _start_all(commands, start, started)
        await _start_all(then, start, started)
        yield started
    finally:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for child in started:
                    tasks.start_soon(child.stop)


async def _start_all(commands: Iterable[tuple[str, Sequence[str]]], start: Start, started: list[Child]) -> None:
    for name, command in commands:
        started.append(Child(name, await start(command)))
    with anyio.move_on_after(START_TIMEOUT_S) as scope:
        for child in started:
            if not child.address:
                await child.wait_ready()
    if scope.cancelled_caught:
        late = ", ".join(child.name for child in started if not child.address)
        raise ServiceNotAvailable(f"{late} did not start within {START_TIMEOUT_S:g} s")


@asynccontextmanager
async def module_process(
    name: str, module: str, *arguments: str, stderr: int | IO[bytes] | None = None
) -> AsyncIterator[Child]:
    """Run one module as a child while the block runs; see `children`."""
    start = partial(spawn, stderr=stderr)
    async with children([(name, [*MODULE, module, *arguments])], start) as (child,):
        yield child
