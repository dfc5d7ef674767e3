"""The command `rlab bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.output import print_json, print_note, print_table
from cli.runtime import run

NAMES = (
    "send-64",
    "send-1",
    "pull-32",
    "consume",
    "order",
    "pop",
    "pop-memory",
    "contrast",
    "sticky",
    "join-100",
    "stalls",
    "moves-100",
    "consumers-2000",
    "store-async",
    "store-sync",
    "catch-up",
    "recovery",
    "store-memory",
    "spark",
)
BY_NAME_ONLY = ("store-memory", "spark")
"""Too long, too large for the disk, or in need of Spark, for whoever only wants to see some figures."""


def _checked(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in NAMES:
            raise typer.BadParameter(f"there is no benchmark {name!r}, only {', '.join(NAMES)}")
    return list(dict.fromkeys(names or [name for name in NAMES if name not in BY_NAME_ONLY]))


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Some of {', '.join(NAMES)}; by default all but {', '.join(BY_NAME_ONLY)}.", callback=_checked
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of one round of sends, pulls or echoes.")] = 0.5,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds of each side, in turns; the median is reported.")] = 15,
    joins: Annotated[int, typer.Option(min=1, help="Joins that join-100 measures.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure this machine: sends, pulls, joins, stalls, storage, memory.

    Rates are compared with a bare echo of the same frames in the same run. On a virtual machine whose host gave its CPU
    time to others meanwhile, a line at the end says how much.

    Example: rlab bench send-64 pull-32 --seconds 1
    """
    from rich.console import Console

    from cli.bench.catalog import run_benchmarks
    from cli.bench.kit.host_share import WORTH_SAYING, read_cpu_time, share_kept
    from cli.bench.kit.report import COLUMNS, as_rows
    from cli.bench.kit.rounds import Sizes

    before = read_cpu_time()
    with Console(stderr=True).status("") as status:
        sizes = Sizes(seconds=seconds, repeat=repeat, joins=joins)
        results = run(lambda: run_benchmarks(names or [], sizes, status.update))
    kept = share_kept(before, read_cpu_time())
    if as_json:
        print_json({"results": results, "host_kept": kept})
        return
    print_table(COLUMNS, as_rows(results))
    if kept is not None and kept >= WORTH_SAYING:
        print_note(f"The host of this machine kept {kept:.0%} of the CPU time that was asked for: measure again.")


def register(app: typer.Typer) -> None:
    """Add the command to `rlab`."""
    app.command("bench")(bench)
