"""`rlab group`: list consumer groups, show the owners and targets of one, and delete one.

The others have files of their own: `why` and `history` explain a group, `reset`, `offsets`, `mode`, `settings` and
`dead_letters` change it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from cli.ask import ask_cluster
from cli.group import dead_letters as group_dlq
from cli.group import history as group_history
from cli.group import mode as group_mode
from cli.group import offsets as group_offsets
from cli.group import reset as group_reset
from cli.group import settings as group_settings
from cli.group import why as group_why
from cli.options import DEFAULT_NAME_SERVER, SEE_DAMAGE, Config, GroupName, Json, NameServers, Yes, confirm
from model.counted import plural
from model.heartbeat import MessageModel
from process.output import document, print_json, print_line, print_note, print_outcome, print_table

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.admin.records import GroupInfo, GroupMemberInfo, GroupSummary, QueueProgress
    from model.absent_broker import Absence
    from model.group_agreement import Disagreement

app = typer.Typer(help="List, show, explain, set, reset and delete consumer groups.", no_args_is_help=True)

MAX_MATRIX_MEMBERS = 12
"""With more members than this the matrix would be wider than a screen, so owner and target are listed instead."""


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    group_why.register(app)
    group_history.register(app)
    group_reset.register(app)
    group_offsets.register(app)
    group_dlq.register(app)
    group_mode.register(app)
    group_settings.register(app)
    parent.add_typer(app, name="group")


@app.command("list")
def list_groups(namesrv: NameServers = DEFAULT_NAME_SERVER, json: Json = False, config: Config = None) -> None:
    """List groups that have members, offsets or settings.

    Example: rlab group list
    """

    async def asked(admin: Admin) -> tuple[tuple[GroupSummary, ...], Absence]:
        return await admin.groups(), await admin.absent_brokers()

    groups, absence = ask_cluster(namesrv, asked)
    away = [str(broker) for broker in absence.masters.values()]
    if json:
        print_json({"groups": groups, "away": away})
        return
    print_table(
        ["group", ">members", "brokers"],
        [(each.group, each.members, ", ".join(each.brokers)) for each in groups],
        empty="no groups; start one with rlab consume TOPIC --group NAME",
    )
    if away:
        print_line(f"groups that only an absent broker knows are missing: {'; '.join(away)}")
    if absence.known_for_s is None:
        print_note(f"note: {absence.limit}")


@app.command()
def show(
    group: GroupName, namesrv: NameServers = DEFAULT_NAME_SERVER, json: Json = False, config: Config = None
) -> None:
    """Show members, owners, targets and lag of a group.

    A member's target is the set of queues that the strategy assigns to it; the group has converged when every queue
    has the owner its target names.

    Example: rlab group show billing
    """
    info = ask_cluster(namesrv, lambda admin: admin.group(group))
    if json:
        print_json(group_document(info))
    else:
        print_group(info)


@app.command()
def delete(
    group: GroupName,
    yes: Yes = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Delete a group without members: its offsets and its retry topic.

    Failed messages that wait for their next attempt are deleted as well. Messages that were kept only for the group
    may then be deleted by retention. Its dead-letter messages stay, in %DLQ%GROUP.

    Example: rlab group delete billing --yes
    """
    confirm(
        f"Delete group {group} with its committed offsets of every topic?",
        f"this deletes the committed offsets of {group} on every topic",
        yes=yes,
    )
    ask_cluster(namesrv, lambda admin: admin.delete_group(group))
    print_outcome({"group": group, "deleted": True}, f"group {group} deleted", as_json=json)


def print_group(info: GroupInfo) -> None:
    """Print the members of a group, its queues, and a summary line."""
    labels = {member.client_id: f"c{number}" for number, member in enumerate(info.members, 1)}
    _print_members(info, labels)
    for each in info.disagreements:
        print_line(f"members disagree about the {with_labels(each, labels)}: {each.consequence}")
    group_mode.print_assignment(info.assignment)
    group_settings.print_settings(info)
    _print_queues(info, labels)
    _print_popped(info, labels)
    print_line(verdict(info))
    if info.absence is not None and info.absence.known_for_s is None:
        print_note(f"note: {info.absence.limit}")


def with_labels(disagreement: Disagreement, labels: dict[str, str]) -> Disagreement:
    """A disagreement with members named by their labels in the table."""
    sides = (replace(side, members=tuple(labels[member] for member in side.members)) for side in disagreement.sides)
    return replace(disagreement, sides=tuple(sides))


def group_document(info: GroupInfo) -> dict[str, object]:
    """The JSON document of a group: its record, and figures derived from it."""
    members = [
        {**document(each), "mode": info.mode_of(each), "in_flight": info.in_flight_of(each.client_id)}
        for each in info.members
    ]
    queues = [
        {**document(queue), "lag": queue.lag, "deleted": queue.deleted, "settled": queue.settled}
        for queue in info.queues
    ]
    summary = {
        "balanced": info.balanced,
        "unattended": {client_id: [str(queue) for queue in queues] for client_id, queues in info.unattended.items()},
        "broadcasting": info.broadcasting,
        "lag": info.lag,
        "in_flight": info.in_flight,
    }
    contradictions = [{**document(each), "consequence": each.consequence} for each in info.disagreements]
    return {**document(info), **summary, "disagreements": contradictions, "members": members, "queues": queues}


def _mode(info: GroupInfo, member: GroupMemberInfo) -> str:
    """The way in which a member consumes: pull, pop or broadcasting."""
    return "broadcasting" if member.model is MessageModel.BROADCASTING else info.mode_of(member)


def _mode_now(info: GroupInfo, member: GroupMemberInfo) -> str:
    more = [", suspended"] * member.suspended + [", does not answer"] * bool(member.away_at)
    return _mode(info, member) + "".join(more)


def _print_members(info: GroupInfo, labels: dict[str, str]) -> None:
    from client.admin.records import describe_expiry

    pops = any(info.popped_by(member) for member in info.members)
    targets = [client_id for queue in info.queues for client_id in queue.targets]
    print_table(
        [
            *("", "client id", "address", "strategy", "mode", "subscriptions", ">queues", ">target"),
            *([">in flight"] if pops else []),
            ">expires in",
        ],
        [
            (
                labels[member.client_id],
                member.client_id,
                member.address or None,
                member.strategy if _mode(info, member).startswith("pull") else None,
                _mode_now(info, member),
                ", ".join(s.topic if s.wants is None else str(s) for s in member.subscriptions),
                None if member.model is MessageModel.BROADCASTING else len(member.queues),
                targets.count(member.client_id)
                if member.strategy not in info.unknown_strategies and _mode(info, member).startswith("pull")
                else None,
                *([info.in_flight_of(member.client_id)] if pops else []),
                describe_expiry(member.expires_in_s),
            )
            for member in info.members
        ],
        title=f"group {info.group}",
        empty=f"group {info.group} has no members",
    )


def _print_queues(info: GroupInfo, labels: dict[str, str]) -> None:
    no_member_owns = all(_mode(info, member) in ("pop", "broadcasting") for member in info.members)
    if no_member_owns and not any(each.owner for each in info.queues):
        labels = {}  # no queue has an owner, so there is nothing to mark
    as_matrix = len(labels) <= MAX_MATRIX_MEMBERS
    columns = list(labels.values()) if as_matrix else ["owner", "target"]
    is_damaged = any(queue.damaged for queue in info.queues)
    rows = [
        (
            str(queue.queue),
            *(_marks(queue, labels) if as_matrix else _names(queue, labels)),
            queue.lag,
            queue.committed,
            queue.max_offset,
            *([queue.damaged] if is_damaged else []),
        )
        for queue in info.queues
    ]
    unknown = ("away", None, None, *([None] if is_damaged else []))
    rows += [(str(queue), *[""] * len(columns), *unknown) for queue in info.absent_queues]
    print_table(["queue", *columns, ">lag", ">committed", ">end", *([">damaged"] if is_damaged else [])], rows)
    if as_matrix and labels and rows:
        print_line("● owner and target   ○ target, not yet owner   ✕ owner, no longer target")


def _print_popped(info: GroupInfo, labels: dict[str, str]) -> None:
    if not info.popped_queues:
        return
    rows = [
        (
            str(each.queue),
            each.in_flight,
            ", ".join(f"{labels.get(client_id, client_id)}: {count}" for client_id, count in each.in_flight_of.items())
            or None,
            _seconds(each.oldest_ms),
            _seconds(each.next_visible_ms),
            each.to_come_again,
            each.most_attempts,
        )
        for each in info.popped_queues
    ]
    print_table(["popped", ">in flight", "with", ">oldest", ">next visible in", ">to redeliver", ">attempts"], rows)


def _seconds(ms: float | None) -> str | None:
    return None if ms is None else f"{ms / 1000:.1f} s"


def _marks(queue: QueueProgress, labels: dict[str, str]) -> list[str]:
    marks = {(True, True): "●", (False, True): "○", (True, False): "✕", (False, False): ""}
    return [marks[(queue.owner == client_id, client_id in queue.targets)] for client_id in labels]


def _names(queue: QueueProgress, labels: dict[str, str]) -> tuple[str | None, str | None]:
    owner = None if queue.owner is None else labels.get(queue.owner, queue.owner)
    return owner, ", ".join(labels[client_id] for client_id in queue.targets) or None


def describe_silence(member: GroupMemberInfo) -> str:
    """The reports of brokers about a member that does not answer, as a clause."""
    reasons = ", ".join(f"{broker}: {why}" for broker, why in member.away_at.items())
    return f"{member.client_id} does not answer ({reasons})"


def verdict(info: GroupInfo) -> str:
    """The state of a group in one line."""
    parts = [f"switched off on {', '.join(info.switched_off)}"] if info.switched_off else []
    parts += [] if info.broadcasting else [f"lag {info.lag}"]
    if deleted := sum(queue.deleted for queue in info.queues):
        parts.append(f"{plural(deleted, 'message', 'was', 'were')} deleted before the group read them")
    if damaged := sum(queue.damaged for queue in info.queues):
        verb = "is" if damaged == 1 else "are"
        parts.append(f"{plural(damaged, 'message')} of its queues {verb} damaged or missing: {SEE_DAMAGE}")
    if info.in_flight:
        parts.append(f"{info.in_flight} in flight")
    if info.broadcasting:
        parts.append("broadcasting: every member reads every queue, and keeps its own offsets")
    elif info.unknown_strategies:
        parts.append(
            f"target unknown: strategy {', '.join(info.unknown_strategies)} is neither built in nor installed here"
        )
    elif not info.members:
        parts.append("no members")
    elif info.balanced and all(info.mode_of(member) == "pop" for member in info.members):
        parts.append("members pop messages, so queues have no owners")
    elif info.balanced:
        parts.append("converged, but for the queues that are away" if info.absent_queues else "converged")
    else:
        astray = sum(not queue.settled for queue in info.queues)
        dead = sum(len(queues) for queues in info.unattended.values())
        alone = plural(len(info.stranded), "queue", "has", "have")
        stranded = [f"{alone} no member that may consume them"] if info.stranded else []
        parts.append(
            "not converged: "
            + ", ".join(
                [f"{plural(astray, 'queue', 'is', 'are')} not with their target owner"] * (astray > 0)
                + stranded
                + [f"{plural(dead, 'queue', 'is', 'are')} owned by members that do not answer"] * (dead > 0)
            )
        )
    parts += [describe_silence(member) for member in info.members if member.away_at]
    if info.disagreements:
        parts.append(f"members disagree about {', '.join(each.what for each in info.disagreements)}")
    if info.absent_queues:
        away = {queue.broker_name for queue in info.absent_queues}
        brokers = [str(broker) for name, broker in info.away.items() if name in away]
        parts.append(f"{plural(len(info.absent_queues), 'queue', 'is', 'are')} away: {', '.join(brokers)}")
    if info.unreachable:
        parts.append(f"broker {', '.join(info.unreachable)} does not answer, so its queues are missing")
    return "; ".join(parts)
