"""The `rlab` command: collects the commands of all modules. A process begins in `rlab/__main__.py`.

Command modules import the code that they run inside their functions, so that `rlab --help` takes little longer than the
start of Python.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from typer.main import get_command

from cli.group import command as group
from cli.messages import consume, message, produce, producer, topic
from cli.options import unknown_variables
from cli.security import certs, key
from cli.servers import cluster, daemons, elections
from cli.testbed import bench, crash, demo, examples, fault, fuzz, labs, sim, swarm
from cli.trace import check, report, strategies, whatif
from process.output import print_note
from process.runtime import report_bug
from process.start import open_closed_descriptors

app = typer.Typer(
    name="rlab",
    help="A small, real message-queue cluster that reproduces RocketMQ's consumer-group rebalance.\n\n"
    "Example: rlab cluster --brokers 2, then in other terminals: rlab topic create orders --queues 8, "
    "rlab consume orders --group g, and rlab produce orders --count 100.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"auto_envvar_prefix": "RLAB", "help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rlab {version('rebalance-lab')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.", show_envvar=False),
    ] = False,
) -> None:
    """Options of `rlab` itself."""


for module in (
    daemons,
    cluster,
    elections,
    key,
    fault,
    fuzz,
    certs,
    topic,
    group,
    message,
    producer,
    produce,
    consume,
    swarm,
    sim,
    labs,
    examples,
    check,
    report,
    demo,
    crash,
    strategies,
    whatif,
    bench,
):
    module.register(app)


def main() -> None:
    """Run the command of the command line; scripts of earlier installations begin here."""
    open_closed_descriptors()
    # The command is called instead of the app, because the app would set its own excepthook.
    sys.excepthook = report_bug
    command = get_command(app)
    for text in unknown_variables(os.environ, command):
        print_note(f"note: {text}")
    command(prog_name="rlab")


if __name__ == "__main__":
    main()
