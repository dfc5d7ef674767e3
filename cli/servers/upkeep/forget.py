"""`rlab broker forget`: name servers forget a broker that will not return, or its set forgets one of its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.ask import ask_cluster, ask_register
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, RegisterPlace
from process.output import print_outcome

if TYPE_CHECKING:
    from model.replica_set import ReplicaSet
    from replica.register import Register


def forget(
    broker: Annotated[str, typer.Argument(show_default=False, help="Name of the broker.")],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    register: RegisterPlace = None,
    replica: Annotated[
        int | None, typer.Option(metavar="REPLICA", min=1, help="Only this replica of the broker: its machine is gone.")
    ] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Forget a broker that was killed or cut off and will not return, so that tools no longer report it as away.

    A broker that stops by itself unregisters, and one that returns is not away: neither has to be forgotten. Its data
    directory is not touched; a broker that is started on it registers again. A replica that is forgotten leaves its
    set for good, and its directory is no longer used. Another machine then joins with --replica-of.

    Example: rlab broker forget broker-b --namesrv ns1:9876,ns2:9876
    """
    if replica is not None:
        row = ask_register(namesrv, register, lambda rows: _forget_replica(rows, broker, replica))
        left = [member.replica_id for member in row.members]
        text = f"replica {replica} of {broker} is forgotten, left: {', '.join(map(str, left))}"
        print_outcome({"broker": broker, "replica": replica, "left": left}, text, as_json=json)
        return
    n = ask_cluster(namesrv, lambda admin: admin.forget_broker(broker))
    print_outcome({"broker": broker, "name_servers": n}, f"{broker} is forgotten", as_json=json)


async def _forget_replica(register: Register, broker: str, replica: int) -> ReplicaSet:
    from replica.mastership.operate import forget_replica

    return await forget_replica(register, broker, replica)
