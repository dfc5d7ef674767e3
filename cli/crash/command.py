"""`rlab crash`: options, where the output goes, and the exit code."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.options import Config, Json, Verbose
from cli.output import print_json, print_note, report_progress
from cli.runtime import FAILED, run

if TYPE_CHECKING:
    from cli.crash.run import CrashOptions, CrashResult


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("crash")(crash)


def crash(
    kills: Annotated[int, typer.Option(metavar="N", min=1, help="How often a broker is killed.")] = 200,
    seed: Annotated[int, typer.Option(help="Decides the moments.")] = 0,
    brokers: Annotated[int, typer.Option(metavar="N", min=1, max=8, help="How many brokers.")] = 2,
    producers: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="How many producers, of 18 sends each.")
    ] = 4,
    consumers: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="How many members the group has.")] = 3,
    rate: Annotated[
        float, typer.Option(metavar="N", min=1, help="Messages per second, outside of the bursts around kills.")
    ] = 400.0,
    flush: Annotated[
        Literal["async", "sync"], typer.Option(help="Whether the brokers answer a send before or after a sync.")
    ] = "async",
    segment_size: Annotated[str, typer.Option(metavar="SIZE", help="Of the brokers' files.")] = "512KiB",
    power_cuts: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, show_default="--kills", help="How often simulated brokers lose their power afterwards."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep what the brokers stored in this new directory.")
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
) -> None:
    """Kill real brokers under load, again and again, and check that nothing acknowledged is lost.

    Producers and a consumer group work while SIGKILL hits the brokers at moments of all kinds; each is started again on
    its files. In the end everything is read back. Exit code 0 means that nothing that was acknowledged is lost, that
    the order of each queue was kept, and that each offset is what was said; 1 that not, and then the files are kept.

    A signal ends a process and not a machine: afterwards simulated brokers that answer after a sync lose their power.

    Example: rlab crash --kills 20 --seed 7
    """
    from cli.crash.run import CrashOptions

    if kills < brokers:
        raise typer.BadParameter(f"{brokers} brokers need at least {brokers} --kills: each is killed in the end")
    options = CrashOptions(
        directory=_new_directory(data),
        kills=kills,
        seed=seed,
        brokers=brokers,
        producers=producers,
        consumers=consumers,
        rate=rate,
        broker_arguments=("--flush", flush, "--segment-size", segment_size),
        power_cuts=kills if power_cuts is None else power_cuts,
    )
    result = _in_its_directory(options, keep=data is not None, verbose=verbose)
    _print(result, as_json=json)
    if not result.ok:
        raise typer.Exit(FAILED)


def _new_directory(data: Path | None) -> Path:
    if data is None:
        return Path(tempfile.mkdtemp(prefix="rlab-crash-"))
    try:
        data.mkdir(parents=True)
    except OSError as error:
        raise typer.BadParameter(f"--data needs a new directory; {data}: {error.strerror}") from error
    return data.resolve()


def _in_its_directory(options: CrashOptions, *, keep: bool, verbose: bool) -> CrashResult:
    """Run it, and remove what the brokers stored, unless it is to be kept or something is wrong with it."""
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
    """Run it, and say on stderr how far it has come."""
    import logging

    from cli.crash.run import CrashRun
    from remoting.tasks import background_tasks

    if not verbose:
        # Clients warn of every connection and every send that is cut, and here that is the programme.
        logging.getLogger().setLevel(logging.CRITICAL)
    run = CrashRun(options)
    async with background_tasks() as tasks:
        tasks.start_soon(report_progress, run.progress)
        return await run.run()


def _print(result: CrashResult, *, as_json: bool) -> None:
    import sys

    from rich.console import Console

    from cli.crash.report import verdict_table

    if as_json:
        print_json(result)
        return
    for finding in (*result.verdict.examples, *(result.power_cuts.findings if result.power_cuts else ())):
        print_note(finding)
    Console(width=None if sys.stdout.isatty() else 120).print(verdict_table(result))
