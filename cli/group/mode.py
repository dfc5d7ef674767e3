"""`rlab group mode`: show or set whether a group with broker assignment pulls or pops a topic."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.ask import ask_cluster
from cli.complete import topics
from cli.options import DEFAULT_NAME_SERVER, Config, GroupName, Json, NameServers
from model.assignment import RequestMode
from model.errors import GroupNotExist
from model.heartbeat import ConsumeType, MessageModel
from process.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.admin.records import AssignmentInfo, GroupMemberInfo


class Mode(StrEnum):
    """Values on the command line."""

    pull = "pull"
    pop = "pop"


def register(app: typer.Typer) -> None:
    """Register the command with `rlab group`."""
    app.command("mode")(mode)


def mode(
    group: GroupName,
    topic: Annotated[
        str | None,
        typer.Argument(help="Topic name; without it, the modes are shown.", show_default=False, autocompletion=topics),
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
    if (topic is None) != (to is None):
        raise typer.BadParameter("name a topic and pull or pop, or neither to see the modes")
    if share is not None and to is not Mode.pop:
        raise typer.BadParameter("--share needs pop")

    info, alone, members = ask_cluster(namesrv, lambda admin: set_and_show(admin, group, topic, to, share))
    if json:
        print_json({"group": group, "modes": info.modes, "members_that_share_out_by_themselves": alone})
    elif topic is not None and to is not None:
        print_line(outcome(group, topic, to, alone, members))
    else:
        print_table(
            ["topic", "mode", ">share"],
            [(each.topic, each.mode.value, _share(each.pop_share_queue_num)) for each in info.modes],
            empty=f"no mode is set for group {group}: it pulls",
        )


async def set_and_show(
    admin: Admin, group: str, topic: str | None, to: Mode | None, share: int | None
) -> tuple[AssignmentInfo, list[str], int]:
    """Set a mode, unless only the modes are asked for.

    Returns the modes, the client ids of members that still compute their own assignment, and the number of members.

    Raises:
        GroupNotExist: no broker knows the group; nothing was set.
        RlabError: see `Admin.set_request_mode`.

    Cancellation: some brokers may have taken the mode.
    """
    from client.admin.requests import list_names

    info = await admin.assignment(group)
    if not info.modes and group not in (group_names := [each.group for each in await admin.groups()]):
        raise GroupNotExist(f"no broker knows group {group!r}; {list_names('known groups', group_names)}")
    if topic is None or to is None:
        return info, [], 0
    await admin.set_request_mode(group, topic, to.value.upper(), pop_share_queue_num=-1 if share is None else share)
    members = (await admin.group(group)).members
    return (
        await admin.assignment(group),
        [each.client_id for each in members if computes_own_queues(each)],
        len(members),
    )


def computes_own_queues(member: GroupMemberInfo) -> bool:
    """Whether a member computes its queues itself, so that no request mode reaches it."""
    from client.allocate.strategy import AssignedByBroker

    shares = member.consume_type is not ConsumeType.POP and member.model is MessageModel.CLUSTERING
    return shares and member.strategy != AssignedByBroker.name


def outcome(group: str, topic: str, to: Mode, alone: list[str], members: int) -> str:
    """The mode that was set, and the members that do not follow it."""
    does = "pops" if to is Mode.pop else "pulls"
    if not alone:
        return f"group {group} {does} {topic} from now on"
    members_text = (
        "its members" if len(alone) == members else f"{len(alone)} of its {members} members, e.g. {alone[0]},"
    )
    return (
        f"the mode is set, but {members_text} share out queues by themselves and go on pulling {topic}: "
        f'only members with assignment="broker" follow it'
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
