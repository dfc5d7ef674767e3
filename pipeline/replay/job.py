"""The what-if job: replays one trace under many rules in Spark, a row for each set of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from client.allocate.registry import BUILT_IN_STRATEGIES
from model.errors import ConfigError
from model.events import Event
from model.limits import MEMBER_EXPIRY_S
from pipeline.replay.costs import Costs, compute_all_costs, estimate_capacity
from pipeline.replay.recorded import RecordedGroup, groups_in, read_recorded
from pipeline.replay.replay import ReplayOutcome, replay
from pipeline.replay.rules import Handover, Rules
from pipeline.replay.targets import MemberTargets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COSTS_SCHEMA = (
    "number int, strategy string, interval_s double, timeout_s double, handover string, notify boolean, moves bigint, "
    "orphan_s double, silent_s double, duplicates double, lag_p99 double, imbalance double, passes bigint"
)
MAX_CONFIGURATIONS = 10_000
MAX_KNOWN = 64
"""Outcomes that are kept; equal ones are near each other in the grid, and one holds the moves of a trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The rules to try: every combination of these values; see `Rules`."""

    strategies: tuple[str, ...] = tuple(BUILT_IN_STRATEGIES)
    intervals_s: tuple[float, ...] = (5.0, 20.0, 60.0)
    timeouts_s: tuple[float, ...] = (30.0, 120.0)
    handovers: tuple[Handover, ...] = (Handover.DRAIN, Handover.OVERLAP)
    notify: tuple[bool, ...] = (True, False)
    was_timeout_s: float | None = None  # the session timeout in force when the trace was recorded, if known

    @property
    def recorded_timeout_s(self) -> float:
        """The session timeout in force when the trace was recorded, or else the default of all clients."""
        return MEMBER_EXPIRY_S if self.was_timeout_s is None else self.was_timeout_s

    def recorded_with(self, timeout_ms: float | None) -> Grid:
        """Return the grid with the session timeout of a trace, unless a timeout was given already."""
        if self.was_timeout_s is not None or timeout_ms is None:
            return self
        return replace(self, was_timeout_s=timeout_ms / 1000)

    def rules(self) -> list[Rules]:
        """Return all combinations.

        Raises:
            ConfigError: a value is out of its range, or there are no combinations, or too many.
        """
        values = product(self.strategies, self.intervals_s, self.timeouts_s, self.handovers, self.notify)
        combinations = [
            Rules(
                strategy=strategy,
                interval_ms=interval_s * 1000,
                timeout_ms=timeout_s * 1000,
                was_timeout_ms=self.recorded_timeout_s * 1000,
                handover=handover,
                notify=notify,
            )
            for strategy, interval_s, timeout_s, handover, notify in values
        ]
        if not 0 < len(combinations) <= MAX_CONFIGURATIONS:
            raise ConfigError(f"there must be 1 to {MAX_CONFIGURATIONS} configurations, got {len(combinations)}")
        return combinations


class TriedRules(NamedTuple):
    """One set of rules and its costs."""

    rules: Rules
    costs: Costs
    passes: int


class Baseline(NamedTuple):
    """The rules with which a trace was recorded, and how exactly a replay under them repeats it."""

    rules: Rules
    moves: int  # of the trace; see `Move`
    wrong_queues: int  # queues with another sequence of owners in the replay than in the trace


def collect_events(
    spark: SparkSession, paths: Sequence[Path], report: Callable[[str], object] = lambda note: None
) -> list[Event]:
    """Read the events of trace files that a replay needs, in file order; calls `report` if it skips lines.

    Raises:
        ConfigError: a file is missing or is not a trace.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415

    from pipeline.trace.source import read_files, report_non_events, trace_events  # noqa: PLC0415

    read = read_files(spark, paths).withColumn("place", F.monotonically_increasing_id())
    report_non_events(read, report)
    table = trace_events(read).orderBy("place").select(*Event._fields).toArrow()
    columns = [table.column(name).to_pylist() for name in Event._fields]
    return [Event(*values) for values in zip(*columns, strict=True)]


def read_group(events: Sequence[Event], group: str | None) -> RecordedGroup:
    """Read this group of a trace, by default its only one.

    Raises:
        ConfigError: the trace has no events, no group, several groups, or a group that cannot be replayed
            (`read_recorded`).
    """
    if not events:
        raise ConfigError("the trace has no events")
    if group is not None:
        return read_recorded(events, group)
    groups = groups_in(events)
    if not groups:
        raise ConfigError("no member joins a group in the trace: the trace has to begin before the group does")
    if len(groups) > 1:
        raise ConfigError(f"choose a group: the trace has {', '.join(groups)}")
    return read_recorded(events, groups[0])


def find_baseline(
    recorded: RecordedGroup, was_timeout_s: float, strategy: str | None = None, candidates: Iterable[str] = ()
) -> Baseline:
    """Find the rules with which a trace was recorded.

    Events do not name the strategy. Without `strategy`, each built-in strategy and each of `candidates` is replayed,
    and the one that repeats the moves of the trace best is returned.
    """
    baselines: list[Baseline] = []
    for name in dict.fromkeys((*BUILT_IN_STRATEGIES, *candidates)) if strategy is None else (strategy,):
        rules = Rules(
            strategy=name,
            interval_ms=recorded.interval_ms,
            timeout_ms=was_timeout_s * 1000,
            was_timeout_ms=was_timeout_s * 1000,
        )
        wrong = wrong_queues(recorded, replay(recorded, rules))
        baselines.append(Baseline(rules, len(recorded.moves), wrong))
    return min(baselines, key=lambda baseline: baseline.wrong_queues)


def wrong_queues(recorded: RecordedGroup, outcome: ReplayOutcome) -> int:
    """Count the queues whose sequence of owners differs from the trace."""
    was: dict[Any, list[str]] = {}
    now: dict[Any, list[str]] = {}
    for moves, owners in ((recorded.moves, was), (outcome.moves, now)):
        for move in moves:
            owners.setdefault(move.queue, []).append(move.to_client)
    return sum(was.get(queue) != now.get(queue) for queue in {*was, *now})


class Trials:
    """Replays one trace under many rules, of which most give the same owners at the same times: those costs are kept.

    A member processes `capacity_per_s` messages; without it, as many as the trace shows.
    """

    def __init__(self, recorded: RecordedGroup, capacity_per_s: float | None = None) -> None:
        self._recorded = recorded
        self._capacity_per_s = estimate_capacity(recorded) if capacity_per_s is None else capacity_per_s
        self._known: dict[tuple[Any, ...], Costs] = {}
        self._targets: dict[str, MemberTargets] = {}  # by strategy

    def run(self, rules: Sequence[Rules]) -> list[TriedRules]:
        """Replay the trace under each of these rules and compute the costs."""
        parts = (rules[first : first + MAX_KNOWN] for first in range(0, len(rules), MAX_KNOWN))
        return [tried for part in parts for tried in self._run_part(part)]

    def _run_part(self, rules: Sequence[Rules]) -> Iterator[TriedRules]:
        outcomes = [self._replay(each) for each in rules]
        keys = [
            (each.handover, outcome.moves, outcome.spans, outcome.alive, outcome.expired)
            for each, outcome in zip(rules, outcomes, strict=True)
        ]
        new = {
            key: (each.handover, outcome)
            for key, each, outcome in zip(keys, rules, outcomes, strict=True)
            if key not in self._known
        }
        costs = compute_all_costs(self._recorded, list(new.values()), self._capacity_per_s)
        all_known = {**self._known, **dict(zip(new, costs, strict=True))}
        self._known = {key: all_known[key] for key in keys}
        for each, key, outcome in zip(rules, keys, outcomes, strict=True):
            yield TriedRules(each, all_known[key], outcome.passes)

    def _replay(self, rules: Rules) -> ReplayOutcome:
        targets = self._targets.get(rules.strategy)
        if targets is None:
            targets = self._targets[rules.strategy] = MemberTargets(self._recorded.group, rules.strategy)
        return replay(self._recorded, rules, targets)


def try_rules(recorded: RecordedGroup, rules: Rules, capacity_per_s: float | None = None) -> TriedRules:
    """Replay a trace under some rules and compute the costs."""
    return Trials(recorded, capacity_per_s).run([rules])[0]


def as_recorded(recorded: RecordedGroup, replayed: TriedRules) -> TriedRules:
    """Return the replay with the counted costs of the trace itself; the estimated costs stay."""
    figures = recorded.figures
    counted = replayed.costs._replace(
        moves=figures.moves, orphan_s=figures.orphan_ms / 1000, duplicates=float(figures.duplicates)
    )
    return replayed._replace(costs=counted)


def try_all(
    spark: SparkSession, recorded: RecordedGroup, rules: Sequence[Rules], capacity_per_s: float | None = None
) -> DataFrame:
    """Replay a trace under each of these rules, lazily, with the columns of `COSTS_SCHEMA`."""
    shared = spark.sparkContext.broadcast(recorded)

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield costs_batch([(number, try_rules(shared.value, rules[number], capacity_per_s))])

    return spark.range(0, len(rules), 1, min(len(rules), 512)).mapInArrow(compute, COSTS_SCHEMA)


def costs_batch(numbered: Sequence[tuple[int, TriedRules]]) -> pa.RecordBatch:
    """Return configurations, each with its number among the rules, with the columns of `COSTS_SCHEMA`."""
    import pyarrow as pa  # noqa: PLC0415 - in a worker

    tried = [each for _, each in numbered]
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array([number for number, _ in numbered], pa.int32()),
            "strategy": [each.rules.strategy for each in tried],
            "interval_s": [each.rules.interval_ms / 1000 for each in tried],
            "timeout_s": [each.rules.timeout_ms / 1000 for each in tried],
            "handover": [each.rules.handover.value for each in tried],
            "notify": [each.rules.notify for each in tried],
            **{name: [getattr(each.costs, name) for each in tried] for name in Costs._fields},
            "passes": [each.passes for each in tried],
        }
    )


def collect_tried(table: DataFrame, rules: Sequence[Rules]) -> list[TriedRules]:
    """Collect the result of `try_all`, in the order of the rules."""
    rows = {row["number"]: row for row in table.collect()}
    return [
        TriedRules(each, Costs(*(rows[number][name] for name in Costs._fields)), rows[number]["passes"])
        for number, each in enumerate(rules)
    ]


def pareto_front(costs: Iterable[Costs]) -> list[bool]:
    """Return for each whether it is on the Pareto front: no other is as good in all costs and better in one."""
    every = list(costs)
    return [not any(_beats(other, own_costs) for other in every) for own_costs in every]


def _beats(beater: Costs, costs: Costs) -> bool:
    return beater != costs and all(a <= b for a, b in zip(beater, costs, strict=True))
