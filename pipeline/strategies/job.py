"""The comparison of allocation strategies as a Spark job: a unit of work is one history under one strategy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from client.allocate.registry import BUILT_IN_STRATEGIES, strategy_names
from model.errors import ConfigError
from pipeline.strategies.allocate_all import QueueSet
from pipeline.strategies.histories import MembershipEvent, live_through

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

EVENTS_SCHEMA = (
    "scenario int, strategy string, event int, members int, moved bigint, least bigint, spread bigint, jain double, "
    "elapsed_ms double"
)
MAX_QUEUES = 10_000_000
"""Maximum number of queues of a history; each uses about 100 bytes of memory in a Python worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Options of a comparison."""

    queues: int = 1_000  # queues of the topic on all brokers; rounded down to the same number on each
    brokers: int = 10
    consumers: int = 100  # members at the beginning
    events: int = 20  # joins and leaves of each history
    scenarios: int = 10  # number of histories
    strategies: tuple[str, ...] = tuple(BUILT_IN_STRATEGIES)
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ConfigError: an option is out of its range; the text names it.
        """
        for name in ("brokers", "consumers", "events", "scenarios"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.brokers <= self.queues <= MAX_QUEUES:
            raise ConfigError(f"queues must be {self.brokers} (one on each broker) to {MAX_QUEUES}, got {self.queues}")
        names = strategy_names() if self.strategies != tuple(BUILT_IN_STRATEGIES) else self.strategies
        unknown = [name for name in self.strategies if name not in names]
        if unknown or not self.strategies:
            raise ConfigError(f"strategies must be some of {', '.join(names)}; got {', '.join(unknown) or 'none'}")

    @property
    def queue_set(self) -> QueueSet:
        """The queues of the compared topic."""
        names = tuple(f"broker-{number:04}" for number in range(self.brokers))
        return QueueSet("orders", names, self.queues // self.brokers)


def strategy_events(spark: SparkSession, comparison: Comparison) -> DataFrame:
    """Compute the effect of each event of each history under each strategy, lazily, with columns `EVENTS_SCHEMA`."""
    runs = comparison.scenarios * len(comparison.strategies)

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _run(comparison, number)

    # A partition for each run, up to some hundred: runs take from milliseconds to minutes, depending on the strategy.
    return spark.range(0, runs, 1, min(runs, 512)).mapInArrow(compute, EVENTS_SCHEMA)


def _run(comparison: Comparison, number: int) -> pa.RecordBatch:
    import time  # noqa: PLC0415 - in a worker

    import pyarrow as pa  # noqa: PLC0415

    scenario, which = divmod(number, len(comparison.strategies))
    strategy, seed = comparison.strategies[which], comparison.seed + scenario
    began = time.perf_counter()
    events = list(live_through(strategy, comparison.queue_set, comparison.consumers, comparison.events, seed))
    elapsed_ms = (time.perf_counter() - began) * 1000 / (len(events) + 1)
    of_events = {name: [getattr(event, name) for event in events] for name in MembershipEvent._fields}
    numbers = {name: pa.array(of_events[name], pa.int32()) for name in ("event", "members")}
    scenarios = pa.array([scenario] * len(events), pa.int32())
    return pa.RecordBatch.from_pydict(
        {
            "scenario": scenarios,
            "strategy": [strategy] * len(events),
            **of_events,
            **numbers,
            "elapsed_ms": [elapsed_ms] * len(events),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyFigures:
    """One strategy over all histories.

    Attributes:
        times_least: moved queues, as a multiple of the fewest that an even assignment has to move; None if that is 0,
            which happens with more members than queues.
    """

    strategy: str
    moved_share: float  # queues moved by an event, as a fraction of all
    times_least: float | None
    worst_times_least: float | None  # `times_least` of the worst history
    spread: int  # the largest difference between two loads at any time
    jain: float  # the smallest Jain's index at any time
    elapsed_ms: float  # time to assign all queues to all members once, vectorised


def strategy_figures(events: DataFrame, queues: int) -> list[StrategyFigures]:
    """Summarise the events per strategy; the strategy with the fewest moves is first."""
    from pyspark.sql import functions as F  # noqa: PLC0415

    histories = events.groupBy("strategy", "scenario").agg(
        F.sum("moved").alias("moved"),
        F.sum("least").alias("least"),
        F.count("*").alias("events"),
        F.max("spread").alias("spread"),
        F.min("jain").alias("jain"),
        F.first("elapsed_ms").alias("elapsed_ms"),
    )
    rows = (
        histories.groupBy("strategy")
        .agg(
            (F.sum("moved") / F.sum("events") / F.lit(queues)).alias("moved_share"),
            F.try_divide(F.sum("moved"), F.sum("least")).alias("times_least"),
            F.max(F.try_divide("moved", "least")).alias("worst_times_least"),
            F.max("spread").alias("spread"),
            F.min("jain").alias("jain"),
            F.avg("elapsed_ms").alias("elapsed_ms"),
        )
        .orderBy("times_least", "moved_share", "strategy")
        .collect()
    )
    return [StrategyFigures(**row.asDict()) for row in rows]
