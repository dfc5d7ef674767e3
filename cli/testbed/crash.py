"""`rlab crash`: kills real brokers under load, and audits their messages. Reads the options, and sets the exit code."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer

from cli.options import Config, Json, Verbose, new_directory
from model.replica_limits import MAX_REPLICAS
from process.output import print_json, print_note, print_verdict, report_progress
from process.runtime import FAILED, run

if TYPE_CHECKING:
    from rich.table import Table

    from testbed.crash.copies.run import CopiesResult, CopiesRun
    from testbed.crash.load import LoadSize
    from testbed.crash.run import CrashResult, CrashRun

_OF_BROKERS = ("kills", "brokers", "power_cuts", "damage")
_OF_COPIES = ("elect", "faults", "failovers", "handovers", "losses")
"""Options of runs without copies, and of runs with copies, that the others do not have."""


def _of_copies(help_text: str) -> Any:
    """A number of steps of a run with copies."""
    return typer.Option(metavar="N", min=0, help=f"With --copies: {help_text}")


def _afterwards(help_text: str) -> Any:
    """A number of simulated faults after the kills, by default as many as kills."""
    return typer.Option(metavar="N", min=0, show_default="--kills", help=help_text)


def _number(maximum: int, help_text: str) -> Any:
    return typer.Option(metavar="N", min=1, max=maximum, help=help_text)


_Kills = Annotated[int, typer.Option(metavar="N", min=1, help="Number of kills, of all brokers together.")]
_Rate = Annotated[float, typer.Option(metavar="N", min=1, help="Messages per second between the bursts around kills.")]
_Flush = Annotated[
    Literal["async", "sync"],
    typer.Option(help="Brokers answer a send before (async) or after (sync) a sync to the disk."),
]
_Copies = Annotated[
    int | None,
    typer.Option(metavar="N", min=2, max=MAX_REPLICAS, help="Kill the replicas of one broker with this many copies."),
]
_Elect = Annotated[
    Literal["auto", "fast"],
    typer.Option(
        help="With --copies: a replica takes over when the lease of the master is over (auto) or it ends (fast)."
    ),
]
_Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the brokers' data in this new directory.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("crash")(crash)


def crash(
    context: typer.Context,
    kills: _Kills = 200,
    seed: Annotated[int, typer.Option(help="Seed of the moments of kills.")] = 0,
    brokers: Annotated[int, _number(8, "Number of brokers.")] = 2,
    producers: Annotated[int, _number(64, "Number of producers, with 18 concurrent sends each.")] = 4,
    consumers: Annotated[int, _number(64, "Number of members of the group.")] = 3,
    rate: _Rate = 400.0,
    flush: _Flush = "async",
    segment_size: Annotated[str, typer.Option(metavar="SIZE", help="Segment size of the brokers.")] = "512KiB",
    power_cuts: Annotated[int | None, _afterwards("Simulated power cuts afterwards, at least.")] = None,
    damage: Annotated[int | None, _afterwards("Number of damaged files afterwards.")] = None,
    copies: _Copies = None,
    elect: _Elect = "auto",
    faults: Annotated[int, _of_copies("kills, stops and pauses of replicas in sync.")] = 80,
    failovers: Annotated[int, _of_copies("kills and pauses of the master.")] = 80,
    handovers: Annotated[int, _of_copies("handovers, every second one by a stop of the master.")] = 40,
    losses: Annotated[int, _of_copies("masters that are killed and whose data is deleted.")] = 3,
    data: _Data = None,
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

    With --copies one broker has replicas. Those in sync are killed, stopped and paused, so is the master, it hands
    over, and its data is deleted; another replica takes over by itself. At the end each replica becomes the master, and
    everything is read back from it. No queue may move or have two owners, and a handover may repeat no message.

    Example: rlab crash --kills 20 --seed 7
    """
    from testbed.crash.load import LoadSize

    _check_given(context, _OF_COPIES if copies is None else _OF_BROKERS, copies)
    if copies is None and kills < brokers:
        raise typer.BadParameter(
            f"--kills is at least the number of brokers, {brokers}: each is killed once at the end"
        )
    directory = Path(tempfile.mkdtemp(prefix="rlab-crash-")) if data is None else new_directory("--data", data)
    load = LoadSize(seed=seed, producers=producers, consumers=consumers, rate=rate)
    of_each = ("--flush", flush, "--segment-size", segment_size)
    runner: _Run
    if copies is None:
        cuts, damaged = kills if power_cuts is None else power_cuts, kills if damage is None else damage
        runner = _brokers_run(directory, load, of_each, kills=kills, brokers=brokers, power_cuts=cuts, damage=damaged)
    else:
        steps = {"faults": faults, "failovers": failovers, "handovers": handovers, "losses": losses}
        runner = _copies_run(directory, load, ("--elect", elect, *of_each), copies, **steps)
    result = _in_its_directory(runner, directory, keep=data is not None, verbose=verbose, seed=seed)
    _print(result, as_json=json)
    if not result.ok:
        raise typer.Exit(FAILED)


def _brokers_run(directory: Path, load: LoadSize, of_each: tuple[str, ...], **numbers: int) -> CrashRun:
    from testbed.crash.run import CrashOptions, CrashRun

    return CrashRun(CrashOptions(directory=directory, load=load, broker_arguments=of_each, **numbers))


def _copies_run(directory: Path, load: LoadSize, of_each: tuple[str, ...], copies: int, **steps: int) -> CopiesRun:
    from testbed.crash.copies.run import CopiesOptions, CopiesRun
    from testbed.crash.copies.schedule import Steps

    steps_taken = Steps(**steps)
    return CopiesRun(
        CopiesOptions(directory=directory, copies=copies, steps=steps_taken, load=load, broker_arguments=of_each)
    )


class _Run(Protocol):
    """A run that can be started."""

    async def run(self) -> CrashResult | CopiesResult:
        """Run it."""

    def progress(self) -> str:
        """The progress of the run in a line."""


def _check_given(context: typer.Context, unknown: tuple[str, ...], copies: int | None) -> None:
    """Refuse an option that would have no effect.

    Raises:
        BadParameter: one was given.
    """
    for name in unknown:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"{option} is for runs with --copies" if copies is None else f"a run with --copies has no {option}"
            )


def _in_its_directory(
    runner: _Run, directory: Path, *, keep: bool, verbose: bool, seed: int
) -> CrashResult | CopiesResult:
    """Run it, and remove the brokers' data, unless it is to be kept or a check failed."""
    kept = True
    try:
        result = run(lambda: _crash(runner, verbose=verbose))
        kept = keep or not result.ok
    finally:
        if kept:
            print_note(f"seed {seed}; the files of the brokers are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return result


async def _crash(runner: _Run, *, verbose: bool) -> CrashResult | CopiesResult:
    """Run it, with progress on stderr."""
    import logging

    from remoting.tasks import background_tasks

    if not verbose:
        # Clients warn of every broken connection and failed send, which are the purpose here.
        logging.getLogger().setLevel(logging.CRITICAL)
    async with background_tasks() as tasks:
        tasks.start_soon(report_progress, runner.progress)
        return await runner.run()


def _print(result: CrashResult | CopiesResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    for finding in result.verdict.examples:
        print_note(finding)
    print_verdict(_drawn(result), 120)


def _drawn(result: CrashResult | CopiesResult) -> Table:
    from testbed.crash.copies.report import copies_table
    from testbed.crash.report import verdict_table
    from testbed.crash.run import CrashResult

    if not isinstance(result, CrashResult):
        return copies_table(result)
    for part in (result.power_cuts, result.damage):
        for finding in () if part is None else part.findings:
            print_note(finding)
    return verdict_table(result)
