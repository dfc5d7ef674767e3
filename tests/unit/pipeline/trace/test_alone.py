from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from model.errors import ConfigError
from model.event_log import encode_events
from model.events import Event, EventKind
from model.limits import RUN_SEQS
from pipeline.trace.alone import (
    MOST_EVENTS,
    events_of,
    in_right_times,
    is_for_one_process,
    read_events,
    read_trace,
    write_arrow_tables,
)
from tests.unit.traces.check.histories import clean, numbered

EVENTS = [
    Event(1_000.5, "c1", 3, EventKind.CLIENT_START.value, "c1/3", "g", client="c1"),
    Event(1_001, "b", 4, EventKind.MESSAGES_DAMAGED.value, "b/4", topic="t", broker="b", queue_id=3, offset=50, n=20),
    Event(1_002, "b", RUN_SEQS + 4, EventKind.MEMBER_JOIN.value, "c1/3", "g", client="c1", n=1, detail="t=*"),
    Event(1_003, "b", RUN_SEQS + 7, EventKind.MEMBER_JOIN.value, "c2/9", "other", client="c2", n=1),
]


def rows(folder: Path, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(folder / name).to_pylist()
    return found


def test_lines_that_are_not_events_are_counted_and_left_out(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    broken = [
        b'{"t_ms": 1',
        b"[]",
        b"7",
        b'{"t_ms": true}',
        b"",
        encode_events(EVENTS[:1]).replace(b'"seq": 3', b'"seq": "3"'),
    ]
    trace.write_bytes(encode_events(EVENTS) + b"\n".join(broken))
    assert read_events([trace]) == (EVENTS, 5)
    trace.write_bytes(encode_events(EVENTS) + b'{"t_ms": 1}\n')
    assert read_events([trace]) == (EVENTS, 1)


def test_an_event_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_bytes(encode_events(EVENTS[:3]))
    second.write_bytes(encode_events(EVENTS[1:]))
    assert sorted(read_events([first, second])[0]) == sorted(EVENTS)


@pytest.mark.parametrize("group", [None, "g"])
def test_the_tables_are_the_same_with_the_events_as_they_were_read(tmp_path: Path, group: str | None) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_bytes(encode_events(EVENTS[:3]) + b'{"t_ms": 1}\n')
    second.write_bytes(encode_events(EVENTS[1:]))
    trace, others = read_trace([first, second])
    assert (events_of(trace), others) == (EVENTS, 1)
    write_arrow_tables(events_of(trace), tmp_path / "read", group=group, trace=trace)
    write_arrow_tables(EVENTS, tmp_path / "built", group=group)
    names = sorted(folder.name for folder in (tmp_path / "built").iterdir())
    assert {name: rows(tmp_path / "read", name) for name in names} == {
        name: rows(tmp_path / "built", name) for name in names
    }


def test_a_table_of_events_can_be_read_again(tmp_path: Path) -> None:
    write_arrow_tables(EVENTS, tmp_path)
    assert read_events([tmp_path / "events" / "part-0.parquet"]) == (EVENTS, 0)
    with pytest.raises(ConfigError, match="is not a trace in Parquet"):
        read_events([tmp_path / "nodes" / "part-0.parquet"])


def test_of_a_node_its_missing_numbers_are_counted_in_each_run_over_all_groups(tmp_path: Path) -> None:
    write_arrow_tables(EVENTS, tmp_path)
    nodes = {row.pop("node"): row for row in rows(tmp_path, "nodes")}
    assert nodes["b"] == {"events": 3, "first_ms": 1_001, "last_ms": 1_003, "lost": 2}
    write_arrow_tables(EVENTS, tmp_path, group="g")
    assert {row["node"]: (row["events"], row["lost"]) for row in rows(tmp_path, "nodes")} == {"b": (1, 2), "c1": (1, 0)}


def test_damage_that_is_reported_twice_is_one_loss(tmp_path: Path) -> None:
    again = EVENTS[1]._replace(seq=RUN_SEQS + 5, t_ms=1_500.0)
    write_arrow_tables([*EVENTS, again], tmp_path)
    assert [(row["offset"], row["n"]) for row in rows(tmp_path, "losses")] == [(50, 20)]


@pytest.mark.parametrize(("events", "group", "error"), [([], None, "no event"), (EVENTS, "h", "no event of group 'h'")])
def test_without_events_there_is_one_clear_error(
    tmp_path: Path, events: list[Event], group: str | None, error: str
) -> None:
    with pytest.raises(ConfigError, match=error):
        write_arrow_tables(events, tmp_path, group=group)


def test_long_traces_and_folders_of_streams_are_for_spark(tmp_path: Path) -> None:
    short, long = tmp_path / "short.jsonl", tmp_path / "long.jsonl"
    short.write_bytes(b"{}\n" * MOST_EVENTS)
    long.write_bytes(b"{}\n" * (MOST_EVENTS + 1))
    assert is_for_one_process([short])
    assert not is_for_one_process([long])
    assert not is_for_one_process([short, short])
    assert not is_for_one_process([tmp_path])


def test_a_short_report_imports_neither_spark_nor_pandas(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_bytes(encode_events([*EVENTS, EVENTS[0]]) + b'{"t_ms": 1}\n')
    code = (
        "import sys, pathlib; from pipeline.report.folder import write_report_without_spark as write; "
        "here = pathlib.Path(sys.argv[1]); write([here / 'trace.jsonl'], here); "
        "write([here / 'trace.jsonl'], here, group='g'); "
        "sys.exit(', '.join(sys.modules.keys() & {'pyspark', 'pandas'}) or 0)"
    )
    run = subprocess.run([sys.executable, "-c", code, tmp_path], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_tables_have_right_times_although_the_clock_of_a_client_is_a_day_off(tmp_path: Path) -> None:
    right = [event for event in numbered(clean()) if event.seq >= 0]
    wrong = [event._replace(t_ms=event.t_ms + 86_400_000) if event.node == "c1" else event for event in right]
    for name, recorded in (("right", right), ("wrong", wrong)):
        events, clocks = in_right_times(recorded)
        assert list(map(str, clocks)) == ["the clock of c1 is 24 h ahead"] * (name == "wrong")
        write_arrow_tables(events, tmp_path / name, group="g")

    def owned(name: str) -> list[tuple[object, ...]]:
        columns = ("queue_id", "owner", "token", "ended", "duplicates")
        return sorted(tuple(row[column] for column in columns) for row in rows(tmp_path / name, "ownership"))

    assert owned("wrong") == owned("right")
    assert max(float(str(row["t_ms"])) for row in rows(tmp_path / "wrong", "events")) < 1_000
    [totals] = rows(tmp_path / "wrong", "totals")
    assert (totals["double_ms"], totals["duplicates"]) == (0, 0)
