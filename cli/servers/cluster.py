"""`rlab cluster`: a name server and brokers as child processes on this machine, started and stopped together.

Brokers stop before their name server, because they unregister from it.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import anyio
import typer

from cli.options import AutoCreate, Config, Json, switch
from cli.servers.console import CONSOLE_PORT, AllowChanges
from cli.servers.options import ExitWithStdin
from model.errors import ServiceNotAvailable
from model.limits import DEFAULT_TOPIC_QUEUES
from model.replica_limits import MAX_REPLICAS
from process.children import DAEMON, MODULE, Child, Start, broker_name, children, spawn
from process.cluster_folder import cluster_folder
from process.output import print_json, print_line, print_note
from process.runtime import run, wait_for_eof
from testbed.cluster.cluster_bed import ClusterBed, restarts
from testbed.cluster.registered import wait_registered

ClusterCopies = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, max=MAX_REPLICAS, help="Replicas of each broker, the master counted: broker-a-1, ..."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cluster")(cluster)


def cluster(
    brokers: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Number of brokers: broker-a, broker-b, ...")
    ] = 2,
    copies: ClusterCopies = 1,
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65_000,
            help="Port of the name server; brokers take the ports after it. 0 takes free ports.",
        ),
    ] = 9876,
    topic: Annotated[list[str] | None, typer.Option(help="Create this topic; may be repeated.")] = None,
    queues: Annotated[
        int, typer.Option(metavar="N", min=1, help="Queues on each broker of each --topic.")
    ] = DEFAULT_TOPIC_QUEUES,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Store messages here; by default they are deleted at the end.")
    ] = None,
    auto_create: AutoCreate = True,
    metrics: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65_000,
            help="Serve metrics: the name server on this port, brokers on the ports after it. 0 takes free ports.",
        ),
    ] = None,
    console: Annotated[
        bool, switch("--console", help_text="Serve the console on port 9480, or a free one with --port 0.")
    ] = False,
    allow_changes: AllowChanges = False,
    control: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65_000,
            help="Serve the control plane for tests (docs/testing.md) on this port of 127.0.0.1; 0 takes a free one.",
        ),
    ] = None,
    json: Json = False,
    config: Config = None,
    exit_with_stdin: ExitWithStdin = False,
) -> None:
    """Run a name server and brokers on this machine.

    They run until this command is stopped, or until one of them fails; with --copies, until the name server or all
    replicas have failed. With --console and --allow-changes, pages may kill and pause brokers, and add consumers.

    Example: rlab cluster --brokers 2 --topic orders --queues 8
    """

    async def main() -> None:
        with cluster_folder() if data is None else nullcontext(data) as directory:
            elections = ("--elections", f"{directory}/elections") if copies > 1 else ()
            commands = {"namesrv": _name_server_command(port, metrics, *elections)}
            async with children(commands.items(), start) as name_servers:
                [name_server] = name_servers
                flags = ("--namesrv", name_server.address, "--auto-create" if auto_create else "--no-auto-create")
                for n, (name, options) in enumerate(server_options(brokers, copies).items(), 1):
                    ports = (*listen_flags(port, n), *metrics_flags(metrics, n))
                    commands[name] = _broker_command(f"{directory}/{name}", *options, *flags, *ports, *DAEMON)
                of_brokers = list(commands.items())[1:]
                async with children(of_brokers[:brokers], start, of_brokers[brokers:]) as started:
                    await _prepare(name_server.address, started, topic or [], queues)
                    commands_again = restarts([*name_servers, *started], commands)
                    bed = ClusterBed(name_servers, started, commands_again, start)
                    async with (
                        _consoled(bed, name_server, _console_listens(console, port), allow_changes) as console_at,
                        _controlled(bed, name_server, control) as controlled,
                    ):
                        _announce(name_server, started, console_at, controlled, as_json=json)
                        await _first_end(bed, commands_again if copies > 1 else {}, exit_with_stdin)

    with _starting(as_forks=control is not None) as start:
        run(main, endless=True)


def _console_listens(console: bool, port: int) -> str:
    """The listen address of the page: a free port if the servers take free ones; empty without a page."""
    return f"127.0.0.1:{CONSOLE_PORT if port else 0}" if console else ""


@contextmanager
def _starting(*, as_forks: bool) -> Iterator[Start]:
    """The function that starts the servers while the block runs."""
    if not as_forks:
        yield spawn
        return
    from testbed.cluster.control.starter import starter

    with starter() as start:
        import testbed.cluster.control.http  # noqa: F401  # at the same time the starter imports the servers

        yield start


async def _first_end(bed: ClusterBed, commands_again: Mapping[str, Sequence[str]], exit_with_stdin: bool) -> None:
    """Wait until standard input ends, if that is to end the cluster.

    A broker that is in `commands_again` may end by itself; its command there starts it again.

    Raises:
        ServiceNotAvailable: another server ended by itself, or the last broker.
    """
    first: list[Child] = []
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (child := await bed.first_end()).name in commands_again and bed.leave_out(child):
                command = shlex.join(["rlab", *commands_again[child.name][len(MODULE) + 1 : -len(DAEMON)]])
                print_note(f"{_ending(child)}; the others go on. To start it again: {command}")
            first.append(child)
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        if exit_with_stdin:
            await wait_for_eof()
            tasks.cancel_scope.cancel()
    for child in first:
        raise ServiceNotAvailable(f"{_ending(child)}; the rest of the cluster was stopped")


def _ending(child: Child) -> str:
    return f"{child.name} ended by itself (exit code {child.process.returncode})"


def server_options(brokers: int, copies: int) -> dict[str, list[str]]:
    """The processes of this many brokers, each with the options that name it; those that make a set come first."""
    names = [broker_name(index) for index in range(brokers)]
    if copies == 1:
        return {name: ["--name", name] for name in names}
    first = {f"{name}-1": ["--name", name, "--copies", str(copies)] for name in names}
    return first | {f"{name}-{n}": ["--replica-of", name] for n in range(2, copies + 1) for name in names}


def listen_flags(port: int, n: int) -> list[str]:
    """The listen option of broker number `n` (from 1), if the name server listens on `port`."""
    return ["--listen", f"127.0.0.1:{port + n if port else 0}"]


def metrics_flags(port: int | None, n: int) -> list[str]:
    """The metrics option of broker number `n` (from 1), or of the name server (0), whose endpoint is on `port`."""
    return [] if port is None else ["--metrics", f"127.0.0.1:{port + n if port else 0}"]


def _name_server_command(port: int, metrics: int | None, *flags: str) -> list[str]:
    listen_flags = ("--listen", f"127.0.0.1:{port}", *metrics_flags(metrics, 0), *flags, *DAEMON)
    return [*MODULE, "rlab", "namesrv", *listen_flags]


def _broker_command(data: str, *flags: str) -> list[str]:
    return [*MODULE, "rlab", "broker", "--data", data, *flags]


async def _prepare(name_server: str, brokers: Sequence[Child], topics: Sequence[str], queues: int) -> None:
    """Wait until every broker is registered, then create topics."""
    from client.admin.admin import Admin

    async with Admin(name_server) as admin:
        await wait_registered(admin, [broker.address for broker in brokers])
        for topic in topics:
            await admin.create_topic(topic, queues)


@asynccontextmanager
async def _consoled(bed: ClusterBed, name_server: Child, listen: str, allow_changes: bool) -> AsyncIterator[str]:
    """Run a console with this test bed, if it is to listen anywhere; yields its address or ""."""
    try:
        if not listen:
            yield ""
            return
        from console.server import ConsoleOptions, run_console

        options = ConsoleOptions(
            name_servers=name_server.address, listen=listen, allow_changes=allow_changes, test_bed=bed
        )
        async with run_console(options) as address:
            yield address
    finally:
        with anyio.CancelScope(shield=True):
            await bed.stop()


@asynccontextmanager
async def _controlled(bed: ClusterBed, name_server: Child, port: int | None) -> AsyncIterator[tuple[str, str]]:
    """Serve the control plane on this port, if there is one; yields its address and token, or two empty texts."""
    if port is None:
        yield "", ""
        return
    from importlib.metadata import version

    from client.admin.admin import Admin
    from testbed.cluster.control.http import serve_control
    from testbed.cluster.control.plane import Plane

    async with (
        Admin(name_server.address) as admin,
        serve_control(Plane(bed, admin, name_server.address), f"127.0.0.1:{port}", version("rebalance-lab")) as served,
    ):
        yield served


def _announce(
    name_server: Child, brokers: Sequence[Child], console: str, control: tuple[str, str], *, as_json: bool
) -> None:
    address, token = control
    if as_json:
        line = {"kind": "cluster", "name": "cluster", "ready": True, "address": name_server.address}
        line["brokers"] = {child.name: child.address for child in brokers}
        if "metrics" in name_server.announced:
            line["metrics"] = {child.name: child.announced["metrics"] for child in (name_server, *brokers)}
        if console:
            line["console"] = console
        if address:
            line |= {"control": address, "token": token}
        print_json(line)
        return
    for child in brokers:
        print_line(f"broker {child.name} listens on {child.address}{_shown_at(child)}")
    if console:
        print_line(f"console is on http://{console}/")
    if address:
        print_line(f"control plane on http://{address}/, for rlab fault:")
        print_line(f"export RLAB_FAULT_CONTROL={address} RLAB_FAULT_TOKEN={token}")
    print_line(f"cluster is ready; name server {name_server.address}{_shown_at(name_server)}")


def _shown_at(child: Child) -> str:
    return f", metrics on http://{child.announced['metrics']}/metrics" if "metrics" in child.announced else ""
