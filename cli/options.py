"""Options that several commands share, and the sources of option values.

A flag wins over the environment, the environment over the file of `--config`, the file over the default. Every option
can be set by `RLAB_<COMMAND>_<OPTION>` (`variables.py`); `--namesrv` and `--config` by RLAB_NAMESRV and RLAB_CONFIG for
all commands. The file has a table per command; values before the first table apply to each command that has the option:

    namesrv = "10.0.0.1:9876,10.0.0.2:9876"
    [broker]
    name = "broker-a"
    data = "/var/lib/rlab/broker-a"
    [topic.create]
    queues = 16
"""

from __future__ import annotations

import re
import sys
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cli.complete import LOCAL, groups, topics
from process.output import print_error
from process.runtime import FAILED

DEFAULT_NAME_SERVER = LOCAL
SEE_DAMAGE = "the broker's log names the files, and so does rlab broker verify"
_SIZES = {
    "": 1,
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}
_TIMES_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_MOST = 10**17  # bytes or milliseconds: beyond it a number is a mistake, and sums of several would not fit the wire


def load_config(context: typer.Context, file: Path | None) -> Path | None:
    """Make the values of a configuration file the defaults of the command that is being parsed.

    Raises:
        typer.BadParameter: the file cannot be read, is not TOML, or names an option that the command does not have.
    """
    if file is None or context.resilient_parsing:
        return file
    try:
        table: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} is not valid TOML: {error}") from error
    # "rlab topic create" reads the root, [topic] and [topic.create]; only in the last an unknown name is an error.
    parameters = _parameters(context)
    values = {name: value for name, value in table.items() if name in parameters}
    path = context.command_path.split()[1:]
    for depth, name in enumerate(path, 1):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise typer.BadParameter(f"{file}: [{'.'.join(path[:depth])}] must be a table")
        values.update(table)
    unknown = [name for name, value in table.items() if name not in parameters and not isinstance(value, dict)]
    if unknown and path:
        raise typer.BadParameter(
            f"{file}: [{'.'.join(path)}] has no option {unknown[0]!r}; it has {', '.join(sorted(parameters))}"
        )
    context.default_map = {parameters[name]: value for name, value in values.items() if name in parameters}
    return file


def _parameters(context: typer.Context) -> dict[str, str]:
    """Parameter name on the command line -> in the code."""
    names: dict[str, str] = {}
    for parameter in context.command.params:
        longest = max((*parameter.opts, parameter.name or ""), key=lambda opt: (opt.startswith("--"), len(opt)))
        if parameter.name not in ("config", "help") and parameter.name is not None:
            names[longest.lstrip("-")] = parameter.name
    return names


class StrategiesHelp(TyperCommand):
    """A command whose help lists the allocation strategies in place of `{strategies}`.

    The list is loaded only when the help is printed: importing the client would slow every command down.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """See `TyperCommand.format_help`."""
        from client.allocate.registry import strategy_names

        for parameter in self.params:
            if text := getattr(parameter, "help", None):
                # Typer's options and arguments have a help text; the base class in click's types has none.
                parameter.help = text.replace("{strategies}", ", ".join(strategy_names()))  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


NameServers = Annotated[
    str,
    typer.Option(
        "--namesrv", envvar="RLAB_NAMESRV", metavar="HOST:PORT,...", help="Name servers, separated by commas."
    ),
]

RegisterPlace = Annotated[
    str | None,
    typer.Option(
        "--register",
        envvar="RLAB_REGISTER",
        metavar="etcd://HOST:PORT,...",
        help="The register of replica sets is in this etcd, and not at a name server.",
    ),
]

Dialect = Annotated[
    str,
    typer.Option("--dialect", metavar="auto|rlab|rocketmq", help="Protocol of the servers: ours or Apache RocketMQ's."),
]
DEFAULT_DIALECT = "auto"


def confirm(question: str, consequence: str, *, yes: bool) -> None:
    """Ask before something is deleted, unless `--yes` was given.

    Raises:
        typer.Exit: standard input is not a terminal, so the question cannot be asked; the error has been printed.
        typer.Abort: the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        print_error(f"{consequence}: confirm with --yes")
        raise typer.Exit(FAILED)
    typer.confirm(question, abort=True)


def size_bytes(text: str) -> int | None:
    """Read a size such as 512MiB (a power of 1024), 10GB (of 1000) or 100 (bytes); None if it is not one."""
    return _quantity(text, _SIZES)


def age_ms(text: str) -> int | None:
    """Read a length of time such as 500ms, 90s, 10m, 1.5h or 2d; None if it is not one."""
    return _quantity(text, _TIMES_MS)


def _quantity(text: str, units: dict[str, int]) -> int | None:
    match = _QUANTITY.fullmatch(text.strip())
    factor = units.get(match[2].lower()) if match is not None else None
    if match is None or factor is None:
        return None
    value = float(match[1]) * factor
    return int(value) if value <= _MOST else None


def moment_ms(text: str) -> int:
    """Read milliseconds since 1970, or a date and time of ISO 8601 as them.

    Raises:
        ValueError, OverflowError: it is neither, or before 1970, when no message was stored.
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    ms = round(datetime.fromisoformat(text).timestamp() * 1000)
    if ms < 0:
        raise ValueError(f"{text!r} is before 1970")
    return ms


def new_directory(option: str, directory: Path) -> Path:
    """Make the directory that an option names; returns its absolute path.

    Raises:
        typer.BadParameter: it exists, or cannot be made.
    """
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise typer.BadParameter(f"{option} needs a new directory; {directory}: {error.strerror}") from error
    return directory.resolve()


def switch(*names: str, help_text: str) -> Any:
    """A flag that is off unless it is given."""
    return typer.Option(*names, help=help_text, show_default=False, show_envvar=False)


GroupName = Annotated[str, typer.Argument(help="Group name.", show_default=False, autocompletion=groups)]
TopicName = Annotated[str, typer.Argument(help="Topic name.", show_default=False, autocompletion=topics)]
Listen = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", help="Address to listen on: 0.0.0.0 is all of this machine, port 0 any free port."
    ),
]
AutoCreate = Annotated[bool, typer.Option(help="Create a topic on the first send to it.")]
Yes = Annotated[bool, switch("--yes", "-y", help_text="Do not ask.")]
Json = Annotated[bool, switch("--json", help_text="Print JSON instead of text.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="RLAB_CONFIG",
        metavar="FILE.toml",
        is_eager=True,
        callback=load_config,
        help="Read options from this file; flags and environment variables override it.",
    ),
]
Verbose = Annotated[bool, switch("--verbose", "-v", help_text="Log at level INFO, not only warnings.")]
