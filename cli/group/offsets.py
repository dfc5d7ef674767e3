"""`rlab group export` and `import`: write the offsets of a group to a file, and set them from it.

For moving a group to another cluster, and for a backup before a reset.
"""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.ask import ask_cluster
from cli.complete import groups
from cli.group.reset import print_resets
from cli.options import DEFAULT_NAME_SERVER, Config, GroupName, Json, NameServers, switch
from model.errors import ConfigError
from model.message_queue import MessageQueue
from model.names import check_group, check_topic
from model.offset_reset import QueueReset, ResetTo
from process.output import print_json
from process.runtime import exit_with_error

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.admin.records import GroupInfo

_FORMAT = 1


def register(app: typer.Typer) -> None:
    """Register the commands with `rlab group`."""
    app.command("export")(export)
    app.command("import")(import_)


def export(
    group: GroupName,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    config: Config = None,
) -> None:
    """Print the committed offsets of a group as a JSON document.

    Those of its retry topic are included.

    Example: rlab group export billing > billing.json
    """
    info = ask_cluster(namesrv, lambda admin: admin.group(group))
    with exit_with_error():
        print_json(offsets_document(info))


def import_(
    file: Annotated[Path, typer.Argument(show_default=False, help="What `rlab group export` has printed.")],
    group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP", show_default=False, help="Another group than the one of the file.", autocompletion=groups
        ),
    ] = None,
    dry_run: Annotated[bool, switch("--dry-run", help_text="Show the new offsets and change nothing.")] = False,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Reset the offsets of a group to the offsets of a file.

    The group may go on consuming.

    All queues are looked at before any is reset, so a topic or broker that is not there changes nothing. Offsets mean
    the same messages only where queues do: in the cluster that they are from, or in a copy of its data.

    Example: rlab group import billing.json --dry-run
    """
    with exit_with_error():
        name, offsets = read_offsets(file)
        target = check_group(group or name)

    async def resets(admin: Admin) -> tuple[QueueReset, ...]:
        all_resets: list[QueueReset] = []
        for only_look in (True,) if dry_run else (True, False):
            all_resets = []
            for (topic, offset), queues in offsets.items():
                to = ResetTo.offset(offset)
                all_resets += await admin.reset_offsets(
                    target, topic, to, queues=queues, dry_run=only_look, create=True
                )
        return tuple(sorted(all_resets, key=lambda each: each.queue))

    print_resets(ask_cluster(namesrv, resets), dry_run=dry_run, as_json=json)


def offsets_document(info: GroupInfo) -> dict[str, Any]:
    """The document of a group's offsets.

    Raises:
        ConfigError: not all of them are known.
    """
    if info.unreachable:
        raise ConfigError(f"brokers do not answer, so their offsets are missing: {', '.join(info.unreachable)}")
    rows = [[*each.queue, each.committed] for each in info.queues if each.committed is not None]
    return {"format": _FORMAT, "group": info.group, "offsets": rows}


def read_offsets(file: Path) -> tuple[str, dict[tuple[str, int], list[MessageQueue]]]:
    """Read a file; returns its group, and the queues by topic and offset.

    Raises:
        ConfigError: it cannot be read, or is not an export.
        InvalidParameter: an illegal name.
    """
    try:
        document: Any = json_.loads(file.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT:
            raise ConfigError(f"{file} has format {document['format']}: import it with the version that exported it")
        offsets: dict[tuple[str, int], list[MessageQueue]] = {}
        for topic, broker, queue_id, offset in document["offsets"]:
            if not (type(queue_id) is type(offset) is int and queue_id >= 0 and 0 <= offset < 2**63):
                raise ConfigError(f"{file}: queue id and offset of {topic} must be whole numbers of at least 0")
            offsets.setdefault((check_topic(topic), offset), []).append(MessageQueue(topic, str(broker), queue_id))
        return str(document["group"]), offsets
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"cannot read {file} as what `rlab group export` prints: {error}") from error
