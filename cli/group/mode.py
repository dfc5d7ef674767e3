"""`rlab group mode`: show or set whether a group with broker assignment pulls or pops a topic."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import DEFAULT_NAME_SERVER, Config, GroupName, Json, NameServers
from cli.output import print_json, print_line, print_table
from cli.runtime import ask_cluster
from model.assignment import RequestMode
from model.errors import GroupNotExist

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.admin.records import AssignmentInfo


class Mode(StrEnum):
    """Values on the command line."""

    pull = "pull"
    pop = "pop"


def register(app: typer.Typer) -> None:
    """Add the command to those of `rlab group`."""
    app.command("mode")(mode)


def mode(
    group: GroupName,
    topic: Annotated[
        str | None, typer.Argument(help="Topic name; without it, the modes are shown.", show_default=False)
    ] = None,
    to: Annotated[Mode | None, typer.Argument(metavar="[pull|pop]", help="The new mode.", show_default=False)] = None,
    share: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With pop: each member pops the queues assigned to it and to N others; by default all queues.",
            show_default=False,
        ),
    ] = None,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show or set whether a group pulls or pops a topic.

    It applies to members with assignment="broker", which switch while they consume. With pull each queue has one
    owner; with pop each message is delivered to one member.

    Example: rlab group mode billing orders pop --share 2
    """
    from client.admin.requests import listed

    if (topic is None) != (to is None):
        raise typer.BadParameter("name a topic and pull or pop, or neither to see the modes")
    if share is not None and to is not Mode.pop:
        raise typer.BadParameter("--share needs pop")

    async def set_and_show(admin: Admin) -> AssignmentInfo:
        if topic is not None and to is not None:
            pop_share = -1 if share is None else share
            await admin.set_request_mode(group, topic, to.value.upper(), pop_share_queue_num=pop_share)
        info = await admin.assignment(group)
        if not info.modes and group not in (known := [each.group for each in await admin.groups()]):
            raise GroupNotExist(f"no broker knows group {group!r}; {listed('known groups', known)}")
        return info

    info = ask_cluster(namesrv, set_and_show)
    if json:
        print_json({"group": group, "modes": info.modes})
    elif topic is not None and to is not None:
        print_line(f"group {group} {'pops' if to is Mode.pop else 'pulls'} {topic} from now on")
    else:
        print_table(
            ["topic", "mode", ">share"],
            [(each.topic, each.mode.value, _share(each.pop_share_queue_num)) for each in info.modes],
            empty=f"no mode is set for group {group}: it pulls",
        )


def _share(number: int) -> str:
    return "all queues" if number <= 0 else f"own and of {number} more members"


def print_assignment(info: AssignmentInfo) -> None:
    """Print the broker that assigns the queues of a group, if one does, and the topics that are popped."""
    if info.version:
        print_line(f"assignment {info.version} by broker {info.coordinator}")
    popped = [each for each in info.modes if each.mode is RequestMode.POP]
    if popped:
        print_line("popped: " + ", ".join(f"{each.topic} ({_share(each.pop_share_queue_num)})" for each in popped))
