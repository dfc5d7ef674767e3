"""Events on disk, one JSON object per line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.servers.trace_file import TraceFile
from model.errors import ConfigError
from model.events import Event, EventKind


def event(seq: int) -> Event:
    return Event(t_ms=1.5, node="broker-a", seq=seq, kind=EventKind.BROKER_UP, cause="broker-a/1")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_event_is_one_line_and_a_file_is_added_to(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    for seqs in ((1, 2), (3,)):
        with TraceFile(path) as trace:
            for seq in seqs:
                trace.write(event(seq))
    assert lines(path) == [event(seq)._asdict() for seq in (1, 2, 3)]


def test_what_is_flushed_can_be_read_while_the_file_is_open(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with TraceFile(path) as trace:
        trace.write(event(1))
        trace.flush()
        assert len(lines(path)) == 1


def test_a_file_that_cannot_be_written_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write the trace file .*Is a directory"):
        TraceFile(tmp_path)
    with pytest.raises(ConfigError, match="No such file or directory"):
        TraceFile(tmp_path / "missing" / "trace.jsonl")


def test_a_disk_that_takes_no_more_ends_the_trace_with_one_line_in_the_log_and_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trace.jsonl"
    os.mkfifo(path)  # whose reader goes away: every write fails then, on every system
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with TraceFile(path) as trace:
        trace.write(event(1))
        os.close(reader)
        for _ in range(3):
            trace.flush()
            for seq in range(1_000):  # more than the buffer holds
                trace.write(event(seq))
    assert [record.getMessage() for record in caplog.records] == [f"the trace file {path} ends here: Broken pipe"]


def test_a_disk_that_takes_no_more_is_noticed_by_a_write_that_fills_the_buffer_and_by_the_close(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, events in enumerate((1_000, 1)):
        path = tmp_path / f"{number}.jsonl"
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with TraceFile(path) as trace:
            os.close(reader)
            for seq in range(events):
                trace.write(event(seq))
        assert f"{path} ends here" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 2
