"""`rlab elections`: shows the register of replica sets, removes a row, and makes a register from a copy of it."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.ask import ask_register
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, RegisterPlace
from model.errors import ConfigError, IllegalOperation, InvalidParameter
from process.output import print_json, print_note, print_outcome, print_table
from process.runtime import run

if TYPE_CHECKING:
    from model.replica_set import ReplicaSet
    from replica.register import Register

_COLUMNS = ("set", ">version", ">epoch", "master", "in sync", "members", ">copies", ">min in sync", "acks")
_MAX_COPY_BYTES = 16 * 1024 * 1024
_ANSWERS_S = 3.0  # timeout of a replica's answer, by which it shows that it runs


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="The register of replica sets: the master of each set, and the replicas in sync.")
    group.command("show")(show)
    group.command("remove")(remove)
    group.command("restore")(restore)
    app.add_typer(group, name="elections", no_args_is_help=True)


def show(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    register: RegisterPlace = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show the row of each replica set. With --json the output is a copy of the register, for `restore`.

    Example: rlab elections show --namesrv ns1:9876,ns2:9876 --json > elections.json
    """
    rows = ask_register(namesrv, register, lambda rows: rows.rows())
    if json:
        print_json({"sets": rows})
    else:
        print_table(_COLUMNS, map(_cells, rows), empty="the register has no replica sets")


def _cells(row: ReplicaSet) -> tuple[object, ...]:
    members = ", ".join(f"{each.replica_id} {each.address}" for each in row.members)
    in_sync = ", ".join(map(str, row.in_sync))
    return row.name, row.version, row.epoch, row.master or None, in_sync, members, row.copies, row.min_in_sync, row.acks


def remove(
    broker: Annotated[str, typer.Argument(show_default=False, help="Name of the broker.")],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    register: RegisterPlace = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Remove a set whose replicas are all gone for good, so that its name is free for a new set.

    It is refused while a replica answers. A replica of the set that is started later is refused. To use its messages,
    remove the file REPLICA from its directory: then it is a broker without copies, or makes a set with --copies.

    Example: rlab elections remove broker-a --namesrv ns1:9876
    """

    async def call(rows: Register) -> None:
        row = await rows.read(broker)
        if row is None:
            raise InvalidParameter(f"the register has no set {broker!r}: see 'rlab elections show'")
        if answering := await _answering(row):
            raise IllegalOperation(
                f"{' and '.join(answering)} of set {broker} answer: stop them, or forget one replica with "
                f"'rlab broker forget {broker} --replica ID'"
            )
        await rows.remove(broker, row.version)

    ask_register(namesrv, register, call)
    print_outcome({"removed": broker}, f"set {broker} is removed from the register", as_json=json)


async def _answering(row: ReplicaSet) -> list[str]:
    """The replicas of a set at whose addresses a server answers."""
    import anyio

    from model.errors import NetworkError, RlabError
    from remoting.client import RemotingClient
    from remoting.request_code import RequestCode

    by_number: dict[int, str] = {}

    async def ask(client: RemotingClient, replica_id: int, address: str) -> None:
        try:
            await client.request(address, RequestCode.GET_SERVER_STATE, timeout_s=_ANSWERS_S)
        except NetworkError:
            return
        except RlabError:
            pass  # it refuses, so it is there
        by_number[replica_id] = f"replica {replica_id} at {address}"

    async with RemotingClient() as client, anyio.create_task_group() as tasks:
        for member in row.members:
            tasks.start_soon(ask, client, member.replica_id, member.address)
    return [text for _, text in sorted(by_number.items())]


def restore(
    copy: Annotated[Path, typer.Argument(show_default=False, help="Output of `rlab elections show --json`.")],
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new directory for the register of a name server.")
    ] = None,
    register: RegisterPlace = None,
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
        rows = _rows_of(copy)
        if register is not None:
            return await _restore_in_etcd(register, rows), len(rows)
        assert into is not None, "one of the two"
        from namesrv.elections import restore_elections

        return restore_elections(into, rows), len(rows)

    if (into is None) == (register is None):
        raise typer.BadParameter("name the place of the register: --into DIR, or --register etcd://HOST:PORT,...")
    register_id, n_sets = run(main)
    if into is not None:
        outcome = {"register_id": register_id, "directory": str(into), "sets": n_sets}
        note = f"start one name server with --elections {into}"
    else:
        outcome = {"register_id": register_id, "register": register, "sets": n_sets}
        note = f"start the brokers with --register {register}"
    print_outcome(outcome, f"register {register_id} with {n_sets} sets is in {into or register}", as_json=json)
    print_note(f"note: {note}; no other may have a register of this id")


async def _restore_in_etcd(location: str, rows: list[ReplicaSet]) -> int:
    from replica.registers.etcd import EtcdRegister
    from replica.registers.etcd_place import parse_place

    async with EtcdRegister(parse_place(location)) as register:
        return await register.restore(rows)


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
