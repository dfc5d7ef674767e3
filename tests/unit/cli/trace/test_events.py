"""Files; the topic is read in tests/simulation/test_explanations.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

from cli.trace.events import SkippedLines, follow_topic, read_files
from model.errors import ConfigError
from model.event_log import encode_events
from tests.unit.traces.check.histories import clean, numbered
from traces.figures.clocks.clocks import Clocks


def test_files_are_read_in_order_and_lines_that_are_not_events_are_counted(tmp_path: Path) -> None:
    events, path = numbered(clean()), tmp_path / "t.jsonl"
    path.write_bytes(b"garbage\n\n" + encode_events(reversed(events)) + b"{}\n")
    skipped = SkippedLines()
    assert list(read_files([path], skipped)) == events
    assert (skipped.n, skipped.first) == (2, "not an event: b'garbage\\n'")


def test_a_trace_is_read_with_the_right_times_of_a_client_whose_clock_is_a_day_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, skipped = numbered(clean()), SkippedLines()
    paths = [tmp_path / "brokers.jsonl", tmp_path / "c1.jsonl"]
    paths[0].write_bytes(encode_events(event for event in events if event.node != "c1"))
    wrong = [event._replace(t_ms=event.t_ms + 86_400_000) for event in events if event.node == "c1"]
    paths[1].write_bytes(encode_events(wrong))
    reported: list[Clocks] = []
    for held in (100_000, 10):  # in memory, and read a second time
        monkeypatch.setattr("cli.trace.events.HELD_EVENTS", held)
        read = list(read_files(paths, skipped, reported.append))
        assert sorted(event.id for event in read) == sorted(event.id for event in events)
        assert max(event.t_ms for event in read) < 300
        assert [event.seq for event in read if event.node == "c1"] == [e.seq for e in events if e.node == "c1"]
    assert [str(fault) for fault in reported[-1].faults] == ["the clock of c1 is 24 h ahead"]


def test_a_file_that_is_not_there_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name a file of JSON Lines, or - for standard input"):
        list(read_files([tmp_path / "gone"], SkippedLines()))


def test_a_trace_that_never_rests_is_followed_from_its_first_read_on() -> None:
    class Busy:
        """An `Admin` and its reader, which always has something new."""

        def trace(self, since_ms: float) -> Busy:
            return self

        async def read(self) -> list[Any]:
            await checkpoint()
            return numbered(clean())[:1]

    async def first() -> int:
        with anyio.fail_after(10):
            _, events = await anext(follow_topic(cast(Any, Busy()), 0.0))
        return len(events)

    assert anyio.run(first) == 1
