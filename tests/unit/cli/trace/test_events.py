"""Files; the topic is read in tests/simulation/test_explanations.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

from cli.trace.events import Skipped, follow_topic, read_files
from model.errors import ConfigError
from model.event_log import encode_events
from tests.unit.figures.history.histories import clean, numbered


def test_files_are_read_in_order_and_lines_that_are_no_events_are_counted(tmp_path: Path) -> None:
    events, path = numbered(clean()), tmp_path / "t.jsonl"
    path.write_bytes(b"garbage\n\n" + encode_events(reversed(events)) + b"{}\n")
    skipped = Skipped()
    assert list(read_files([path], skipped)) == events
    assert (skipped.n, skipped.first) == (2, "not an event: b'garbage\\n'")


def test_a_file_that_is_not_there_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name a file of JSON Lines, or - for standard input"):
        list(read_files([tmp_path / "gone"], Skipped()))


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
