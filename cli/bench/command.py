"""`rlab bench`: options, names and the table."""

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
    "half-away",
    "twice",
    "moves-100",
    "consumers-2000",
    "width",
    "store-async",
    "store-sync",
    "catch-up",
    "recovery",
    "store-memory",
    "spark",
)
BY_NAME_ONLY = ("twice", "width", "store-memory", "spark")
"""Left out by default, because they take long, need much disk space, or need Spark."""


def _checked(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in NAMES:
            raise typer.BadParameter(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
    return list(dict.fromkeys(names or [name for name in NAMES if name not in BY_NAME_ONLY]))


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Benchmarks to run: {', '.join(NAMES)}; by default all but {', '.join(BY_NAME_ONLY)}.",
            callback=_checked,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.01, help="Length of a round of sends, pulls or echoes.")
    ] = 0.5,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rounds of each side, in turns; the median is reported.")
    ] = 15,
    joins: Annotated[int, typer.Option(metavar="N", min=1, help="Number of joins in join-100.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure rates, latencies and memory on this machine.

    Rates are compared with a bare echo of the same frames in the same run. If the host of a virtual machine withheld
    CPU time during the run, a line at the end says how much.

    Example: rlab bench send-64 pull-32 --seconds 1
    """
    from rich.console import Console

    from cli.bench.catalog import run_benchmarks
    from cli.bench.kit.host_share import WORTH_A_NOTE, read_cpu_time, share_kept
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
    if kept is not None and kept >= WORTH_A_NOTE:
        print_note(
            f"The host of this virtual machine withheld {kept:.0%} of the CPU time that was wanted: measure again."
        )


def register(app: typer.Typer) -> None:
    """Add the command to `rlab`."""
    app.command("bench")(bench)
