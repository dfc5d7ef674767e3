"""Options that several commands share, and the sources of option values.

A flag wins over the environment, the environment over the file of `--config`, the file over the default. Every option
can be set by `RLAB_<COMMAND>_<OPTION>` (for instance RLAB_BROKER_LISTEN, RLAB_TOPIC_CREATE_QUEUES); `--namesrv` and
`--config` by RLAB_NAMESRV and RLAB_CONFIG for all commands. The file has a table per command; values before the first
table apply to every command that has the option:

    namesrv = "10.0.0.1:9876,10.0.0.2:9876"
    [broker]
    name = "broker-a"
    data = "/var/lib/rlab/broker-a"
    [topic.create]
    queues = 16

The parser looks only for variables that it knows, so a misspelt one would be ignored in silence. It is named, and is
not an error: others make variables of this prefix too, for instance Kubernetes for a service called rlab.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cli.complete import LOCAL, groups, topics
from process.output import print_error
from process.runtime import FAILED

DEFAULT_NAME_SERVER = LOCAL
SEE_DAMAGE = "the broker's log names the files, and so does rlab broker verify"
PREFIX = "RLAB_"
OTHERS = (
    *("RLAB_DEBUG", "RLAB_KEY", "RLAB_KEY_FILE", "RLAB_HTTP_KEY", "RLAB_HTTP_KEY_FILE"),
    *("RLAB_TLS_CA", "RLAB_TLS_CERT", "RLAB_TLS_KEY"),
    *("RLAB_ETCD_USER", "RLAB_ETCD_PASSWORD", "RLAB_ETCD_PASSWORD_FILE"),
    *("RLAB_ETCD_CA", "RLAB_ETCD_CERT", "RLAB_ETCD_KEY"),
)
"""Variables that are not options of a command."""
_OF_KUBERNETES = ("RLAB_PORT", "RLAB_SERVICE_")
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
    known = _parameters(context)
    values = {name: value for name, value in table.items() if name in known}
    path = context.command_path.split()[1:]
    for depth, name in enumerate(path, 1):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise typer.BadParameter(f"{file}: [{'.'.join(path[:depth])}] must be a table")
        values.update(table)
    unknown = [name for name, value in table.items() if name not in known and not isinstance(value, dict)]
    if unknown and path:
        raise typer.BadParameter(
            f"{file}: [{'.'.join(path)}] has no option {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    context.default_map = {known[name]: value for name, value in values.items() if name in known}
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


# --- environment variables -------------------------------------------------------------------------------------------


def variables_of(command: Any, prefix: str = PREFIX.rstrip("_")) -> Iterator[str]:
    """Yield the variables of all options of a command of typer and of the commands below it."""
    for parameter in command.params:
        given = parameter.envvar
        if given is None:
            yield f"{prefix}_{(parameter.name or '').upper()}"
        else:
            yield from [given] if isinstance(given, str) else given
    for name, child in getattr(command, "commands", {}).items():
        yield from variables_of(child, f"{prefix}_{name.upper().replace('-', '_')}")


def unknown_variables(names: Iterable[str], command: Any) -> list[str]:
    """Describe each variable that begins like ours and is not one, and the variable that may be meant."""
    own = [name for name in names if name.startswith(PREFIX) and name not in OTHERS]
    if not own:
        return []
    known = {*variables_of(command), *OTHERS}
    described = []
    for name in sorted(set(own) - known):
        if name.startswith(_OF_KUBERNETES):
            continue
        near = get_close_matches(name, sorted(known), 1, 0.8)
        described.append(f"{name} is not a variable of rlab" + (f": is {near[0]} meant?" if near else ""))
    return described
