"""`rlab swarm`: options, lines as it goes, and the summary."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, NamesStrategies, Verbose
from cli.output import document, print_json, print_line, print_note
from cli.runtime import FAILED, run
from model.errors import RlabError

if TYPE_CHECKING:
    from cli.swarm.run import ConductOptions
    from simulation.checks.ownership import Rebalance
    from simulation.swarm.observer import SwarmSummary


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("swarm", cls=NamesStrategies)(swarm)


_Order = Annotated[
    str,
    typer.Option(
        metavar="none|queue|key", help="What consumers keep in order; for key, each producer has a hundred keys."
    ),
]
_Strategy = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How consumers share the queues: {strategies}.",
    ),
]
_Mode = Annotated[
    str,
    typer.Option(
        metavar="pull|pop",
        help="What consumers share: whole queues, or single messages, where there is no balance to find.",
    ),
]


def swarm(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    consumers: Annotated[int, typer.Option(metavar="N", min=0, max=10_000, help="How many consumers join.")] = 8,
    producers: Annotated[int, typer.Option(metavar="N", min=0, max=1_000, help="How many producers.")] = 2,
    rate: Annotated[
        float, typer.Option(metavar="N", min=0.001, help="Messages per second, of all producers together.")
    ] = 500.0,
    topic: Annotated[str, typer.Option(help="Topic; it is created if it does not exist.")] = "swarm",
    group: Annotated[str, typer.Option(help="Consumer group; it should have no other members.")] = "swarm",
    queues: Annotated[
        int, typer.Option(metavar="N", min=1, help="Queues on each broker, if the topic is created.")
    ] = 8,
    size: Annotated[int, typer.Option(metavar="BYTES", min=20, max=1_000_000, help="Bytes of a message.")] = 256,
    duration: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long; 0 lasts until it is stopped.")
    ] = 30.0,
    processes: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Spread it over so many processes.")] = 1,
    churn: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Every so often a consumer joins or leaves; 0 for never.")
    ] = 0.0,
    session_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.4, help="Silence after which a consumer counts as gone.")
    ] = 120.0,
    strategy: _Strategy = "AVG",
    order: _Order = "none",
    mode: _Mode = "pull",
    seed: Annotated[int, typer.Option(help="Decides what is left to chance.")] = 0,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
) -> None:
    """Let consumers and producers live on a cluster, and watch how the group takes it.

    It prints a line whenever the group has found its balance, and at the end what became of the messages. Exit code 1
    means that a message was lost, or that the group was out of balance at the end.

    Example: rlab swarm --consumers 8 --producers 2 --rate 500 --churn 2 --duration 60
    """
    from cli.swarm.run import ConductOptions

    options = ConductOptions(
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
    run(lambda: _conduct(options, as_json=json), endless=duration == 0, verbose=verbose)


async def _conduct(options: ConductOptions, *, as_json: bool) -> None:
    """Run it and tell, also when it is cut short."""
    from cli.swarm.run import Conductor

    started, shares_queues = anyio.current_time(), options.mode == "pull"
    print_it = print_note if as_json else print_line

    def say(text: str) -> None:
        print_it(f"{anyio.current_time() - started:7.1f} s  {text}")

    conductor = Conductor(
        options,
        on_rebalance=lambda rebalance: say(rebalance_line(rebalance, shares_queues=shares_queues)),
        on_status=lambda summary: say(status_line(summary, shares_queues=shares_queues)),
    )
    try:
        await conductor.run()
    except asyncio.CancelledError:
        # To be stopped is no failure by itself.
        if _print_summary(conductor.summary, shares_queues=shares_queues, as_json=as_json):
            raise
        raise typer.Exit(FAILED) from None
    except RlabError:
        _print_summary(conductor.summary, shares_queues=shares_queues, as_json=as_json)
        raise
    if not _print_summary(conductor.summary, shares_queues=shares_queues, as_json=as_json):
        raise typer.Exit(FAILED)


def rebalance_line(rebalance: Rebalance, *, shares_queues: bool = True) -> str:
    """Say in a line how the group found its balance, if it shares queues; or else who came and went."""
    if not shares_queues:
        return f"{rebalance.step}: {rebalance.members} members"
    took = "never" if rebalance.converged_ms is None else f"{rebalance.converged_ms:,.0f} ms"
    return f"{rebalance.step}: balanced in {took}, {rebalance.queues_moved} moved, {rebalance.members} members" + (
        f" ({rebalance.trigger})" if rebalance.trigger else ""
    )


def status_line(summary: SwarmSummary, *, shares_queues: bool = True) -> str:
    """Say in a line how the messages stand."""
    return (
        f"sent {summary.sent:,}, received {summary.received_unique:,}, lag {summary.lost:,}, "
        f"duplicates {summary.duplicates:,}, {summary.consumers} consumers"
    ) + (f", {summary.queues} queues" if shares_queues else "")


def _print_summary(summary: SwarmSummary | None, *, shares_queues: bool, as_json: bool) -> bool:
    """Print what came of a run, if it came so far; returns whether nothing was wrong with it."""
    if summary is None:
        return True
    if as_json:
        print_json(summary_document(summary, shares_queues=shares_queues))
    else:
        from rich.console import Console

        Console(width=None if sys.stdout.isatty() else 100).print(summary_table(summary, shares_queues=shares_queues))
    return summary.ok


def summary_document(summary: SwarmSummary, *, shares_queues: bool = True) -> dict[str, object]:
    """The JSON document of the summary; what there is only with queues to share is null without."""
    of_queues = ("rebalances", "queues_moved", "converged_ms_p50", "converged_ms_p95", "double_owner_ms", "orphan_ms")
    return {**document(summary), **({} if shares_queues else dict.fromkeys(of_queues))}


def summary_table(summary: SwarmSummary, *, shares_queues: bool = True) -> object:
    """Draw the summary; without queues to share there are no lines about them."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    verdict = ("PASSED", "bold green") if summary.ok else ("FAILED", "bold red")
    table.add_row(Text(*verdict), "")
    of_messages = [
        ("messages acknowledged", f"{summary.sent:,}"),
        ("sends given up", f"{summary.failed_sends:,}"),
        ("received", f"{summary.received_unique:,}"),
        ("lost", f"{summary.lost:,}"),
        ("received twice", f"{summary.duplicates:,}"),
    ]
    of_queues = [
        ("rebalances", f"{summary.rebalances:,}"),
        ("queues moved", f"{summary.queues_moved:,}"),
        ("balanced in, median", _ms(summary.converged_ms_p50)),
        ("balanced in, 95 of 100", _ms(summary.converged_ms_p95)),
        ("queues with two owners", _ms(summary.double_owner_ms)),
        ("queues without an owner", _ms(summary.orphan_ms)),
    ]
    for label, value in of_messages + (of_queues if shares_queues else []):
        table.add_row(label, value)
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} ms"
