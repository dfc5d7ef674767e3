"""`rlab broker elect`: an operator makes a replica the master, because the master does not return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.ask import ask_register
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, RegisterPlace, switch
from process.output import print_note, print_outcome

if TYPE_CHECKING:
    from model.replica_set import ReplicaSet
    from replica.register import Register


def elect(
    broker: Annotated[str, typer.Argument(show_default=False, help="Name of the broker.")],
    replica: Annotated[int, typer.Option(metavar="REPLICA", min=1, show_default=False, help="Id of the new master.")],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    register: RegisterPlace = None,
    accept_loss: Annotated[
        bool,
        switch("--accept-loss", help_text="Elect it although messages may be lost, or although the master answers."),
    ] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Make a replica the master of a broker whose master is lost.

    It is refused for a replica that is not in sync, because acknowledged messages may be missing there, and while the
    master answers: then use `rlab broker handover`. What --accept-loss gives up is kept in the folder `salvage` of the
    other replicas, see `rlab broker salvage`.

    Example: rlab broker elect broker-a --replica 2
    """

    async def call(rows: Register) -> ReplicaSet:
        from replica.mastership.operate import elect as elect_master
        from replica.mastership.operate import master_answers

        return await elect_master(rows, broker, replica, accept_loss=accept_loss, answers=master_answers)

    row = ask_register(namesrv, register, call)
    text = f"replica {replica} at {row.master_address} is the master of {broker}, epoch {row.epoch}"
    print_outcome({"broker": broker, "master": row.master, "epoch": row.epoch}, text, as_json=json)
    if accept_loss:
        print_note("note: messages may be lost; those that a replica gives up are shown by 'rlab broker salvage DIR'")
