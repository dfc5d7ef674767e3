"""Events on disk, one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from model.errors import ConfigError
from model.events import Event, EventKind
from remoting.trace_file import TraceFile


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
    assert lines(path) == [event(seq).to_json_dict() for seq in (1, 2, 3)]


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
