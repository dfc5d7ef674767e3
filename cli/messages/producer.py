"""`rlab producer`: list and show producer groups with their open transactions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cli.ask import ask_cluster
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from model.counted import plural
from process.output import print_json, print_line, print_note, print_table

app = typer.Typer(help="List and show producer groups and their open transactions.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="producer")


@app.command("list")
def list_groups(namesrv: NameServers = DEFAULT_NAME_SERVER, json: Json = False, config: Config = None) -> None:
    """List producer groups: members, open transactions, and the age of the oldest.

    Example: rlab producer list
    """
    groups = ask_cluster(namesrv, lambda admin: admin.producer_groups())
    if json:
        print_json({"groups": [asdict(each) for each in groups]})
        return
    print_table(
        ["group", ">members", ">open transactions", ">oldest", ">waiting"],
        [
            (each.group, each.members, each.open, f"{each.oldest_s:.0f} s" if each.open else None, each.waiting)
            for each in groups
        ],
        empty="no producer is connected, and no transaction is open",
    )
    for each in groups:
        if each.waiting:
            print_note(
                f"note: {plural(each.waiting, 'transaction', 'waits', 'wait')} for a producer of {each.group} that "
                "answers checks: start one"
            )


@app.command()
def show(
    group: Annotated[str, typer.Argument(help="Producer group.", show_default=False)],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Show the members of a producer group, and its oldest open transactions.

    Example: rlab producer show shop
    """
    info = ask_cluster(namesrv, lambda admin: admin.producer_group(group))
    if json:
        transactions = [each._asdict() for each in info.transactions]
        print_json({**asdict(info), "transactions": transactions})
        return
    members, open_now = plural(len(info.members), "member"), plural(info.open, "open transaction")
    print_line(f"producer group {info.group}: {members}, {open_now}")
    if info.members:
        print_table(
            ["member", "address", "answers checks"],
            [(each.client_id, each.address, "yes" if each.answers_checks else "no") for each in info.members],
        )
    if info.transactions:
        print_table(
            ["message id", "topic", ">age", ">checks", "next check"],
            [
                (
                    each.message_id,
                    each.topic,
                    f"{each.age_s:.0f} s",
                    each.checks,
                    "waits for a producer" if each.next_check_s < 0 else f"in {each.next_check_s:.0f} s",
                )
                for each in info.transactions
            ],
        )
    if info.open > len(info.transactions):
        print_note(f"note: these are the oldest {len(info.transactions)}; {info.open} are open")
