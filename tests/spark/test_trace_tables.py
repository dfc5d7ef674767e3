"""The trace tables: by hand, and the same as the figures of one process without Spark, on random traces.

All traces are one table with a group for each, so that Spark goes over them once.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from model.errors import ConfigError
from model.event_log import encode_events
from model.events import Event, EventKind
from model.limits import RUN_SEQS
from pipeline.report.data import Report
from pipeline.report.job import write_report
from pipeline.trace.alone import read_events
from pipeline.trace.alone import write_arrow_tables as alone_tables
from pipeline.trace.source import read_files
from pipeline.trace.tables import TABLES, count_nodes, find_losses, set_aside, write_tables
from tests.spark import trace_twin
from traces.figures.group import GroupFigures
from traces.figures.over_time import SHORTEST_BUCKET_MS
from traces.figures.records import Ownership, order_of

pytestmark = pytest.mark.spark

Tables = dict[str, list[dict[str, Any]]]
TWINS = [f"twin{number}" for number in range(40)]
ONE = "absence"
START_MS, END_MS = 1_000_000.0, 1_060_000.0


class Trace:
    """Events of one group, written down by hand: times count from `START_MS`."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.events: list[Event] = []
        self.groupless: list[Event] = []
        self._seqs: dict[str, int] = {}

    def add(self, t_ms: float, node: str, kind: EventKind, cause: str = "", **columns: Any) -> str:
        node = f"{self.group}.{node}"
        self._seqs[node] = self._seqs.get(node, 0) + 1
        cause = cause or f"{node}/{self._seqs[node]}"
        if "client" in columns:
            columns["client"] = f"{self.group}.{columns['client']}"
        event = Event(START_MS + t_ms, node, self._seqs[node], kind.value, cause, self.group, **columns)
        self.events.append(event)
        return cause

    def queue(self, t_ms: float, kind: EventKind, client: str, cause: str = "", **columns: Any) -> str:
        node = "b" if kind in BROKERS_SAY else client
        queue = {"topic": "t", "broker": "b", "queue_id": 0} | columns
        return self.add(t_ms, node, kind, cause, client=client, **queue)


BROKERS_SAY = {
    EventKind.LOCK_GRANTED,
    EventKind.LOCK_EXPIRED,
    EventKind.OFFSET_COMMITTED,
    EventKind.OFFSET_RESET,
}
E = EventKind


def a_move() -> Trace:
    """c1 has a queue of 100 messages, c2 joins at 100 and gets it: 12 ms pause, of which 10 without an owner."""
    trace = Trace("move")
    first = trace.add(0, "c1", E.CLIENT_START, client="c1")
    trace.queue(5, E.LOCK_GRANTED, "c1", first, version=7, offset=0, n=100)
    trace.queue(6, E.QUEUE_ACQUIRED, "c1", first, version=7, offset=0)
    trace.queue(6, E.QUEUE_ACQUIRED, "c1", first, version=8, offset=0, queue_id=1)
    joined = trace.add(100, "c2", E.CLIENT_START, client="c2")
    trace.add(101, "b", E.MEMBER_JOIN, joined, client="c2", n=2, detail="t=*")
    trace.add(103, "c1", E.REBALANCE_BEGIN, joined, client="c1", detail="NOTIFY")
    reported = {"version": 7, "offset": 60, "n": 60, "detail": "waited_ms=5.0 max_ms=9.0"}
    trace.queue(150, E.MESSAGES_HANDED_OUT, "c1", first, **reported)
    trace.queue(150, E.QUEUE_DROPPED, "c1", joined, version=7, detail="revoked")
    trace.add(151, "c1", E.REBALANCE_END, joined, client="c1", n=1, detail="NOTIFY balanced")
    trace.add(104, "c2", E.REBALANCE_BEGIN, joined, client="c2", detail="START+LOCK")
    trace.queue(158, E.OFFSET_COMMITTED, "c1", joined, offset=55, n=45)
    trace.queue(159, E.LOCK_GRANTED, "c2", joined, version=9, offset=55, n=45)
    trace.queue(160, E.QUEUE_ACQUIRED, "c2", joined, version=9, offset=55)
    trace.add(161, "c2", E.REBALANCE_END, joined, client="c2", n=1, detail="START+LOCK balanced")
    trace.queue(162, E.FIRST_PULL, "c2", joined, version=9, offset=55)
    trace.queue(170, E.FIRST_MESSAGE, "c2", joined, version=9, offset=55)
    trace.queue(5200, E.MESSAGES_HANDED_OUT, "c2", joined, **{**reported, "version": 9, "offset": 58, "n": 3})
    return trace


def an_expansion() -> Trace:
    """A topic gets more queues on two brokers; each tells of it, without a group."""
    trace = Trace("expansion")
    trace.add(0, "c1", E.CLIENT_START, client="c1")
    for broker in ("a", "b"):
        trace.add(100, broker, E.ROUTE_CHANGED, topic="t", broker=broker, n=8)
        reported = trace.events.pop()
        trace.groupless.append(reported._replace(group=""))
        trace.queue(110, E.QUEUE_ACQUIRED, "c1", reported.cause, version=1, offset=0, broker=broker)
    return trace


def an_absence() -> Trace:
    """c1 is away for a moment and goes on where it was, although the broker has only 90 of its 100 messages."""
    trace = Trace("absence")
    reported = {"detail": "waited_ms=0.0 max_ms=0.0"}
    trace.queue(5, E.LOCK_GRANTED, "c1", version=1, offset=0, n=200)
    trace.queue(6, E.QUEUE_ACQUIRED, "c1", version=1, offset=0)
    trace.queue(100, E.MESSAGES_HANDED_OUT, "c1", version=1, offset=100, n=100, **reported)
    trace.queue(101, E.OFFSET_COMMITTED, "c1", offset=90, n=110)
    trace.queue(200, E.LOCK_EXPIRED, "c1", version=1, detail="close")
    trace.queue(300, E.LOCK_GRANTED, "c1", version=2, offset=90, n=110)
    trace.queue(400, E.MESSAGES_HANDED_OUT, "c1", version=2, offset=150, n=50, **reported)
    return trace


def transactions() -> Trace:
    """A producer group with an event for several transactions, and another one with one each."""
    trace = Trace("shop")
    cause = trace.add(10, "a", E.HALF_STORED, n=5)
    trace.add(20, "b", E.HALF_STORED, n=1)
    trace.add(30, "a", E.TRANSACTION_COMMITTED, cause, n=2)
    trace.add(40, "a", E.TRANSACTION_ROLLED_BACK, cause, n=1)
    for number in (1, 2, 3):
        trace.add(100 * number, "a", E.TRANSACTION_CHECKED, cause, n=number)
    trace.add(500, "a", E.TRANSACTION_GIVEN_UP, cause, n=1)
    trace.add(600, "b", E.TRANSACTION_COMMITTED, n=1)
    return trace


def random_trace(group: str) -> Trace:
    """Everything that may happen to two queues and three members, in any order: also what never does."""
    rng, trace, token = random.Random(group), Trace(group), 0
    tokens: dict[tuple[str, int], int] = {}
    causes = [trace.add(0, f"c{n}", E.CLIENT_START, client=f"c{n}") for n in range(3)] + ["unknown/1"]
    kinds = [E.QUEUE_ACQUIRED, E.QUEUE_DROPPED, E.LOCK_EXPIRED, E.LOCK_GRANTED, E.FIRST_PULL, E.FIRST_MESSAGE]
    kinds += [E.MESSAGES_HANDED_OUT, E.OFFSET_COMMITTED, E.MEMBER_JOIN, E.MEMBER_LEAVE, E.REBALANCE_BEGIN]
    kinds += [E.OFFSET_RESET]
    t_ms = 0.0
    for _ in range(rng.randrange(5, 120)):
        t_ms += rng.choice((0, 0.5, 1, 7, 400))
        kind, client, queue_id = rng.choice([*kinds, E.REBALANCE_END]), f"c{rng.randrange(3)}", rng.randrange(2)
        cause = rng.choice([*causes, ""])
        if kind in (E.MEMBER_JOIN, E.MEMBER_LEAVE):
            trace.add(t_ms, "b", kind, cause, client=client, n=rng.randrange(1, 4), detail="close")
        elif kind in (E.REBALANCE_BEGIN, E.REBALANCE_END):
            trace.add(
                t_ms, client, kind, cause, client=client, n=1, detail=rng.choice(("TIMER", "LOCK+NOTIFY", "LOCK x"))
            )
        else:
            if kind in (E.QUEUE_ACQUIRED, E.LOCK_GRANTED):
                token = tokens[client, queue_id] = token + 1
            columns = {
                "version": token if kind is E.OFFSET_RESET else tokens.get((client, queue_id), 0),
                "offset": rng.randrange(100),
                "n": rng.randrange(-1, 9),
            }
            if kind is E.LOCK_EXPIRED and rng.random() < 0.3:
                columns["version"] -= 1
            detail = rng.choice(("revoked", "lost", "reset"))
            if kind is E.MESSAGES_HANDED_OUT:
                columns["n"] = rng.randrange(1, 9)
                detail = f"waited_ms={rng.randrange(50)}.5 max_ms={rng.randrange(50, 99)}.0"
            topic = rng.choice(("t", "t", "u", "%RETRY%g"))
            trace.queue(t_ms, kind, client, cause, queue_id=queue_id, detail=detail, topic=topic, **columns)
    return trace


@pytest.fixture(scope="module")
def traces() -> dict[str, list[Event]]:
    by_hand = [a_move(), an_expansion(), an_absence(), transactions()]
    made = [*by_hand, *map(random_trace, TWINS)]
    ends = [Event(t_ms, "end", n, E.BROKER_UP.value, "end/1") for n, t_ms in enumerate((START_MS, END_MS), 1)]
    return {trace.group: trace.events for trace in made} | {"": ends + [e for trace in made for e in trace.groupless]}


@pytest.fixture(scope="module")
def trace(traces: dict[str, list[Event]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all events in any order, some of them twice, and a line that breaks off."""
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    events = [event for of_group in traces.values() for event in of_group]
    random.Random(1).shuffle(events)
    path.write_bytes(encode_events(events) + encode_events(events[:50]) + b'{"t_ms": 1')
    return path


@pytest.fixture(scope="module")
def tables(spark: SparkSession, trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    directory = tmp_path_factory.mktemp("tables")
    assert write_tables(read_files(spark, [trace]), directory) == (1, ()), "a line breaks off"
    return read_tables(spark, directory)


class OneReport(NamedTuple):
    report: Report
    folder: Path


@pytest.fixture(scope="module")
def of_one(spark: SparkSession, trace: Path, tmp_path_factory: pytest.TempPathFactory) -> OneReport:
    """The report of one group of the trace, computed by Spark, whose tasks read the file themselves."""
    folder = tmp_path_factory.mktemp("one")
    return OneReport(write_report(read_files(spark, [trace]), folder, group=ONE, files=[trace]), folder)


def read_tables(spark: SparkSession, folder: Path) -> Tables:
    return {name: [row.asDict() for row in spark.read.parquet(str(folder / name)).collect()] for name in TABLES}


def of(rows: list[dict[str, Any]], group: str, *columns: str, by: str = "from_ms") -> list[tuple[Any, ...]]:
    own = sorted((row for row in rows if row["group"] == group), key=lambda row: row[by])
    values = [tuple(row[name] for name in columns) for row in own]
    return [tuple(v.split(".")[1] if str(v).startswith(f"{group}.") else v for v in row) for row in values]


# ------------------------------------------------------------------------------------------------------------- by hand


def test_a_move_costs_a_pause_and_what_was_handed_out_and_not_committed(tables: Tables) -> None:
    assert of(tables["ownership"], "move", "queue_id", "owner", "from_ms", "to_ms", "ended", "backlog", by="token") == [
        (0, "c1", START_MS + 6, START_MS + 150, "revoked", 100),
        (1, "c1", START_MS + 6, END_MS, "open", None),
        (0, "c2", START_MS + 160, END_MS, "open", 45),
    ]
    costs = ("from_client", "owner", "moved", "orphan_ms", "pause_ms", "double_ms", "redelivered", "duplicates")
    [*_, taken] = of(tables["ownership"], "move", *costs)
    assert taken == ("c1", "c2", True, 10, 12, 0, 5, 3)


def test_a_rebalance_lasts_from_its_cause_to_the_last_queue_and_is_held_against_the_fewest_moves(
    tables: Tables,
) -> None:
    assert of(
        tables["rebalances"],
        "move",
        *("kind", "client", "trigger", "members", "balance_ms", "passes", "moves", "needed", "pause_max_ms"),
        by="began_ms",
    ) == [
        ("CLIENT_START", "c1", "", 1, 6, 0, 2, 2, 0),
        ("CLIENT_START", "c2", "LOCK+NOTIFY+START", 2, 60, 2, 1, 1, 12),
    ]
    assert of(tables["fairness"], "move", "members", "queues", "needed", "jain", "spread", by="t_ms") == [
        (1, 2, 2, 1.0, 0),
        (2, 2, 1, 1.0, 0),
    ]


def test_what_was_handed_out_and_what_waits_is_reported_by_the_second(tables: Tables) -> None:
    assert of(tables["delivery"], "move", "t_ms", "handed_out", "latency_ms", "latency_max_ms", "lag", by="t_ms") == [
        (START_MS, 60, 5.0, 9.0, 45),
        (START_MS + 5000, 3, 5.0, 9.0, 45),
    ]


def test_an_event_that_was_sent_twice_counts_once(tables: Tables, traces: dict[str, list[Event]]) -> None:
    assert len(tables["events"]) == sum(map(len, traces.values()))


def test_events_are_missing_where_the_numbers_of_a_run_have_gaps_and_not_between_two_runs(spark: SparkSession) -> None:
    numbers = {"a": (3, 4, 6, RUN_SEQS + 1, RUN_SEQS + 4), "b": (7,)}
    rows = [(node, seq, float(seq % 100)) for node, seqs in numbers.items() for seq in seqs]
    found = count_nodes(spark.createDataFrame(rows, "node string, seq bigint, t_ms double")).collect()
    assert sorted(tuple(row) for row in found) == [("a", 5, 1.0, 6.0, 3), ("b", 1, 7.0, 7.0, 0)]


def test_damage_that_is_reported_at_each_start_is_one_loss(spark: SparkSession) -> None:
    rows = [
        (kind, group, "t", "broker-a", 3, offset, n, detail)
        for kind, group, offset, n, detail in (
            ("MESSAGES_DAMAGED", "", 50, 20, "0.log"),
            ("MESSAGES_DAMAGED", "", 50, 20, "0.log"),
            ("OFFSET_MOVED", "g", 70, 20, "damaged"),
            ("OFFSET_MOVED", "g", 99, 0, "beyond the end"),
            ("MESSAGES_DELETED", "", -1, 7, "size"),
        )
    ]
    columns = (
        "kind string, group string, topic string, broker string, queue_id int, offset bigint, n bigint, detail string"
    )
    found = find_losses(spark.createDataFrame(rows, columns)).collect()
    assert sorted(tuple(row) for row in found) == [rows[0], rows[2]]


def test_a_report_that_was_stopped_while_it_left_out_doubles_can_be_recreated(tmp_path: Path) -> None:
    for name in ("events", "events_as_read"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.parquet").touch()
    aside = set_aside(tmp_path / "events")
    assert [path.name for path in aside.iterdir()] == ["events.parquet"]
    assert not (tmp_path / "events").exists()


# ---------------------------------------------------------------------------------------------------- against the twin


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def value(one: Any) -> Any:
        return round(one, 6) if isinstance(one, float) else one

    return sorted(({name: value(row[name]) for name in sorted(row)} for row in rows), key=lambda row: str(row.items()))


def in_one_process(events: list[Event]) -> dict[str, list[dict[str, Any]]]:
    """The tables of a group without Spark."""
    [group] = {event.group for event in events}
    figures = GroupFigures(group)
    rows = [row for event in sorted(events, key=order_of) for row in figures.feed(event)]
    rows += figures.finish(END_MS)
    found: dict[str, list[dict[str, Any]]] = {"ownership": [], "rebalances": [], "fairness": []}
    for row in rows:
        if isinstance(row, Ownership):
            found["ownership"].append(asdict(row))
            continue
        columns = asdict(row)
        found["fairness"] += [{"group": group, "cause": row.cause, **loads} for loads in columns.pop("loads")]
        found["rebalances"].append({**columns, "balance_ms": row.balance_ms})
    return found | {
        "totals": [asdict(figures.totals())],
        "delivery": trace_twin.delivery(events, START_MS, SHORTEST_BUCKET_MS),
    }


@pytest.mark.parametrize("name", ["ownership", "rebalances", "fairness", "totals", "delivery"])
def test_every_table_is_that_of_one_process_without_spark(
    tables: Tables, traces: dict[str, list[Event]], name: str
) -> None:
    compared = 0
    for group in TWINS:
        found = [row for row in tables[name] if row["group"] == group]
        assert rounded(found) == rounded(in_one_process(traces[group])[name]), f"seed {group!r}"
        compared += len(found)
    assert compared >= len(TWINS), "the traces are not empty"


@pytest.mark.parametrize("group", [None, ONE])
def test_every_table_is_the_same_when_a_process_alone_computes_it(
    tables: Tables, of_one: OneReport, spark: SparkSession, trace: Path, tmp_path: Path, group: str | None
) -> None:
    events, others = read_events([trace])
    alone = alone_tables(events, tmp_path, group=group)
    expected = tables if group is None else read_tables(spark, of_one.folder / "tables")
    assert others == 1
    found = read_tables(spark, alone)
    for name in expected:
        assert rounded(found[name]) == rounded(expected[name]), name


def test_transactions_are_counted_by_what_their_events_say_and_checks_by_their_number(tables: Tables) -> None:
    [row] = tables["transactions"]
    assert row == {"group": "shop", "half": 6, "committed": 3, "rolled_back": 1, "checks": 3, "given_up": 1}


def test_a_change_of_a_topic_has_one_row_although_its_events_name_no_group(tables: Tables) -> None:
    [row] = [row for row in tables["rebalances"] if row["kind"] == "ROUTE_CHANGED"]
    assert (row["group"], row["moves"]) == ("expansion", 2)


def test_of_one_group_there_is_nothing_but_that_group(of_one: OneReport, traces: dict[str, list[Event]]) -> None:
    report, own = of_one.report, traces[ONE]
    assert [one.totals.group for one in report.groups] == [ONE]
    assert (report.events, report.nodes) == (len(own), len({event.node for event in own}))
    assert (report.started_ms, report.span_ms) == (own[0].t_ms, own[-1].t_ms - own[0].t_ms)
    assert {row["t_ms"] for row in report.groups[0].delivery} == {0}
    page = (of_one.folder / "index.html").read_text(encoding="utf-8")
    assert f"<title>Rebalances of {ONE}</title>" in page


def test_a_group_of_which_a_trace_reports_nothing_is_one_clear_error(
    spark: SparkSession, trace: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no event of group 'moved'"):
        write_report(read_files(spark, [trace]), tmp_path, group="moved")


# ------------------------------------------------------------------------------------------------------------ bad input


def test_a_trace_that_is_not_there_or_is_empty_is_one_clear_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no trace .*gone\.jsonl"):
        read_files(spark, [tmp_path / "gone.jsonl"])
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ConfigError, match="no event"):
        write_tables(read_files(spark, [tmp_path / "empty.jsonl"]), tmp_path / "tables")
    (tmp_path / "folder").mkdir()
    (tmp_path / "lines.parquet").write_text("{}\n", encoding="utf-8")
    for name in ("folder", "lines.parquet"):
        with pytest.raises(ConfigError, match=f"{name} is not a trace in Parquet"):
            read_files(spark, [tmp_path / name])
