"""The `rlab` command: collects the commands of all modules. A process begins in `rlab/__main__.py`.

Command modules import the code that they run inside their functions, so that `rlab --help` takes little longer than the
start of Python.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from cli.group import command as group
from cli.messages import consume, message, produce, producer, topic
from cli.security import certs, key
from cli.servers import cluster, daemons, elections
from cli.testbed import bench, crash, demo, examples, fault, fuzz, labs, sim, swarm
from cli.trace import check, report, strategies, whatif
from cli.variables import all_variables, name_by_options, read_old_names, unknown_variables
from process.output import print_note
from process.runtime import report_bug
from process.start import open_closed_descriptors

SECTIONS = {
    "Run": ("cluster", "namesrv", "broker", "elections", "console", "exporter", "key", "certs"),
    "Use": ("topic", "produce", "consume", "message", "producer"),
    "Look and explain": ("group", "doctor", "check", "report", "whatif", "strategies"),
    "Learn": ("demo", "lab", "example"),
    "Test and measure": ("sim", "fault", "swarm", "crash", "fuzz", "bench"),
}
"""The commands as the help lists them, by purpose."""


_COMPLETION = {
    "install_completion": "Install completion for this shell.",
    "show_completion": "Print the completion of this shell.",
}


class Sections(TyperGroup):
    """The command `rlab`, whose help lists its commands in `SECTIONS`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        name_by_options(self)

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters; completion is installed once, so a line for each of its options is enough.

        None has a variable: RLAB_VERSION of a build script would print the version instead of running the command.
        """
        params = super().get_params(ctx)
        for parameter in params:
            if isinstance(parameter, TyperOption):
                parameter.allow_from_autoenv = False
            if isinstance(parameter, TyperOption) and (text := _COMPLETION.get(parameter.name or "")):
                parameter.help, parameter.show_envvar = text, False
        return params

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        width = formatter.width - max(map(len, self.commands)) - 6
        for title, names in SECTIONS.items():
            formatter.write(f"{title}:\n" if title != "Run" else f"\n{title}:\n")
            with formatter.indentation():
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


app = typer.Typer(
    name="rlab",
    cls=Sections,
    help="A small, real message-queue cluster that reproduces RocketMQ's consumer-group rebalance.\n\n"
    "Example: rlab cluster --brokers 2, and then in other terminals rlab consume orders --group g --wait, "
    "rlab produce orders --count 100.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"auto_envvar_prefix": "RLAB", "help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rlab {version('rebalance-lab')}")
        raise typer.Exit


def _print_variables(wanted: bool) -> None:
    if wanted:
        found = all_variables(get_command(app))
        width = max(len(each.name) for each in found) + 2
        for each in found:
            typer.echo(f"{each.name:{width}}{each.option or each.meaning}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.", show_envvar=False),
    ] = False,
    show_variables: Annotated[
        bool,
        typer.Option(
            "--help-env",
            is_eager=True,
            callback=_print_variables,
            help="List all variables with their options.",
            show_envvar=False,
        ),
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
    for text in [*read_old_names(os.environ), *unknown_variables(os.environ, command)]:
        print_note(f"note: {text}")
    command(prog_name="rlab")


if __name__ == "__main__":
    main()
