"""`rlab whatif`: replay a recorded trace under other rules, in this process or on Spark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from cli.complete import groups, own_strategies
from cli.options import Config, Json, StrategiesHelp
from model.counted import plural
from model.errors import ConfigError
from model.missing_trace import SilentBrokers
from process.output import print_json, print_line, print_note, print_table
from process.runtime import exit_with_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from model.events import Event
    from pipeline.replay.job import Baseline, Grid, TriedRules
    from pipeline.replay.recorded import RecordedGroup
    from pipeline.replay.rules import Rules

T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=StrategiesHelp)(whatif)


_Notify = Annotated[
    bool | None,
    typer.Option(
        "--notify/--no-notify", help="With or without notifications of membership changes. By default both are tried."
    ),
]
_RecordedTimeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Session timeout in force when the trace was recorded; by default as its members reported, else 120.",
    ),
]
_Sort = Annotated[
    str,
    typer.Option(
        metavar="COST",
        help="Order by moves, orphan, silent, duplicates, lag, imbalance, or all: by the ranks in all of them.",
    ),
]
_Capacity = Annotated[
    float | None,
    typer.Option(
        metavar="N", help="Messages per second that a member can process; by default the highest observed rate."
    ),
]
_Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs: local[*], or spark://host:7077. By default up to 1,000,000 events need no Spark.",
    ),
]
_Strategies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Try this one of {strategies}; may be repeated. By default all that are built in.",
        autocompletion=own_strategies,
    ),
]


def whatif(
    trace: Annotated[
        list[Path], typer.Argument(metavar="TRACE...", help="JSON Lines files or Parquet folders with events.")
    ],
    group: Annotated[
        str | None, typer.Option(help="Consumer group; needed if the trace has more than one.", autocompletion=groups)
    ] = None,
    strategy: _Strategies = None,
    interval: Annotated[
        list[float] | None, typer.Option(metavar="SECONDS", help="Try this rebalance interval. By default 5, 20, 60.")
    ] = None,
    session_timeout: Annotated[
        list[float] | None, typer.Option(metavar="SECONDS", help="Try this session timeout. By default 30, 120.")
    ] = None,
    handover: Annotated[
        list[str] | None,
        typer.Option(metavar="drain|cut|overlap", help="Try this kind of handover. By default drain, overlap."),
    ] = None,
    notify: _Notify = None,
    recorded_timeout: _RecordedTimeout = None,
    recorded_strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Strategy of the trace; by default it is inferred, among the built-in ones and --strategy.",
        ),
    ] = None,
    capacity: _Capacity = None,
    sort: _Sort = "all",
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Print at most N configurations.")] = 20,
    master: _Master = None,
    driver_memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of Spark's driver.")] = "1g",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a page, a picture and all configurations (Parquet) there.")
    ] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Replay a trace under other rules, and compare the costs.

    The joins, leaves and messages are those of the trace. Tries every combination of strategies, rebalance intervals,
    session timeouts, kinds of handover, and notifications, and prints the Pareto front: the combinations that no other
    one beats in every cost, and which of them to choose. Needs the extra `spark`, and Java only for more than 1,000,000
    events or the folder of a stream.

    Example: rlab whatif trace.jsonl --handover drain --session-timeout 30 --session-timeout 120
    """
    with exit_with_error():
        grid = _grid(strategy, interval, session_timeout, handover, notify, recorded_timeout)
        _check_recorded(recorded_strategy, capacity)
        _check_sort(sort)
        for path in trace:
            if not path.exists():
                raise ConfigError(f"there is no trace {path}")
        _run(trace, group, grid, recorded_strategy, capacity, master, driver_memory, out, sort, top, as_json=json)


def _grid(
    strategies: list[str] | None,
    intervals_s: list[float] | None,
    timeouts_s: list[float] | None,
    handovers: list[str] | None,
    notify: bool | None,
    was_timeout_s: float | None,
) -> Grid:
    from pipeline.replay.job import Grid
    from pipeline.replay.rules import Handover

    unknown = sorted(set(handovers or ()) - set(Handover))
    if unknown:
        raise ConfigError(f"handover must be drain, cut or overlap; got {', '.join(unknown)}")
    grid = Grid(was_timeout_s=was_timeout_s)
    grid = replace(
        grid,
        strategies=_once(strategies) or grid.strategies,
        intervals_s=_once(intervals_s) or grid.intervals_s,
        timeouts_s=_once(timeouts_s) or grid.timeouts_s,
        handovers=tuple(Handover(each) for each in _once(handovers)) or grid.handovers,
        notify=grid.notify if notify is None else (notify,),
    )
    grid.rules()  # raises before Spark starts
    return grid


def _check_recorded(strategy: str | None, capacity: float | None) -> None:
    from client.allocate.registry import check_strategy_name

    if strategy is not None:
        check_strategy_name("--recorded-strategy", strategy)
    if capacity is not None and not 0 < capacity < math.inf:
        raise ConfigError(f"--capacity must be a number above 0, got {capacity:g}")


def _check_sort(sort: str) -> None:
    from pipeline.replay.advice import check_sort

    check_sort(sort)


def _once(values: list[T] | None) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values or ()))


class _Engine(NamedTuple):
    """The functions that read a trace, and replay it under each of some rules."""

    collect: Callable[[Callable[[str], object]], list[Event]]
    try_all: Callable[[RecordedGroup, Sequence[Rules], float | None], list[TriedRules]]


@contextmanager
def _engine(traces: list[Path], master: str | None, driver_memory: str) -> Iterator[_Engine]:
    """This process, if the trace is short and no `master` is given, or else Spark."""
    from pipeline.replay import alone

    files = alone.files_for_one_process(traces) if master is None else None
    if files is not None:
        yield _Engine(partial(alone.collect_events, files), alone.try_all)
        return
    from pipeline.spark.session import spark_session

    print_note("starting Spark ...")
    with spark_session("rlab whatif", master=master or "local[*]", driver_memory=driver_memory) as spark:
        yield _on_spark(spark, traces)


def _on_spark(spark: SparkSession, traces: list[Path]) -> _Engine:
    from cli.trace.spark_progress import spark_progress
    from pipeline.replay import job

    def collect(report: Callable[[str], object]) -> list[Event]:
        with spark_progress(spark, "reading"):
            return job.collect_events(spark, traces, report)

    def try_all(recorded: RecordedGroup, rules: Sequence[Rules], capacity_per_s: float | None) -> list[TriedRules]:
        with spark_progress(spark, "configurations"):
            return job.collect_tried(job.try_all(spark, recorded, rules, capacity_per_s), rules)

    return _Engine(collect, try_all)


def _read(engine: _Engine) -> tuple[list[Event], str]:
    """The events of a trace with right times, and the missing parts; notes are printed."""
    from traces.check.words import clock_text
    from traces.figures.clocks.clocks import find_clocks

    notes: list[str] = []
    events = engine.collect(notes.append)
    clocks, brokers = find_clocks(events), SilentBrokers()
    for note in (*notes, *(f"note: {clock_text(fault)}" for fault in clocks.faults)):
        print_note(note)
    for event in events:
        brokers.add(event)
    return [clocks.correct(event) for event in events], str(brokers.missing)


def _run(
    traces: list[Path],
    group: str | None,
    grid: Grid,
    strategy: str | None,
    capacity: float | None,
    master: str | None,
    driver_memory: str,
    out: Path | None,
    sort: str,
    top: int,
    *,
    as_json: bool,
) -> None:
    from pipeline.replay import job
    from pipeline.replay.advice import advice, counts, rank_rules
    from pipeline.replay.alone import write_costs
    from pipeline.replay.plot import plot_whatif

    with _engine(traces, master, driver_memory) as engine:
        events, missing = _read(engine)
        recorded = job.read_group(events, group)
        grid = grid.recorded_with(recorded.timeout_ms)
        rules = grid.rules()
        baseline = job.find_baseline(recorded, grid.recorded_timeout_s, strategy, grid.strategies)
        replayed = job.try_rules(recorded, baseline.rules, capacity)
        trace = job.as_recorded(recorded, replayed)
        tried = engine.try_all(recorded, rules, capacity)
        front = job.pareto_front(each.costs for each in tried)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            write_costs(tried, out / "whatif.parquet")
            plot_whatif(tried, front, trace, out / "whatif.png")
    best = rank_rules((each for each, is_on_front in zip(tried, front, strict=True) if is_on_front), sort)
    choice = advice(best[0], replayed, sort)
    if as_json:
        [of_trace, of_replay] = _dicts([trace, replayed])
        figures = {**of_trace, "figures": recorded.figures}
        print_json(
            {
                "missing": missing,
                "recorded": figures,
                "replayed": of_replay,
                "baseline": baseline._asdict(),
                "front": _dicts(best),
            }
        )
        return
    if missing:
        print_line(f"incomplete: {missing}")
    _print_proof(recorded, baseline)
    title = f"group {recorded.group}, {recorded.group_ms / 1000:,.0f} s, {counts(tried, front)}"
    was = [_cells("recorded", trace, recorded.figures.possible_duplicates), _cells("replayed", replayed)]
    _show(title, choice, was, best, out, top)


def _show(title: str, choice: str, was: list[list[str]], best: list[TriedRules], out: Path | None, top: int) -> None:
    """Print the table and the advice, and write the page beside the picture."""
    from pipeline.replay.page import whatif_page

    rows = [*was, *(_cells("", each) for each in best)]
    print_table(_COLUMNS, rows[: top + 2], title=title)
    if len(best) > top:
        print_line(f"{len(best) - top} more: --top {len(best)}")
    for note in _NOTES:
        print_line(note)
    print_line(choice)
    if out is not None:
        picture = (out / "whatif.png").read_bytes()
        page = whatif_page(title, choice, picture, _COLUMNS, rows, _NOTES)
        (out / "whatif.html").write_text(page, encoding="utf-8")
        print_line(f"{out / 'whatif.html'}")


_COLUMNS = [
    "",
    "strategy",
    ">interval",
    ">timeout",
    "handover",
    "notified",
    ">moves",
    ">orphan",
    ">silent",
    ">duplicates",
    ">lag p99",
    ">imbalance",
]
_NOTES = (
    "recorded: moves, orphan and duplicates as counted in the trace; replayed: the same rules, as all below it",
    "orphan, silent: queue-seconds without an owner, and with one that was dead or hung",
    "duplicates and lag of a replay: messages, estimated",
)


def _dicts(tried: list[TriedRules]) -> list[dict[str, object]]:
    return [{**each._asdict(), "costs": each.costs._asdict()} for each in tried]


def _print_proof(recorded: RecordedGroup, baseline: Baseline) -> None:
    missing = sorted({change.client for change in recorded.changes} - recorded.passes.keys())
    if missing:
        print_line(f"the trace has no events of {plural(len(missing), 'member')}, for instance {missing[0]}")
    if baseline.wrong_queues:
        print_line(
            f"the replay is not exact: {plural(baseline.wrong_queues, 'queue')} had other owners in the trace; check "
            "that the trace is complete, and --recorded-timeout and --recorded-strategy"
        )
    else:
        print_line(
            f"the replay is exact: {plural(baseline.moves, 'lease', 'goes', 'go')} to the same member as in the trace"
        )


def _cells(label: str, tried: TriedRules, possible: int = 0) -> list[str]:
    rules, costs = tried.rules, tried.costs
    perhaps = f" to {costs.duplicates + possible:,.0f}" if possible else ""
    return [
        label,
        rules.strategy,
        f"{rules.interval_ms / 1000:g} s",
        f"{rules.timeout_ms / 1000:g} s",
        rules.handover.value,
        "yes" if rules.notify else "no",
        f"{costs.moves:,}",
        f"{costs.orphan_s:,.1f} s",
        f"{costs.silent_s:,.1f} s",
        f"{costs.duplicates:,.0f}{perhaps}",
        f"{costs.lag_p99:,.0f}",
        f"{costs.imbalance:.2f}",
    ]
