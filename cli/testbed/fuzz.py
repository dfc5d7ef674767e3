"""`rlab fuzz`: sends hostile requests to a server, and reports internal errors, silence, leaks and lost listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Config, Json
from model.counted import plural
from model.errors import ConfigError, RlabError
from process.output import one_line, print_note, print_outcome, report_progress
from process.runtime import run
from remoting.security.login import read_own_key
from remoting.tasks import background_tasks

if TYPE_CHECKING:
    from testbed.fuzz.run import FuzzPlan, FuzzReport

_SECONDS = 60.0


class FuzzFailed(RlabError):
    """A server failed a check of the run; the text lists the failures."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fuzz")(fuzz)


def fuzz(
    server: Annotated[
        str, typer.Argument(metavar="HOST:PORT", help="A broker, a name server, or an HTTP port.", show_default=False)
    ],
    seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, help="How long; 60 without --commands.")
    ] = None,
    commands: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many, in whole batches of 64; with --http single ones.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides every frame.")] = 1,
    skip: Annotated[int, typer.Option(metavar="N", min=0, help="Leave out the first batches of the seed.")] = 0,
    connections: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Connections at once; 1 repeats the order of a run, too.")
    ] = 16,
    rocketmq: Annotated[bool, typer.Option("--rocketmq", help="Speak RocketMQ's protocol.")] = False,
    grpc: Annotated[bool, typer.Option("--grpc", help="Speak the gRPC protocol of RocketMQ 5's clients.")] = False,
    http: Annotated[
        bool, typer.Option("--http", help="Send HTTP, to a port of metrics, of the console or of the control plane.")
    ] = False,
    pid: Annotated[
        int | None, typer.Option(metavar="PID", help="The server's process: report growing memory and descriptors.")
    ] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Send a server malformed and hostile requests: of this project, or of RocketMQ's clients.

    It creates and deletes topics and groups: use a server of a test. The exit code is 1 if a request ends in an
    internal error, if one is answered by silence, twice or by a lost connection, if the server keeps a connection that
    was ended, takes no new one, or grows. A key of RLAB_KEY_FILE is proved on each connection; with --http the key of
    RLAB_HTTP_KEY_FILE, or the token of RLAB_FAULT_TOKEN, in most requests. An interrupted run reports what it
    has found.

    Example: rlab fuzz 127.0.0.1:10911 --seconds 60
    """
    # Imported here: every command of `rlab` would wait for the schemas of all requests.
    from testbed.fuzz.run import FuzzPlan, Protocol

    async def main() -> None:
        if http + rocketmq + grpc > 1:
            raise ConfigError("--http, --rocketmq and --grpc are protocols: give one of them")
        plan = FuzzPlan(
            seed=seed,
            seconds=seconds or (_SECONDS if commands is None else float("inf")),
            commands=commands or float("inf"),
            skip=skip,
            connections=connections,
            protocol=Protocol.GRPC if grpc else Protocol.ROCKETMQ if rocketmq else Protocol.RLAB,
            pid=pid,
            key=read_own_key(),
        )
        await _fuzz(server, plan, is_http=http, as_json=json)

    run(main)


async def _fuzz(server: str, plan: FuzzPlan, *, is_http: bool, as_json: bool) -> None:
    """Run a plan with progress on stderr, and print its report, also if it is cancelled. Raises: RlabError."""
    from testbed.fuzz.http_run import fuzz_http
    from testbed.fuzz.run import FuzzReport, fuzz_server

    report = FuzzReport(plan.seed)
    try:
        async with background_tasks() as tasks:
            tasks.start_soon(report_progress, lambda: _progress(report))
            await (fuzz_http if is_http else fuzz_server)(server, plan, report)
    finally:
        _show(report, as_json=as_json)
    if report.found:
        raise FuzzFailed(
            f"{len(report.found)} findings; --seed {report.seed} --skip N --commands 1 sends batch N again, and a "
            "smaller --skip the batches before it"
        )


def _counts(report: FuzzReport) -> str:
    over = f"{plural(report.commands, 'command')} over {plural(report.connections, 'connection')}"
    return f"{over}, {len(report.found)} found"


def _progress(report: FuzzReport) -> str:
    return _counts(report) + (f", the last: {one_line(report.found[-1])[:300]}" if report.found else "")


def _show(report: FuzzReport, *, as_json: bool) -> None:
    """Print a report, also one of a run that was cut short."""
    line = {"seed": report.seed, "commands": report.commands, "connections": report.connections}
    text = _counts(report)
    for name, levels in report.levels.items():
        text += f", {name} {' '.join(f'{level:g}' for level in levels)}"
    details = {"codes": report.codes, "levels": report.levels, "found": report.found}
    print_outcome({**line, **details}, text, as_json=as_json)
    for finding in report.found:
        print_note(finding)
