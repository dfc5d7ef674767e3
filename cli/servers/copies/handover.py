"""`rlab broker handover`: another replica becomes the master, without loss."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.ask import ask_cluster
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from process.output import print_outcome


def handover(
    broker: Annotated[str, typer.Argument(show_default=False, help="Name of the broker.")],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    to: Annotated[
        int, typer.Option(metavar="REPLICA", min=0, help="Id of the replica that takes over; 0 for any in sync.")
    ] = 0,
    json: Json = False,
    config: Config = None,
) -> None:
    """Let the master of a broker hand over to a replica in sync, for instance before its machine is maintained.

    No message is lost or delivered twice because of it, and members keep their queues. A master that is stopped with
    SIGTERM does the same.

    Example: rlab broker handover broker-a --to 2
    """
    row = ask_cluster(namesrv, lambda admin: admin.hand_over(broker, to))
    text = f"replica {row.master} at {row.master_address} is the master of {broker}, epoch {row.epoch}"
    print_outcome({"broker": broker, "master": row.master, "epoch": row.epoch}, text, as_json=json)
