"""`rlab crash`: options, output and exit code."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.options import Config, Json, Verbose, new_directory
from process.output import print_json, print_note, print_verdict, report_progress
from process.runtime import FAILED, run

if TYPE_CHECKING:
    from testbed.crash.run import CrashOptions, CrashResult


def _afterwards(help_text: str) -> Any:
    """A number of simulated faults after the kills, by default as many as kills."""
    return typer.Option(metavar="N", min=0, show_default="--kills", help=help_text)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("crash")(crash)


def crash(
    kills: Annotated[int, typer.Option(metavar="N", min=1, help="Number of kills, of all brokers together.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the moments of kills.")] = 0,
    brokers: Annotated[int, typer.Option(metavar="N", min=1, max=8, help="Number of brokers.")] = 2,
    producers: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Number of producers, with 18 concurrent sends each.")
    ] = 4,
    consumers: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Number of members of the group.")] = 3,
    rate: Annotated[
        float, typer.Option(metavar="N", min=1, help="Messages per second between the bursts around kills.")
    ] = 400.0,
    flush: Annotated[
        Literal["async", "sync"],
        typer.Option(help="Brokers answer a send before (async) or after (sync) a sync to the disk."),
    ] = "async",
    segment_size: Annotated[str, typer.Option(metavar="SIZE", help="Segment size of the brokers.")] = "512KiB",
    power_cuts: Annotated[int | None, _afterwards("Simulated power cuts afterwards, at least.")] = None,
    damage: Annotated[int | None, _afterwards("Number of damaged files afterwards.")] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the brokers' data in this new directory.")
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
) -> None:
    """Kill brokers under load, and check that nothing is lost.

    Producers and a consumer group work while brokers are killed with SIGKILL at all kinds of moments and restarted on
    their files. At the end everything is read back. Exit code 0 means that no acknowledged message is lost, that every
    queue is in order, and that every message is at its acknowledged offset; exit code 1 means that a check failed, and
    then the files are kept.

    A signal kills a process but not a machine, so power cuts are simulated afterwards, on brokers with --flush sync.
    Then files of simulated brokers are damaged, and every message that is lost must be reported, counted and shown.

    Example: rlab crash --kills 20 --seed 7
    """
    from testbed.crash.run import CrashOptions

    if kills < brokers:
        raise typer.BadParameter(f"{brokers} brokers need at least {brokers} --kills: each is killed once at the end")
    options = CrashOptions(
        directory=Path(tempfile.mkdtemp(prefix="rlab-crash-")) if data is None else new_directory("--data", data),
        kills=kills,
        seed=seed,
        brokers=brokers,
        producers=producers,
        consumers=consumers,
        rate=rate,
        broker_arguments=("--flush", flush, "--segment-size", segment_size),
        power_cuts=kills if power_cuts is None else power_cuts,
        damage=kills if damage is None else damage,
    )
    result = _in_its_directory(options, keep=data is not None, verbose=verbose)
    _print(result, as_json=json)
    if not result.ok:
        raise typer.Exit(FAILED)


def _in_its_directory(options: CrashOptions, *, keep: bool, verbose: bool) -> CrashResult:
    """Run it, and remove the brokers' data, unless it is to be kept or a check failed."""
    kept = True
    try:
        result = run(lambda: _crash(options, verbose=verbose))
        kept = keep or not result.ok
    finally:
        if kept:
            print_note(f"seed {options.seed}; the files of the brokers are in {options.directory}")
        else:
            shutil.rmtree(options.directory, ignore_errors=True)
    return result


async def _crash(options: CrashOptions, *, verbose: bool) -> CrashResult:
    """Run it, with progress on stderr."""
    import logging

    from remoting.tasks import background_tasks
    from testbed.crash.run import CrashRun

    if not verbose:
        # Clients warn of every broken connection and failed send, which are the purpose here.
        logging.getLogger().setLevel(logging.CRITICAL)
    run = CrashRun(options)
    async with background_tasks() as tasks:
        tasks.start_soon(report_progress, run.progress)
        return await run.run()


def _print(result: CrashResult, *, as_json: bool) -> None:
    from testbed.crash.report import verdict_table

    if as_json:
        print_json(result)
        return
    simulated = [part for part in (result.power_cuts, result.damage) if part is not None]
    for finding in (*result.verdict.examples, *(finding for part in simulated for finding in part.findings)):
        print_note(finding)
    print_verdict(verdict_table(result), 120)
