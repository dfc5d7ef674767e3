"""`rlab cluster`: a name server and brokers as child processes on this machine, started and stopped together.

Brokers stop before their name server, because they unregister from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, NoReturn

import anyio
import typer

from cli.options import AutoCreate, Config, Json
from cli.output import print_json, print_line
from cli.runtime import run
from cli.servers.children import DAEMON, MODULE, Child, broker_name, children, module_process, wait_registered
from cli.servers.cluster_folder import cluster_folder
from model.errors import ServiceNotAvailable
from model.limits import DEFAULT_TOPIC_QUEUES


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cluster")(cluster)


def cluster(
    brokers: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Number of brokers: broker-a, broker-b, ...")
    ] = 2,
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
    json: Json = False,
    config: Config = None,
) -> None:
    """Run a name server and brokers on this machine.

    They run until this command is stopped, or until one of them fails.

    Example: rlab cluster --brokers 2 --topic orders --queues 8
    """

    async def main() -> None:
        with cluster_folder() if data is None else nullcontext(data) as directory:
            at = ("--listen", f"127.0.0.1:{port}", *metrics_flags(metrics, 0), *DAEMON)
            async with module_process("namesrv", "cli.main", "namesrv", *at) as name_server:
                flags = ("--namesrv", name_server.address, "--auto-create" if auto_create else "--no-auto-create")
                names = [broker_name(index) for index in range(brokers)]
                commands = [
                    _broker_command(
                        name, f"{directory}/{name}", *flags, *listen_flags(port, n), *metrics_flags(metrics, n), *DAEMON
                    )
                    for n, name in enumerate(names, 1)
                ]
                async with children(zip(names, commands, strict=True)) as started:
                    await _prepare(name_server.address, started, topic or [], queues)
                    _announce(name_server, started, as_json=json)
                    await _first_end([name_server, *started])

    run(main, endless=True)


def listen_flags(port: int, n: int) -> list[str]:
    """The listen option of broker number `n` (from 1), if the name server listens on `port`."""
    return ["--listen", f"127.0.0.1:{port + n if port else 0}"]


def metrics_flags(port: int | None, n: int) -> list[str]:
    """The metrics option of broker number `n` (from 1), or of the name server (0), whose endpoint is on `port`."""
    return [] if port is None else ["--metrics", f"127.0.0.1:{port + n if port else 0}"]


def _broker_command(name: str, data: str, *flags: str) -> list[str]:
    return [*MODULE, "cli.main", "broker", "--name", name, "--data", data, *flags]


async def _prepare(name_server: str, brokers: Sequence[Child], topics: Sequence[str], queues: int) -> None:
    """Wait until every broker is registered, then create topics."""
    from client.admin.admin import Admin

    async with Admin(name_server) as admin:
        await wait_registered(admin, [broker.address for broker in brokers])
        for topic in topics:
            await admin.create_topic(topic, queues)


def _announce(name_server: Child, brokers: Sequence[Child], *, as_json: bool) -> None:
    if as_json:
        line = {"kind": "cluster", "name": "cluster", "ready": True, "address": name_server.address}
        line["brokers"] = {child.name: child.address for child in brokers}
        if "metrics" in name_server.announced:
            line["metrics"] = {child.name: child.announced["metrics"] for child in (name_server, *brokers)}
        print_json(line)
        return
    for child in brokers:
        print_line(f"broker {child.name} listens on {child.address}{_shown_at(child)}")
    print_line(f"cluster is ready; name server {name_server.address}{_shown_at(name_server)}")


def _shown_at(child: Child) -> str:
    return f", metrics on http://{child.announced['metrics']}/metrics" if "metrics" in child.announced else ""


async def _first_end(children: Sequence[Child]) -> NoReturn:
    """Wait until a child ends, which is an error."""
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
