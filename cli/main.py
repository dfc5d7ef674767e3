"""The `rlab` command, whose commands are those of `cli/sections.py`. A process begins in `rlab/__main__.py`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from typer.main import get_command

from cli.sections import Sections
from cli.variables import all_variables, read_old_names, unknown_variables
from process.output import print_note
from process.runtime import report_bug
from process.start import open_closed_descriptors

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


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"rlab {version('rebalance-lab')}")
        raise typer.Exit


def _print_variables(is_wanted: bool) -> None:
    if is_wanted:
        variables = all_variables(get_command(app))
        width = max(len(each.name) for each in variables) + 2
        for each in variables:
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
