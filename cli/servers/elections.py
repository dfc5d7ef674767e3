"""`rlab elections`: shows the register of replica sets, and makes one from a copy of it."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from model.errors import ConfigError, InvalidParameter
from process.output import print_json, print_note, print_outcome, print_table
from process.runtime import run

if TYPE_CHECKING:
    from model.replica_set import ReplicaSet

_COLUMNS = ("set", ">version", ">epoch", "master", "in sync", "members", ">copies", ">min in sync", "acks")
_MAX_COPY_BYTES = 16 * 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="The register of replica sets: the master of each set, and the replicas in sync.")
    group.command("show")(show)
    group.command("restore")(restore)
    app.add_typer(group, name="elections", no_args_is_help=True)


def show(namesrv: NameServers = DEFAULT_NAME_SERVER, json: Json = False, config: Config = None) -> None:
    """Show the row of each replica set. With --json the output is a copy of the register, for `restore`.

    Example: rlab elections show --namesrv ns1:9876,ns2:9876 --json > elections.json
    """
    from remoting.address import parse_addresses
    from replica.registers.remote import RemoteRegister

    async def main() -> list[ReplicaSet]:
        async with RemoteRegister(parse_addresses(namesrv)) as register:
            return await register.rows()

    rows = run(main)
    if json:
        print_json({"sets": rows})
    else:
        print_table(_COLUMNS, map(_cells, rows), empty="the register has no replica sets")


def _cells(row: ReplicaSet) -> tuple[object, ...]:
    members = ", ".join(f"{each.replica_id} {each.address}" for each in row.members)
    in_sync = ", ".join(map(str, row.in_sync))
    return row.name, row.version, row.epoch, row.master or None, in_sync, members, row.copies, row.min_in_sync, row.acks


def restore(
    copy: Annotated[Path, typer.Argument(show_default=False, help="Output of `rlab elections show --json`.")],
    into: Annotated[Path, typer.Option(metavar="DIR", show_default=False, help="A new directory for the register.")],
    json: Json = False,
    config: Config = None,
) -> None:
    """Make a register from a copy, for the case that the directory of the register is lost.

    The register gets the id of the lost one, so that its replicas accept it. Only the master of each set stays in sync,
    and adds the others again. If the master of a set has changed since the copy was made, its replicas refuse the
    register by name.

    Example: rlab elections restore elections.json --into /var/lib/rlab/elections
    """

    async def main() -> tuple[int, int]:
        from namesrv.elections import restore_elections

        rows = _rows_of(copy)
        return restore_elections(into, rows), len(rows)

    register_id, n_sets = run(main)
    outcome = {"register_id": register_id, "directory": str(into), "sets": n_sets}
    print_outcome(outcome, f"register {register_id} with {n_sets} sets is in {into}", as_json=json)
    print_note(f"note: start one name server with --elections {into}; no other may have a register of this id")


def _rows_of(copy: Path) -> list[ReplicaSet]:
    from model.replica_set import ReplicaSet

    try:
        if copy.stat().st_size > _MAX_COPY_BYTES:
            raise ConfigError(f"{copy} is longer than a copy of a register can be")
        document: Any = json_format.loads(copy.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or not isinstance(document.get("sets"), list):
            raise InvalidParameter("there is no list `sets`")
        return [ReplicaSet.from_document(each if isinstance(each, dict) else {}) for each in document["sets"]]
    except OSError as error:
        raise ConfigError(f"cannot read {copy}: {error.strerror}") from error
    except (ValueError, RecursionError, InvalidParameter) as error:
        raise ConfigError(f"{copy} is not a copy of a register: {error}") from error
