"""`rlab group delete`: forget a group that nobody uses any more."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, switch
from cli.output import print_json, print_line
from cli.runtime import run


def register(app: typer.Typer) -> None:
    """Add the command to those of `rlab group`."""
    app.command("delete")(delete)


def delete(
    group: Annotated[str, typer.Argument(help="Group name.", show_default=False)],
    yes: Annotated[bool, switch("--yes", "-y", help_text="Do not ask.")] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Delete the offsets of a group without members.

    Failed messages that wait for their next attempt go with them, and messages that were kept only for the group may
    be deleted then. Its dead letters stay, in %DLQ%GROUP.

    Example: rlab group delete billing --yes
    """
    from client.admin.admin import Admin

    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(f"this forgets how far {group} has come on every topic: say --yes")
        typer.confirm(f"Delete group {group}, and forget how far it has come on every topic?", abort=True)

    async def main() -> None:
        async with Admin(namesrv) as admin:
            await admin.delete_group(group)

    run(main)
    if json:
        print_json({"group": group, "deleted": True})
    else:
        print_line(f"group {group} deleted")
