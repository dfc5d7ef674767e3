"""`rlab cluster`: a name server and brokers as child processes on this machine, started and stopped together.

A child never outlives this process: it holds the reading end of a pipe and stops when that is closed, which also
happens when this process is killed. A signal from the terminal reaches only this process (children have a session of
their own), which then stops the brokers first: they say goodbye to the name server.
"""

from __future__ import annotations

import json as jsonlib
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, NoReturn

import anyio
import typer
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from cli.options import Config, Json
from cli.output import print_json, print_line, print_note
from cli.runtime import run
from model.errors import ServiceNotAvailable
from model.limits import DEFAULT_TOPIC_QUEUES

START_TIMEOUT_S = 30.0
"""How long children may take to come up; a broker with a large log reads the end of it first."""
STOP_TIMEOUT_S = 15.0
"""How long a child may take to stop before it is killed; it bounds its own steps to less."""
REGISTERED_POLL_S = 0.02
_MAX_LINE_BYTES = 4096


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cluster")(cluster)


def cluster(
    brokers: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="How many brokers: broker-a, broker-b, ...")
    ] = 2,
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", min=0, max=65_000, help="Port of the name server; brokers take the next ones. 0: any ports."
        ),
    ] = 9876,
    topic: Annotated[list[str] | None, typer.Option(help="Create this topic; may be repeated.")] = None,
    queues: Annotated[
        int, typer.Option(metavar="N", min=1, help="Queues on each broker, for --topic.")
    ] = DEFAULT_TOPIC_QUEUES,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep messages here; by default they are gone at the end.")
    ] = None,
    auto_create: Annotated[bool, typer.Option(help="Let a send create its topic.")] = True,
    json: Json = False,
    config: Config = None,
) -> None:
    """Run a name server and brokers on this machine.

    They run until they are stopped, or until one of them fails.

    Example: rlab cluster --brokers 2 --topic orders --queues 8
    """

    async def main() -> None:
        with tempfile.TemporaryDirectory(prefix="rlab-") if data is None else nullcontext(data) as directory:
            names = [f"broker-{letters(index)}" for index in range(brokers)]
            async with _started("namesrv", ["namesrv", "--listen", f"127.0.0.1:{port}"]) as name_server:
                flags = ["--namesrv", name_server.address, "--auto-create" if auto_create else "--no-auto-create"]
                async with _all_started(
                    [
                        (
                            name,
                            ["broker", "--name", name, "--data", f"{directory}/{name}", *flags, *listen_flags(port, n)],
                        )
                        for n, name in enumerate(names, 1)
                    ]
                ) as children:
                    await _prepare(name_server.address, names, topic or [], queues)
                    _announce(name_server.address, children, as_json=json)
                    await _first_end([name_server, *children])

    run(main, endless=True)


def letters(index: int) -> str:
    """Count in letters: 0 -> a, 25 -> z, 26 -> aa."""
    more, letter = divmod(index, 26)
    return (letters(more - 1) if more else "") + chr(ord("a") + letter)


def listen_flags(port: int, n: int) -> list[str]:
    """Where broker number `n` (from 1) listens, when the name server was told to listen on `port`."""
    return ["--listen", f"127.0.0.1:{port + n if port else 0}"]


class Child:
    """A daemon in a process of its own.

    Attributes:
        name: what to call it.
        process: the process.
        address: `host:port` that it listens on.
        said: all that the line told in which it said so.
    """

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.address = ""
        self.said: dict[str, Any] = {}

    async def wait_ready(self) -> None:
        """Wait for the line in which it tells its address.

        Raises:
            ServiceNotAvailable: it ended instead. It has said why on stderr, which is ours as well.
        """
        assert self.process.stdout is not None, "its stdout is a pipe"
        try:
            line = await BufferedByteReceiveStream(self.process.stdout).receive_until(b"\n", _MAX_LINE_BYTES)
        except (anyio.EndOfStream, anyio.IncompleteRead):
            code = await self.process.wait()
            raise ServiceNotAvailable(f"{self.name} did not start (exit code {code})") from None
        self.said = jsonlib.loads(line)
        self.address = self.said["address"]

    async def stop(self) -> None:
        """Ask it to stop, and make it after a while. Idempotent."""
        if self.process.returncode is None:
            self.process.terminate()
            with anyio.move_on_after(STOP_TIMEOUT_S):
                await self.process.wait()
        if self.process.returncode is None:
            print_note(f"{self.name} does not stop and is killed")
            self.process.kill()
        await self.process.aclose()


@asynccontextmanager
async def _started(name: str, arguments: Sequence[str]) -> AsyncIterator[Child]:
    async with _all_started([(name, arguments)]) as (child,):
        yield child


@asynccontextmanager
async def _all_started(commands: Sequence[tuple[str, Sequence[str]]]) -> AsyncIterator[list[Child]]:
    """Run `rlab` commands as children while the block runs; all start, and later stop, at the same time."""
    children: list[Child] = []
    try:
        for name, arguments in commands:
            # -P: a folder of the user that is called cli must not take our place.
            command = [sys.executable, "-P", "-m", "cli.main", *arguments, "--json", "--exit-with-stdin"]
            children.append(Child(name, await anyio.open_process(command, stderr=None, start_new_session=True)))
        with anyio.move_on_after(START_TIMEOUT_S) as scope:
            for child in children:
                await child.wait_ready()
        if scope.cancelled_caught:
            raise ServiceNotAvailable(f"{', '.join(c.name for c in children if not c.address)} did not start in time")
        yield children
    finally:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for child in children:
                    tasks.start_soon(child.stop)


async def _prepare(name_server: str, brokers: Sequence[str], topics: Sequence[str], queues: int) -> None:
    """Wait until every broker is registered, then create topics."""
    from client.admin.admin import Admin

    async with Admin(name_server) as admin:
        with anyio.move_on_after(START_TIMEOUT_S) as scope:
            while True:
                if set(brokers) <= {broker.broker_name for broker in await admin.brokers()}:
                    break
                await anyio.sleep(REGISTERED_POLL_S)
        if scope.cancelled_caught:
            raise ServiceNotAvailable(f"the brokers did not register within {START_TIMEOUT_S:g} s")
        for topic in topics:
            await admin.create_topic(topic, queues)


def _announce(name_server: str, brokers: Sequence[Child], *, as_json: bool) -> None:
    if as_json:
        addresses = {child.name: child.address for child in brokers}
        print_json({"kind": "cluster", "name": "cluster", "address": name_server, "brokers": addresses})
        return
    for child in brokers:
        print_line(f"broker {child.name} listens on {child.address}")
    print_line(f"cluster is ready; name server {name_server}")


async def _first_end(children: Sequence[Child]) -> NoReturn:
    """Wait until a child ends, which none should."""
    ended: list[Child] = []

    async def watch(child: Child) -> None:
        await child.process.wait()
        ended.append(child)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for child in children:
            tasks.start_soon(watch, child)
    first = ended[0]
    raise ServiceNotAvailable(
        f"{first.name} ended by itself (exit code {first.process.returncode}); the rest of the cluster was stopped"
    )
