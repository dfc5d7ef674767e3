"""`rlab broker replicas`: show the set of a broker, and the position of each replica."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.ask import ask_cluster
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from process.output import print_json, print_line, print_note, print_table


def replicas(
    broker: Annotated[str, typer.Argument(show_default=False, help="Name of the broker.")],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show the replicas of a broker: which one serves, which are in sync, and how far each of them has come.

    Only a replica in sync can take over without loss.

    Example: rlab broker replicas broker-a --namesrv ns1:9876
    """
    replica_set = ask_cluster(namesrv, lambda admin: admin.replicas(broker))
    if json:
        print_json(replica_set)
        return
    row = replica_set.row
    print_line(f"{row}; acks {row.acks}, min_in_sync {row.min_in_sync}, lease {row.lease_ms / 1000:g} s")
    print_table(
        [">replica", "address", "role", "in sync", ">log ends at", ">bytes behind", ">seconds behind", "remark"],
        [
            (
                each.replica_id,
                each.address,
                each.role or "away",
                "yes" if each.in_sync else "no",
                each.end_position if each.end_position >= 0 else "",
                each.lag_bytes if each.lag_bytes >= 0 else "",
                f"{each.lag_s:.1f}" if each.lag_s >= 0 else "",
                each.failure or each.state,
            )
            for each in replica_set.replicas
        ],
    )
    if len(row.in_sync) < row.copies:
        print_note(
            f"note: {len(row.in_sync)} of {row.copies} copies are in sync: a loss of "
            f"{'this one' if len(row.in_sync) == 1 else 'these'} loses messages"
        )
