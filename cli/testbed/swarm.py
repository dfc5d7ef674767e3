"""`rlab swarm`: runs consumers that join and leave. Reads the options, and prints progress and a summary."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from cli.complete import strategies
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, StrategiesHelp, Verbose
from model.counted import plural
from model.errors import RlabError
from process.output import document, print_json, print_line, print_note, print_verdict
from process.runtime import FAILED, exit_with_error, run

if TYPE_CHECKING:
    from rich.table import Table

    from testbed.swarm.observer import Convergence, SwarmSummary
    from testbed.swarm.parts import OpenParts
    from testbed.swarm.run import SwarmRunOptions


NOT_RECEIVED = 3
"""Exit code of a run in which nothing failed and some messages were not received; 2 is for a usage error."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("swarm", cls=StrategiesHelp)(swarm)


_Order = Annotated[
    str,
    typer.Option(
        metavar="none|queue|key", help="Processing order of consumers; with key, each producer uses a hundred keys."
    ),
]
_Strategy = Annotated[
    str, typer.Option(metavar="NAME", help="Allocation strategy: {strategies}.", autocompletion=strategies)
]
_Mode = Annotated[
    str,
    typer.Option(
        metavar="pull|pop",
        help="Assign whole queues to consumers (pull), or deliver single messages (pop), which needs no rebalance.",
    ),
]
_Processes = Annotated[
    int, typer.Option(metavar="N", min=1, max=64, help="Number of processes; with --master, of tasks.")
]
_Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Run the members in executors of this Spark master, such as spark://host:7077."),
]


def swarm(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    consumers: Annotated[int, typer.Option(metavar="N", min=0, max=10_000, help="Number of consumers.")] = 8,
    producers: Annotated[int, typer.Option(metavar="N", min=0, max=1_000, help="Number of producers.")] = 2,
    rate: Annotated[
        float, typer.Option(metavar="N", min=0.001, help="Messages per second, of all producers together.")
    ] = 500.0,
    topic: Annotated[str, typer.Option(help="Topic; it is created if it does not exist.")] = "swarm",
    group: Annotated[str, typer.Option(help="Consumer group; it should have no other members.")] = "swarm",
    queues: Annotated[
        int, typer.Option(metavar="N", min=1, help="Queues on each broker, if the topic is created.")
    ] = 8,
    size: Annotated[int, typer.Option(metavar="BYTES", min=20, max=1_000_000, help="Size of a message body.")] = 256,
    duration: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Duration; 0 runs until stopped.")] = 30.0,
    processes: _Processes = 1,
    master: _Master = None,
    churn: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Interval at which a consumer joins or leaves; 0: never.")
    ] = 0.0,
    session_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.4, help="Session timeout of the consumers.")
    ] = 120.0,
    strategy: _Strategy = "AVG",
    order: _Order = "none",
    mode: _Mode = "pull",
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
) -> None:
    """Run consumers and producers on a cluster, and check them.

    Members join and leave with --churn. Prints a line whenever the group has converged, and a summary of the messages
    at the end. Exit code 1: a message was lost, a rule of rlab check was broken, or the group had not converged at the
    end. Exit code 3: none of these, but some messages are unread, or their queues could not be read.

    Example: rlab swarm --consumers 8 --producers 2 --rate 500 --churn 2 --duration 60
    """
    from testbed.swarm.run import SwarmRunOptions

    options = SwarmRunOptions(
        name_servers=namesrv,
        topic=topic,
        group=group,
        queues=queues,
        consumers=consumers,
        producers=producers,
        rate=rate,
        body_bytes=size,
        churn_s=churn,
        seed=seed,
        processes=processes,
        duration_s=duration,
        session_timeout_s=session_timeout,
        strategy=strategy,
        order=order,
        mode=mode,
    )
    with exit_with_error(), _elsewhere(master) as elsewhere:
        run(lambda: _run_swarm(options, elsewhere, as_json=json), endless=duration == 0, verbose=verbose)


@contextmanager
def _elsewhere(master: str | None) -> Iterator[OpenParts | None]:
    """The Spark executors in which the members run; None for this machine."""
    if master is None:
        yield None
        return
    from pipeline.spark.session import SHORT_JOB, spark_session

    # A part that failed has lost its members: a second attempt would be another swarm.
    conf = {"spark.task.maxFailures": "1"}
    with spark_session("rlab swarm", master=master, java_options=SHORT_JOB, conf=conf) as spark:
        from testbed.swarm.spark import SparkParts

        yield SparkParts(spark).open


async def _run_swarm(options: SwarmRunOptions, elsewhere: OpenParts | None, *, as_json: bool) -> None:
    """Run it and print the summary, also when it is cut short."""
    from testbed.swarm.run import SwarmRun

    started, pulls = anyio.current_time(), options.mode == "pull"
    print_it = print_note if as_json else print_line

    def say(text: str) -> None:
        print_it(f"{anyio.current_time() - started:7.1f} s  {text}")

    swarm_run = SwarmRun(
        options,
        elsewhere=elsewhere,
        on_converged=lambda convergence: say(converged_line(convergence, pulls=pulls)),
        on_status=lambda summary: say(status_line(summary, pulls=pulls)),
    )
    try:
        await swarm_run.run()
    except asyncio.CancelledError:
        # A signal alone is not a failure.
        code = _print_summary(swarm_run.summary, pulls=pulls, as_json=as_json)
        if not code:
            raise
        raise typer.Exit(code) from None
    except RlabError:
        _print_summary(swarm_run.summary, pulls=pulls, as_json=as_json)
        raise
    if code := _print_summary(swarm_run.summary, pulls=pulls, as_json=as_json):
        raise typer.Exit(code)


def converged_line(convergence: Convergence, *, pulls: bool = True) -> str:
    """A convergence in a line; without queues to own, the number of members."""
    if not pulls:
        return f"{convergence.what}: {plural(convergence.members, 'member')}"
    elapsed = "never" if convergence.converged_ms is None else f"{convergence.converged_ms:,.0f} ms"
    return (
        f"{convergence.what}: converged in {elapsed}, {plural(convergence.moves, 'queue')} moved "
        f"({convergence.needed} needed), {plural(convergence.members, 'member')}"
    ) + (f" ({convergence.trigger})" if convergence.trigger else "")


def status_line(summary: SwarmSummary, *, pulls: bool = True) -> str:
    """The counters of messages in a line."""
    return (
        f"sent {summary.sent:,}, received {summary.received_unique:,}, lag {summary.lost:,}, "
        f"duplicates {summary.duplicates:,}, {plural(summary.consumers, 'consumer')}"
    ) + (f", {plural(summary.queues, 'queue')}" if pulls else "")


def _print_summary(summary: SwarmSummary | None, *, pulls: bool, as_json: bool) -> int:
    """Print the summary of a run, if there is one; returns the exit code."""
    if summary is None:
        return 0
    if as_json:
        print_json(summary_document(summary, pulls=pulls))
    else:
        print_verdict(summary_table(summary, pulls=pulls), 100)
    return 0 if summary.ok else FAILED if summary.verdict == "failed" else NOT_RECEIVED


_REPORTED_BY_BROKERS = ("backlog_max", "possible_duplicates")
"""Figures that a swarm cannot have, because it gets the events of its clients only."""


def summary_document(summary: SwarmSummary, *, pulls: bool = True) -> dict[str, object]:
    """The JSON document of the summary; figures about queues are null in mode pop."""
    of_queues = (
        *("rebalances", "queues_moved", "needed", "balance_ms_p50", "balance_ms_p95"),
        *("double_owner_ms", "orphan_ms"),
    )
    fields = {"verdict": summary.verdict.value, **document(summary)}
    if fields["in_all"] is not None:
        fields["in_all"] = {name: value for name, value in fields["in_all"].items() if name not in _REPORTED_BY_BROKERS}
    return {**fields, **({} if pulls else dict.fromkeys(of_queues))}


def summary_table(summary: SwarmSummary, *, pulls: bool = True) -> Table:
    """Draw the summary; in mode pop without the lines about queues."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    color = {"passed": "green", "failed": "red"}.get(summary.verdict, "yellow")
    table.add_row(Text(summary.verdict.upper(), f"bold {color}"), "")
    of_messages = [
        ("messages acknowledged", f"{summary.sent:,}"),
        ("sends failed", f"{summary.failed_sends:,}"),
        ("received", f"{summary.received_unique:,}"),
        ("lost", f"{summary.lost:,}"),
        *([("unread, still in queues", f"{summary.unread:,}")] if summary.unread else ()),
        *([("not received, and queues could not be read", f"{summary.unknown:,}")] if summary.unknown else ()),
        ("duplicates", f"{summary.duplicates:,}"),
    ]
    of_queues = [
        ("rebalances", f"{summary.rebalances:,}"),
        ("queues moved", f"{summary.queues_moved:,}"),
        ("moves needed", f"{summary.needed:,}"),
        ("time to balance, median", _ms(summary.balance_ms_p50)),
        ("time to balance, 95th percentile", _ms(summary.balance_ms_p95)),
        ("queues with two owners", _ms(summary.double_owner_ms)),
        ("queues without an owner", _ms(summary.orphan_ms)),
    ]
    for label, value in of_messages + (of_queues if pulls else []):
        table.add_row(label, value)
    for line in summary.broken:
        table.add_row(Text(line, "red"), "")
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} ms"
