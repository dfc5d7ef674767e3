"""`rlab strategies`: compare allocation strategies over random histories, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.complete import own_strategies
from cli.options import Config, Json, StrategiesHelp
from model.counted import plural
from process.output import print_json, print_line, print_note, print_table
from process.runtime import exit_with_error

if TYPE_CHECKING:
    from pipeline.strategies.job import Comparison


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=StrategiesHelp)(strategies)


def strategies(
    queues: Annotated[int, typer.Option(help="Queues of the topic on all brokers together.")] = 10_000,
    consumers: Annotated[int, typer.Option(help="Members at the start of each history.")] = 1_000,
    events: Annotated[int, typer.Option(help="Joins and leaves of each history.")] = 20,
    scenarios: Annotated[int, typer.Option(help="Number of histories.")] = 10,
    brokers: Annotated[int, typer.Option(help="Number of brokers.")] = 10,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this one of {strategies}; may be repeated. By default all that are built in.",
            autocompletion=own_strategies,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first history.")] = 1,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Where Spark runs: local[*], or spark://host:7077.")
    ] = "local[*]",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a picture and the events (Parquet) there.")
    ] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Compare allocation strategies over random histories.

    Shows how many queues a join or leave moves, compared with the minimum for an even assignment, and how even the
    loads are. Strategies that can be computed with arrays are, with the same results as in a client; others, such as
    those of packages, are called for each member in turn.

    Example: rlab strategies --queues 1000000 --consumers 10000 --events 20 --scenarios 4
    """
    from pipeline.strategies.job import Comparison

    with exit_with_error():
        names = {"strategies": tuple(dict.fromkeys(strategy))} if strategy else {}
        comparison = Comparison(
            queues=queues, brokers=brokers, consumers=consumers, events=events, scenarios=scenarios, seed=seed, **names
        )
        _run(comparison, master, out, json)


def _run(comparison: Comparison, master: str, out: Path | None, as_json: bool) -> None:
    from cli.trace.spark_progress import spark_progress
    from pipeline.spark.session import spark_session
    from pipeline.strategies.job import strategy_events, strategy_figures
    from pipeline.strategies.plot import plot_strategies

    print_note("starting Spark ...")
    with spark_session("rlab strategies", master=master) as spark, spark_progress(spark, "histories"):
        events = strategy_events(spark, comparison).persist()
        figures = strategy_figures(events, len(comparison.queue_set))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            events.write.mode("overwrite").parquet(str(out / "strategies.parquet"))
            ratios: dict[str, list[float]] = {name: [] for name in comparison.strategies}
            for row in events.groupBy("strategy", "scenario").sum("moved", "least").collect():
                if row[3]:
                    ratios[row[0]].append(row[2] / row[3])
            plot_strategies(figures, ratios, comparison, out / "strategies.png")
    if as_json:
        print_json({"comparison": comparison, "strategies": figures})
        return
    print_table(
        ["strategy", ">moved", ">× the least", ">worst history", ">spread", ">Jain", ">computed in"],
        [
            [
                each.strategy,
                f"{each.moved_share:.3%}",
                _times(each.times_least),
                _times(each.worst_times_least),
                f"{each.spread:,}",
                f"{each.jain:.4f}",
                f"{each.elapsed_ms:,.0f} ms",
            ]
            for each in figures
        ],
        title=f"{plural(len(comparison.queue_set), 'queue')}, {plural(comparison.consumers, 'consumer')}, "
        f"{comparison.scenarios} histories of {comparison.events} joins and leaves",
    )
    print_line("moved: queues moved by a join or leave; spread and Jain's index: the worst moment of all histories")
    if any(each.times_least is None for each in figures):
        print_line("with more members than queues the minimum is 0, so there is no ratio")
    if out is not None:
        print_line(f"{out / 'strategies.png'}")


def _times(multiple: float | None) -> str | None:
    return None if multiple is None else f"{multiple:,.1f}"
