"""`rlab demo`: plays the life of a group on an embedded cluster. Reads the options, and sets the exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Config, Json, Verbose, new_directory, switch
from cli.servers.console import CONSOLE_PORT
from process.output import print_error, print_json, print_line, print_note, print_verdict
from process.runtime import FAILED, run

if TYPE_CHECKING:
    from testbed.demo.state import DemoState
    from testbed.demo.story import DemoResult, ScenarioOptions


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    rate: Annotated[float, typer.Option(metavar="N", min=1, max=100_000, help="Messages per second.")] = 2_000.0,
    pace: Annotated[float, typer.Option(metavar="SECONDS", min=0, max=60, help="Pause after each step.")] = 1.2,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the brokers' data and the trace in this new directory.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every event to this file, as JSON Lines.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a report (see rlab report) to this folder at the end."),
    ] = None,
    console: Annotated[
        bool, switch("--console", help_text="Serve the console on port 9480 while the demo runs.")
    ] = False,
    plain: Annotated[bool, switch("--plain", help_text="Print lines even on a terminal.")] = False,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
) -> None:
    """Show the life of a consumer group on an embedded cluster.

    One name server, two brokers, 16 queues, 2,000 messages a second, all in this process. Consumers start one after
    another, two join, one leaves, one is cut off, one goes silent, the topic is scaled up, a broker restarts. Exit code
    0 means that the history keeps every rule of rlab check (every acknowledged message was received, for instance) and
    that the group converged after every step; exit code 1 means that a check failed or that the demo was stopped early.

    Example: rlab demo --keep ./demo-run
    """
    from testbed.demo.story import GROUP, ScenarioOptions

    if console:
        print_note(f"the console is on http://127.0.0.1:{CONSOLE_PORT}/groups/{GROUP} meanwhile")
    with ExitStack() as stack:
        data_dir = stack.enter_context(_data_dir(keep))
        trace_file = trace or (None if keep is None and report is None else data_dir / "trace.jsonl")
        options = ScenarioOptions(
            data_dir=data_dir, rate=rate, pace_s=pace, console_port=CONSOLE_PORT if console else None
        )
        result = run(lambda: _run(options, trace_file, plain=plain, as_json=json, verbose=verbose))
        _print(result, as_json=json)
        if report is not None and trace_file is not None:
            _report(trace_file, report, as_json=json)
    if not result.ok:
        raise typer.Exit(FAILED)


@contextmanager
def _data_dir(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with TemporaryDirectory(prefix="rlab-demo-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
    else:
        yield new_directory("--keep", keep)


async def _run(
    options: ScenarioOptions, trace: Path | None, *, plain: bool, as_json: bool, verbose: bool
) -> DemoResult:
    from cli.servers.trace_file import TraceFile
    from client.allocate import AllocateMessageQueueAveragely
    from client.config import wall_clock_ms
    from testbed.demo.state import DemoState
    from testbed.demo.story import GROUP, NAMES, TOPIC

    with ExitStack() as stack:
        sink = stack.enter_context(TraceFile(trace)).write if trace is not None else lambda event: None
        state = DemoState(GROUP, TOPIC, AllocateMessageQueueAveragely(), NAMES, wall_clock_ms, trace=sink)
        stack.enter_context(logs_into(state, logging.WARNING if verbose else logging.ERROR))
        if plain or as_json or not sys.stdout.isatty():
            return await _with_lines(options, state, print_note if as_json else print_line)
        return await _with_view(options, state)


async def _with_lines(options: ScenarioOptions, state: DemoState, say: Callable[[str], None]) -> DemoResult:
    """Run it and print a line for each step and each warning."""
    from testbed.demo.report import step_line
    from testbed.demo.state import Tone
    from testbed.demo.story import run_scenario

    def time() -> str:
        return f"{(state.clock_ms() - state.started_ms) / 1000:5.1f} s  "

    state.on_note = lambda note: say(f"{time()}warning: {note.text}") if note.tone is Tone.WARNING else None
    state.on_step = lambda step: say(time() + step_line(step))
    return await run_scenario(options, state)


async def _with_view(options: ScenarioOptions, state: DemoState) -> DemoResult:
    """Run it with a live view on the terminal."""
    from rich.console import Console

    from remoting.tasks import background_tasks
    from testbed.demo.report import step_line
    from testbed.demo.state import Tone
    from testbed.demo.story import run_scenario
    from testbed.demo.view import keep_drawing, live_view

    state.on_step = lambda step: state.add_note(step_line(step), Tone.RESULT)
    with live_view(Console()) as live:
        async with background_tasks() as tasks:
            tasks.start_soon(keep_drawing, live, state)
            return await run_scenario(options, state)


def _print(result: DemoResult, *, as_json: bool) -> None:
    from testbed.demo.report import result_document, step_table, verdict

    if as_json:
        print_json(result_document(result))
        return
    print_verdict(step_table(result.rebalances), 120)
    print_verdict(verdict(result), 120)


def _report(trace: Path, directory: Path, *, as_json: bool) -> None:
    """Make the report of the finished run, and print its path."""
    from cli.trace.make_report import make_report, page_path
    from model.errors import RlabError

    try:
        make_report([trace], "", directory)
    except RlabError as error:
        print_error(f"no report: {error}")
        raise typer.Exit(FAILED) from None
    (print_note if as_json else print_line)(f"Cost of each rebalance: {page_path(directory)}")


class _LogToNotes(logging.Handler):
    """Adds log records to the notes of the state."""

    def __init__(self, state: DemoState, level: int) -> None:
        super().__init__(level)
        self._state = state

    def emit(self, record: logging.LogRecord) -> None:
        from testbed.demo.state import Tone

        self._state.add_note(record.getMessage(), Tone.WARNING)


@contextmanager
def logs_into(state: DemoState, level: int) -> Iterator[None]:
    """Send log records only to the state while the block runs, because they would break the live view.

    Warnings are shown only with --verbose: clients warn of every connection that the demo breaks on purpose.
    """
    root = logging.getLogger()
    old_handlers, root.handlers = root.handlers, [_LogToNotes(state, level)]
    try:
        yield
    finally:
        root.handlers = old_handlers
