"""`rlab group set`: change the settings of a group at all brokers, also while it consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.ask import ask_cluster
from cli.options import DEFAULT_NAME_SERVER, Config, GroupName, Json, NameServers, age_ms, switch
from model.group_settings import DEFAULT_SETTINGS, OWN_ATTEMPTS
from model.limits import MAX_CONFIGURED_ATTEMPTS, MAX_INVISIBLE_MS, MAX_RETRY_DELAYS, MAX_RETRY_QUEUES
from process.output import print_json, print_line

if TYPE_CHECKING:
    from client.admin.records import GroupInfo

_RetryQueues = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=MAX_RETRY_QUEUES,
        show_default=False,
        help="Queues of its retry topic on each broker: at most this many members share the failed messages.",
    ),
]
_Fifo = Annotated[
    bool | None,
    typer.Option(
        "--fifo/--no-fifo",
        show_default=False,
        help="Whether its pops are in order: the next messages of a queue once none of it is invisible.",
    ),
]
_RetryDelays = Annotated[
    str | None,
    typer.Option(
        metavar="TIME,...|default",
        show_default=False,
        help="Time before each retry of a failed message, such as 100ms,1s,10s; the last one is repeated.",
    ),
]


def register(app: typer.Typer) -> None:
    """Register the command with `rlab group`."""
    app.command("set")(set_group)


def set_group(
    group: GroupName,
    consume: Annotated[
        bool | None,
        typer.Option("--consume/--no-consume", show_default=False, help="Whether its members get messages."),
    ] = None,
    broadcast: Annotated[
        bool | None,
        typer.Option(
            "--broadcast/--no-broadcast", show_default=False, help="Whether its broadcasting members get messages."
        ),
    ] = None,
    retry_queues: _RetryQueues = None,
    max_attempts: Annotated[
        str | None,
        typer.Option(
            metavar="N|own",
            show_default=False,
            help="Retries of a failed message before it goes to the DLQ; own: as each member is configured.",
        ),
    ] = None,
    fifo: _Fifo = None,
    retry_delays: _RetryDelays = None,
    create: Annotated[bool, switch("--create", help_text="Allow a group that does not exist yet.")] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Change settings of a group on every broker.

    Settings that are not named stay. It takes effect at once, on running members too. Members of a group that is
    switched off keep their queues and keep trying; rlab group show shows the settings.

    Example: rlab group set billing --no-consume
    """
    settings_given: dict[str, Any] = {
        "consume": consume,
        "broadcast": broadcast,
        "retry_queues": retry_queues,
        "max_attempts": _attempts(max_attempts),
        "fifo": fifo,
        "retry_delays_ms": _delays(retry_delays),
    }
    if all(value is None for value in settings_given.values()):
        raise typer.BadParameter(
            "use at least one of --consume, --broadcast, --retry-queues, --max-attempts, --fifo and --retry-delays"
        )
    settings = ask_cluster(namesrv, lambda admin: admin.set_group(group, **settings_given, create=create))
    if json:
        print_json({"group": group, "settings": settings})
    else:
        for name, each in settings.items():
            print_line(f"group {group} on {name}: {each}")


def _attempts(text: str | None) -> int | None:
    if text is None or text == "own":
        return None if text is None else OWN_ATTEMPTS
    if not text.isascii() or not text.isdigit() or int(text) > MAX_CONFIGURED_ATTEMPTS:
        raise typer.BadParameter(f"--max-attempts must be 0 to {MAX_CONFIGURED_ATTEMPTS}, or own; got {text!r}")
    return int(text)


def _delays(text: str | None) -> list[int] | None:
    if text is None or text == "default":
        return None if text is None else []
    delays = [age_ms(each) for each in text.split(",")]
    if None in delays or len(delays) > MAX_RETRY_DELAYS or max(filter(None, delays), default=0) > MAX_INVISIBLE_MS:
        raise typer.BadParameter(
            f"--retry-delays must be default, or up to {MAX_RETRY_DELAYS} times of at most 12h, separated by commas, "
            f"such as 100ms,1s,10s; got {text!r}"
        )
    return [each for each in delays if each is not None]


def print_settings(info: GroupInfo) -> None:
    """Print the settings of a group that are not the defaults, by broker if brokers have different ones."""
    if len(set(info.settings.values())) > 1:
        for name, each in info.settings.items():
            print_line(f"settings on {name}: {each}")
        print_line(f"brokers have different settings: repeat rlab group set {info.group}")
        return
    for each in list(info.settings.values())[:1]:
        if each != DEFAULT_SETTINGS:
            print_line(f"settings: {each}")
